"""The runner of other people's suites (tests/conformance) where its parent has been unkind."""
from __future__ import annotations

from pathlib import Path

from harness import programs

CHILD = """
import json, signal, sys
ignored = [number.name for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
           if signal.getsignal(number) == signal.SIG_IGN]
with open(sys.argv[2], "a") as report:
    print(json.dumps({"end": "it", "outcome": "passed", "text": "", "on_loop": True}), file=report)
    print(json.dumps({"fixture": "ignored", "text": str(ignored)}), file=report)
    print(json.dumps({"finished": True}), file=report)
"""

RUNNER = """
import argparse, signal, sys
from pathlib import Path
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
sys.path.insert(0, sys.argv[1])
import harness
suite = harness.Suite(Path(sys.argv[2]), Path(sys.argv[3]), ["test_it"])
harness.main(suite, argparse.Namespace(launch="", modules="", update=False, json=None))
"""


def test_a_suite_under_nohup_runs_with_the_signals_of_a_terminal(tmp_path: Path) -> None:
    """A test that ended its child by SIGHUP waited until its time was over."""
    for name, text in (("child.py", CHILD), ("runner.py", RUNNER),
                       ("list.toml", 'python = "3"\n[skip]\n[modules]\n')):
        (tmp_path / name).write_text(text)
    done = programs.here().run(str(tmp_path / "runner.py"),
                               str(programs.ROOT / "tests" / "conformance"),
                               str(tmp_path / "child.py"), str(tmp_path / "list.toml"))
    assert "WRONG test_it: ignored: []" in done.stdout, done.stdout + done.stderr
