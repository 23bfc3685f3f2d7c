"""gunicorn's worker class that docs/migrating.md shows: uvicorn's, on our loop."""
from __future__ import annotations

from uvicorn_worker import UvicornWorker


class RingloopWorker(UvicornWorker):
    CONFIG_KWARGS = {**UvicornWorker.CONFIG_KWARGS, "loop": "ringloop:new_event_loop"}
