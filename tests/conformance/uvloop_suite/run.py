"""uvloop's own tests on ringloop's loop, against the list of what must pass.

    run.py [--json FILE] [--update] [--modules a,b] [--launch "--deny-uring EPERM"] [--on-uvloop]

The tests come with uvloop's source distribution, which pip fetches once into the tree's build
folder (requirements/uvloop_suite.txt: version and hash). They run beside a stand-in package
`uvloop` that hands out our loop, here and in every program that they start. --on-uvloop takes the
installed uvloop instead: what it skips or fails, ours may.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PIN = ROOT / "requirements" / "uvloop_suite.txt"
sys.path.insert(1, str(HERE.parent))

import harness  # noqa: E402

STAND_IN = '''\
"""ringloop's loop by uvloop's names, for uvloop's tests."""
import ringloop as _ringloop
from ringloop import EventLoop as Loop, EventLoopPolicy, install, new_event_loop, run

__version__ = _ringloop.__version__
'''


def fetched() -> Path:
    """The folder with `tests`, and beside it `stand_in` with the package uvloop."""
    folder = ROOT / "build" / "uvloop-suite"
    stamp = folder / "pin.txt"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != PIN.read_text(encoding="utf-8"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--disable-pip-version-check", "--no-binary", "uvloop", "--require-hashes",
                        "-d", str(folder), "-r", str(PIN)], check=True)
        with tarfile.open(next(folder.glob("uvloop-*.tar.gz"))) as archive:
            # Debian 12's Python 3.11.2 has no filters yet; the archive is pinned by its hash.
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(folder / "source", **safe)
        source = next((folder / "source").iterdir())
        shutil.move(source / "tests", folder / "tests")
        package = folder / "stand_in" / "uvloop"
        package.mkdir(parents=True)
        shutil.copy(source / "uvloop" / "_testbase.py", package)
        stamp.write_text(PIN.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "stand_in" / "uvloop" / "__init__.py").write_text(STAND_IN, encoding="utf-8")
    return folder


def suite(on_uvloop: bool) -> harness.Suite:
    folder = fetched()
    made = harness.Suite(HERE / "child.py", HERE / "list.toml", [])
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    if not on_uvloop:
        paths.insert(0, str(folder / "stand_in"))
    made.environment = {"PYTHONPATH": os.pathsep.join(paths)}
    made.names = sorted({path.stem for path in (folder / "tests").glob("test_*.py")}
                        - set(made.expected["not_run"]),
                        key=lambda name: (name not in ("test_tcp", "test_process"), name))
    return made


def main() -> int:
    parser = harness.parser(__doc__ or "")
    parser.add_argument("--on-uvloop", action="store_true", help="on uvloop itself, for comparison")
    options = parser.parse_args()
    return harness.main(suite(options.on_uvloop), options)


if __name__ == "__main__":
    sys.exit(main())
