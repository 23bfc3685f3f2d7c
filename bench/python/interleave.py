"""./dev bench interleave: one service, four ways (see examples/service/).

    a  asyncio + executors    b  uvloop + executors    c  uvloop + native awaitables    d  ringloop

GET /mix (a 64 x 64 product, a 64 KiB file and a keep-alive request to the service itself, at once)
with 32 requests in flight: CPU per request, less the thread CPU time spent inside the compute
functions, and requests/s. Then the same with /frame flat out beside it: loop lag. A loop that
answers more is a busier loop, so the lag is measured again with all services at one rate: a share
of what (b) managed beside /frame before the first round. Shuffled rounds; a ratio compares two
values of one round.

    --rounds N  --seconds S of each phase  --variants bd  --cores 0,1 (the service's)  --json FILE
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.resources
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import placing, report, stats

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "examples" / "service" / "serve.py"
VARIANTS = {"a": ("asyncio", "executor"), "b": ("uvloop", "executor"), "c": ("uvloop", "native"),
            "d": ("ringloop", "native")}
IN_FLIGHT, FRAMES = 32, 2
EQUAL_LOAD = 0.8    # of (b)'s rates
Round = dict[str, float]


def photograph() -> Path:
    """matplotlib's sample."""
    return Path(str(importlib.resources.files("matplotlib")),
                "mpl-data/sample_data/grace_hopper.jpg")


