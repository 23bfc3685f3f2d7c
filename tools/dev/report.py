"""Counts of a test run: one Tally a part, one line at the end that people and CI read.

A skip keeps its reason; equal reasons are shown once with their number.
"""
from __future__ import annotations

import collections
import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from output import say


@dataclasses.dataclass
class Tally:
    part: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    reasons: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    faults: list[str] = dataclasses.field(default_factory=list)    # what failed and how, in short

    def line(self) -> str:
        return (f"{self.part:<24} {self.passed:>6} passed {self.failed:>4} failed "
                f"{self.skipped:>4} skipped {self.seconds:>7.1f} s")


def of_pytest(part: str, report: Path, code: int) -> Tally:
    """From pytest's XML report; a run that died without one counts as one failure."""
    tally = Tally(part)
    if not report.exists():
        tally.failed = 1
        tally.faults.append(f"pytest ended with status {code} and left no report")
        return tally
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag: child for child in case}
        wrong = kinds.get("failure", kinds.get("error"))
        if wrong is not None:
            tally.failed += 1
            tally.faults.append(f"{case.get('classname')}::{case.get('name')}: "
                                f"{wrong.get('message', '')[:300]}")
        elif "skipped" in kinds:
            tally.skipped += 1
            tally.reasons[kinds["skipped"].get("message", "no reason given")] += 1
        else:
            tally.passed += 1
    if code not in (0, 1) or (code == 1 and tally.failed == 0):
        tally.failed += 1      # no test collected, an interrupt, a crash
        tally.faults.append(f"pytest itself failed, with status {code}")
    return tally


_ALL = re.compile(r"All tests passed \(.* in (\d+) test cases?\)")
_SOME = re.compile(r"test cases: *(\d+)(.*)")
_PASSED = re.compile(r"(\d+) passed")


def of_catch(part: str, text: str, code: int) -> Tally:
    """From the closing lines of a Catch2 program; a crash counts as one failure."""
    tally = Tally(part)
    everything = _ALL.search(text)
    some = _SOME.search(text)
    if everything is not None:
        tally.passed = int(everything.group(1))
    elif some is not None:
        passed = _PASSED.search(some.group(2))
        tally.passed = int(passed.group(1)) if passed else 0
        tally.failed = int(some.group(1)) - tally.passed
    if code != 0 and tally.failed == 0:
        tally.failed = 1
    if tally.failed:
        tally.faults += _catch_faults(text)
    if code == 0 and tally.passed == 0:
        tally.failed = 1       # a program that ran nothing proves nothing
    return tally


_RULE = re.compile(r"^-{79}$", re.MULTILINE)


def _catch_faults(text: str) -> list[str]:
    """The blocks that Catch2 prints for a failed check; without any, the end of the output."""
    parts = [part.strip() for part in _RULE.split(text)]    # in turn: a case's name, its checks
    blocks = [f"{name}\n{checks[:800]}" for name, checks in zip(parts, parts[1:])
              if "FAILED" in checks]
    return blocks[:10] or [text[-2000:]]


def of_code(part: str, code: int) -> Tally:
    return Tally(part, passed=int(code == 0), failed=int(code != 0))


def summary(tallies: list[Tally]) -> int:
    """Prints the table and the closing line; returns the exit code."""
    print()
    for tally in tallies:
        say(tally.line())
    reasons: collections.Counter[str] = collections.Counter()
    for tally in tallies:
        reasons.update(tally.reasons)
    for reason, count in reasons.most_common():
        say(f"skipped {count}: {reason}")
    for tally in tallies:
        for fault in tally.faults:
            say(f"failed in {tally.part}: {fault}")
    failed = sum(tally.failed for tally in tallies)
    passed = sum(tally.passed for tally in tallies)
    print(f"{passed} passed, {failed} failed, {sum(tally.skipped for tally in tallies)} skipped",
          flush=True)
    return 0 if failed == 0 and passed > 0 else 1
