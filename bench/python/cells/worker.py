"""A program: jobs that need no client, on loops of one kind, in this process.

    worker.py LOOP SCALE MODULE.FUNCTION…       prints {job: figures, or {"failed": sentence}}

SCALE 1 is the full size of each job. Core 0 alone, or both for jobs in which threads or other
processes take part.
"""
from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cells import loops, programs  # noqa: E402
from common import placing  # noqa: E402

ONE_CORE = {"micro", "quiet", "connecting"}
SHARED_CORE = {"quiet.stalls"}      # not before all others


def run(job: str, name: str, scale: float) -> dict[str, object]:
    module, function = job.split(".")
    try:
        return dict(getattr(importlib.import_module(f"cells.{module}"), function)(
            loops.maker(name), scale))
    except Exception as error:          # a rival's failure is a result
        return {"failed": f"{type(error).__name__}: {error}"}


def main() -> None:
    name, scale, *jobs = sys.argv[1:]
    found = {}
    for job in jobs:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))     # after the job before
        if job.split(".")[0] not in ONE_CORE:
            placing.pin({0, 1}, real_time=False)
        elif job in SHARED_CORE:
            placing.pin({0}, real_time=False)
        else:
            programs.pin({0})
        found[job] = run(job, name, float(scale))
    print(json.dumps(found), flush=True)
    os._exit(0)     # whatever a rival has left running


if __name__ == "__main__":
    main()
