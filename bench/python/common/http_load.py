"""Keep-alive HTTP load from one process, one request in flight on each connection. As a program:

    http_load.py PORT SECONDS MIX_CONNECTIONS FRAME_CONNECTIONS [PHOTOGRAPH]

GET /mix and POST /frame at once; prints {path: {requests, errors, p50_us, p99_us}} as JSON. An
answer other than 200 is an error and counts as nothing else.
"""
from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import placing, stats  # noqa: E402


class Connection(asyncio.Protocol):
    """Sends `request` again as soon as its answer is complete, until `end`."""

    def __init__(self, request: bytes, end: float) -> None:
        self.request, self.end = request, end
        self.latencies: list[float] = []
        self.errors = 0
        self.finished = asyncio.get_running_loop().create_future()
        self.received = bytearray()
        self.missing = -1          # bytes of the body still to come; -1: in the head
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport      # type: ignore[assignment]  # uvloop's derives from nothing
        self._ask()

    def _ask(self) -> None:
        self.begin = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.missing < 0:
            head_end = self.received.find(b"\r\n\r\n")
            if head_end < 0:
                return
            head = bytes(self.received[:head_end]).lower()
            self.missing = head_end + 4 + int(head.split(b"content-length:")[1].split(b"\r")[0])
            self.good = b" 200 " in head.split(b"\r\n", 1)[0] + b" "
        if len(self.received) < self.missing:
            return
        now = time.perf_counter()
        if self.good:
            self.latencies.append(now - self.begin)
        else:
            self.errors += 1
        self.received.clear()
        self.missing = -1
        if now < self.end:
            self._ask()
        else:
            self.transport.close()

    def connection_lost(self, reason: Exception | None) -> None:
        if time.perf_counter() < self.end:
            self.errors += 1
        if not self.finished.done():
            self.finished.set_result(None)


def request(path: str, port: int, body: bytes = b"") -> bytes:
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def load(port: int, seconds: float, plan: dict[str, tuple[int, bytes]]) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    end = time.perf_counter() + seconds
    found: dict[str, list[Connection]] = {}
    for path, (count, body) in plan.items():
        asked = request(path, port, body)
        found[path] = [(await loop.create_connection(lambda: Connection(asked, end), "127.0.0.1",
                                                     port))[1] for _ in range(count)]
    for connections in found.values():
        await asyncio.gather(*(connection.finished for connection in connections))
    result: dict[str, object] = {}
    for path, connections in found.items():
        times = [value for connection in connections for value in connection.latencies]
        result[path] = {"requests": len(times), "errors": sum(each.errors for each in connections),
                        "p50_us": stats.quantile(times, 0.5) * 1e6 if times else None,
                        "p99_us": stats.quantile(times, 0.99) * 1e6 if times else None}
    return result


def main() -> None:
    import uvloop

    port, seconds, mixes, frames = (int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]),
                                    int(sys.argv[4]))
    placing.pin({1}, real_time=False)
    plan = {"/mix": (mixes, b"")}
    if frames:
        plan["/frame"] = (frames, Path(sys.argv[5]).read_bytes())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(load(port, seconds, plan))), flush=True)


if __name__ == "__main__":
    main()
