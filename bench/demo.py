"""What ./dev demo runs: one service under four ways of leaving the loop, side by side.

    (a) asyncio + executors   (b) uvloop + executors
    (c) uvloop + ringloop's awaitables   (d) ringloop

The service (examples/service) and its kernels are the same each time; the executor is as large as
ringloop's pool. A load generator in a process of its own drives a mix of its four endpoints for
some seconds each and checks every answer. At the end: a table, a chart in demo-out/, with --json a
record.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
logging.getLogger("ringloop.kernels").setLevel(logging.ERROR)   # its hint is acted upon below
# The imports take a second, and some of them swallow KeyboardInterrupt: there is nothing to clean
# up yet, so Ctrl-C ends the process as it is. main() takes it back.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from demo_parts import chart, plan, server, table  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = (
    ("(a) asyncio + executors", "asyncio", "executor"),
    ("(b) uvloop + executors", "uvloop", "executor"),
    ("(c) uvloop + ringloop's awaitables", "uvloop", "native"),
    ("(d) ringloop", "ringloop", "native"),
)
IN_FLIGHT = 32
SECONDS_MAX = 3600


def measure(variant: tuple[str, str, str], plans: plan.Plans, client: Path, seconds: float,
            port: int) -> dict[str, Any]:
    """Serves the variant, loads it, and returns its row."""
    name, loop, work = variant
    with server.Server(loop, work, port) as running:
        before = running.threads()
        server.drive(client, plans.files, running.port, 8, 0.0, 1.0)
        file_threads = running.threads() - before
        server.drive(client, plans.mixed, running.port, IN_FLIGHT, 0.0, 1.0)   # warm
        begin = running.stats()
        load = server.drive(client, plans.mixed, running.port, IN_FLIGHT, 0.0, seconds)
        end = running.stats()
        requests = load["requests"]
        compute_s = end["compute_seconds"] - begin["compute_seconds"]
        cpu_s = end["cpu_seconds"] - begin["cpu_seconds"]
        return {
            "name": name, "loop": loop, "work": work,
            "requests_per_s": requests / load["seconds"],
            "p50_ms": load["p50_us"] / 1e3, "p99_ms": load["p99_us"] / 1e3,
            "cpu_us_per_request": cpu_s / requests * 1e6,
            "loop_cpu_us_per_request": (cpu_s - compute_s) / requests * 1e6,
            "lag_p99_ms": end["lag_us"]["p99"] / 1e3,
            "epoll_instances": running.epoll_instances(),
            "file_threads": file_threads, "kernel_workers_max": running.kernel_workers_max,
            "kinds": load["kinds"],
        }


def load_client() -> Path:
    build = os.environ.get("RINGLOOP_BUILD")
    client = Path(build or ROOT / "build", "bench", "load", "loadclient")
    if not client.exists():
        raise SystemExit(f"demo: {client} is not built: start this program as ./dev demo")
    return client


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="load on each variant (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the record there")
    parser.add_argument("--port", type=int, default=0, help="of the service (0: any free one)")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= SECONDS_MAX:
        parser.error(f"--seconds must be above 0 and at most {SECONDS_MAX}")
    if not 0 <= options.port <= 65535:
        parser.error("--port must be 0 to 65535")
    if options.port:
        try:
            with socket.socket() as asking:
                asking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                asking.bind(("127.0.0.1", options.port))
        except OSError as error:
            parser.error(f"--port {options.port}: {error.strerror}")
    if options.json:   # asked now: a record that cannot be written is a run for nothing
        try:
            options.json.open("a").close()
        except OSError as error:
            parser.error(f"--json: {error}")
    return options


def run(options: argparse.Namespace) -> None:
    client = load_client()
    print(f"Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, "
          f"Python {platform.python_version()}; {IN_FLIGHT} requests in flight, "
          f"{options.seconds:g} s each", flush=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="ringloop-demo-") as folder:
        plans = plan.write(Path(folder))
        for variant in VARIANTS:
            print(f"  {variant[0]:<36}", end="", flush=True)
            row = measure(variant, plans, client, options.seconds, options.port)
            print(f"{row['requests_per_s']:8.0f} requests/s", flush=True)
            rows.append(row)
    print()
    print(table.render(rows))
    record = {"rows": rows, "seconds": options.seconds, "in_flight": IN_FLIGHT,
              "cpus": os.cpu_count(), "kernel": platform.release(),
              "python": platform.python_version()}
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    for path in chart.draw(rows, ROOT / "demo-out"):
        print(f"wrote {path.relative_to(ROOT)}")


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))   # unwinds: children are ended
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    options = parse(arguments)
    better = server.better_environment()
    if better is not None:
        print(better[1], flush=True)
        os.execve(sys.executable, [sys.executable, __file__, *arguments], better[0])
    try:
        run(options)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except server.Failed as failed:
        print(f"\ndemo: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
