"""Serves app.py. serve.py [--loop ringloop|uvloop|asyncio] [--work native|executor] [--port N]

uvicorn runs inside a loop that is made here, so that each variant is exactly what its name says.
Prints one JSON line with the port when it is ready. Ctrl-C or SIGTERM ends it; with --until-eof,
also the end of its standard input (a parent that is gone).
"""
from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any

import uvicorn

from app import make_app
from work import FLAVOURS


class Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if sockets and not self.should_exit:
            port = sockets[0].getsockname()[1]
            print(json.dumps({"port": port, "pid": os.getpid()}), flush=True)


def listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


async def serve(options: argparse.Namespace) -> None:
    with listen(options.port) as listener:
        app: Any = make_app(FLAVOURS[options.work](), listener.getsockname()[1])
        server = Server(uvicorn.Config(
            app, loop="none", http="httptools", ws="none", lifespan="on", access_log=False,
            log_level="warning", timeout_graceful_shutdown=3))
        if options.until_eof:
            loop = asyncio.get_running_loop()

            def ended() -> None:
                if not os.read(0, 4096):
                    loop.remove_reader(0)
                    server.should_exit = True

            loop.add_reader(0, ended)
        await server.serve(sockets=[listener])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loop", choices=("ringloop", "uvloop", "asyncio"), default="ringloop")
    parser.add_argument("--work", choices=tuple(FLAVOURS), default="native")
    parser.add_argument("--port", type=int, default=8000, help="0: any free one")
    parser.add_argument("--until-eof", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    factory = importlib.import_module(options.loop).new_event_loop
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))   # before and after uvicorn's own
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve(options))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        print(f"serve.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
