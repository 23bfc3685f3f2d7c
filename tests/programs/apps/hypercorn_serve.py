"""hypercorn's own serve() on our loop: hypercorn_serve.py FD."""
from __future__ import annotations

import sys

import ringloop
from asgi_echo import app
from hypercorn.asyncio import serve
from hypercorn.config import Config

config = Config()
config.bind = [f"fd://{sys.argv[1]}"]
ringloop.run(serve(app, config))    # type: ignore[arg-type]
