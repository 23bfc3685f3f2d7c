"""./dev tidy: prints every finding as FILE:LINE: RULE: sentence. Exit code 1 if there is one."""
from __future__ import annotations

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tidy import source, words  # noqa: E402
from tidy.rules import check    # noqa: E402


def main() -> int:
    findings = check(source.tree()) + list(words.stray_files(source.tracked()))
    for finding in findings:
        print(finding)
    print(f"{len(findings)} finding(s)")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