@contextlib.contextmanager
def service(variant: str, cores: set[int]) -> Iterator[int]:
    loop, work = VARIANTS[variant]
    with subprocess.Popen(
            [sys.executable, str(SERVICE), "--loop", loop, "--work", work, "--port", "0",
             "--until-eof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: placing.pin(cores, real_time=False) and None) as process:
        assert process.stdout is not None
        try:
            yield int(json.loads(process.stdout.readline())["port"])
        finally:
            process.terminate()


def used(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


class Load:
    """The requests and their right answers as plans for bench/load: what the first service
    answered, and every service must."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = Path(os.environ["RINGLOOP_BUILD"], "bench", "load", "loadclient")

    def write(self, port: int) -> None:
        photograph_ = photograph().read_bytes()
        for name, body in (("mix", None), ("frame", photograph_)):
            url = f"http://127.0.0.1:{port}/{name}"
            with urllib.request.urlopen(url, body, timeout=30) as answer:
                right = answer.read()
            head = f"{'GET' if body is None else 'POST'} /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            if body is not None:
                head += f"Content-Length: {len(body)}\r\n"
            (self.folder / f"{name}.request").write_bytes(head.encode() + b"\r\n" + (body or b""))
            (self.folder / f"{name}.answer").write_bytes(right)
            (self.folder / f"{name}.plan").write_text(f"1 {name} {name}.request {name}.answer\n")

    def start(self, name: str, port: int, connections: int, seconds: float,
              per_second: float = 0) -> subprocess.Popen[str]:
        """Flat out, or at a rate."""
        if not (self.folder / f"{name}.plan").exists():
            self.write(port)
        return subprocess.Popen(
            [str(self.client), str(self.folder / f"{name}.plan"), str(port), str(connections), "0",
             str(seconds), str(per_second)], stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: placing.pin({1}, real_time=False) and None)

    def finish(self, client: subprocess.Popen[str]) -> dict[str, Any]:
        text, _ = client.communicate(timeout=120)
        if client.returncode != 0:
            raise SystemExit("the load client failed: see above")
        found: dict[str, Any] = json.loads(text)
        return found


    def beside_frames(self, port: int, seconds: float,
                      rates: tuple[float, float] = (0, 0)) -> tuple[float, float]:
        """/mix and /frame at once; the requests of each per second."""
        mix, frames = map(self.finish, [
            self.start("mix", port, IN_FLIGHT, seconds, rates[0]),
            self.start("frame", port, FRAMES, seconds, rates[1])])
        return mix["requests"] / seconds, frames["requests"] / seconds


def rates_of_b(options: argparse.Namespace, load: Load) -> tuple[float, float]:
    with service("b", options.cores) as port:
        load.finish(load.start("mix", port, IN_FLIGHT, min(1.0, options.seconds)))
        mix, frames = load.beside_frames(port, options.seconds)
    return mix * EQUAL_LOAD, frames * EQUAL_LOAD


def measure(variant: str, options: argparse.Namespace, load: Load,
            rates: tuple[float, float]) -> Round:
    with service(variant, options.cores) as port:
        load.finish(load.start("mix", port, IN_FLIGHT, min(1.0, options.seconds)))
        before = used(port)
        mix = load.finish(load.start("mix", port, IN_FLIGHT, options.seconds))
        after = used(port)
        _, frames = load.beside_frames(port, options.seconds)
        lag = used(port)["lag_us"]
        load.beside_frames(port, options.seconds, rates)
        lag_at_equal_load = used(port)["lag_us"]
    spent = after["cpu_seconds"] - before["cpu_seconds"]
    compute = after["compute_seconds"] - before["compute_seconds"]
    return {"cpu_us": (spent - compute) / mix["requests"] * 1e6,
            "all_cpu_us": spent / mix["requests"] * 1e6,
            "per_second": mix["requests"] / options.seconds,
            "p50_us": mix["p50_us"], "p99_us": mix["p99_us"],
            "beside_lag_p99_us": lag["p99"],
            "beside_frames_per_second": frames,
            "equal_load_lag_p50_us": lag_at_equal_load["p50"],
            "equal_load_lag_p99_us": lag_at_equal_load["p99"]}


def show(rounds: dict[str, list[Round]]) -> None:
    def mean(variant: str, key: str) -> float:
        return stats.geometric_mean([max(each[key], 0.01) for each in rounds[variant]])

    rows = [[f"{variant}  {' + '.join(VARIANTS[variant])}", f"{mean(variant, 'cpu_us'):.0f}",
             f"{mean(variant, 'per_second'):.0f}", f"{mean(variant, 'p50_us') / 1e3:.2f}",
             f"{mean(variant, 'p99_us') / 1e3:.2f}",
             f"{mean(variant, 'beside_lag_p99_us') / 1e3:.2f}",
             f"{mean(variant, 'beside_frames_per_second'):.0f}",
             f"{mean(variant, 'equal_load_lag_p99_us') / 1e3:.2f}"] for variant in rounds]
    print(report.table(["", "CPU us/request less compute", "requests/s", "p50 ms", "p99 ms",
                        "lag p99 ms beside /frame", "frames/s", "lag p99 ms at equal load"],
                       rows))


def compare(rounds: dict[str, list[Round]], key: str) -> stats.Ratio:
    return stats.paired([each[key] for each in rounds["d"]], [each[key] for each in rounds["b"]])


def main() -> None:
    parser = report.options("interleave", __doc__, rounds=6)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--variants", default="bd", help="b and d are always there")
    parser.add_argument("--cores", type=lambda text: set(map(int, text.split(","))), default={0, 1})
    options = parser.parse_args()
    variants = sorted(set(options.variants) | {"b", "d"})
    rounds: dict[str, list[Round]] = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory() as folder:
        load = Load(Path(folder))
        rates = rates_of_b(options, load)
        print(f"equal load: {rates[0]:.0f} /mix and {rates[1]:.0f} /frame a second",
              file=sys.stderr, flush=True)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for variant in random.sample(variants, len(variants)):
                rounds[variant].append(measure(variant, options, load, rates))
    show(rounds)
    cpu = compare(rounds, "cpu_us")
    print(f"(d) over (b): CPU {cpu}, requests/s {compare(rounds, 'per_second')}, "
          f"lag p99 beside /frame {compare(rounds, 'beside_lag_p99_us')}, "
          f"at equal load {compare(rounds, 'equal_load_lag_p99_us')}")
    report.save(options.json, "interleave", {"rounds": rounds, "cores": sorted(options.cores),
                                             "equal_load": rates})
    report.ratio(cpu.value, "CPU per /mix request less compute, ringloop over uvloop + executors, "
                            "32 in flight")


if __name__ == "__main__":
    main()
