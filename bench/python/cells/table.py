"""All cells, with their bars. uvloop's cost over ours, CPU per request or operation, unless a bar
says otherwise; a bar against "best peer" is one against each rival of the cell that is there.
"""
from __future__ import annotations

from cells.methods import (Fairness, Growth, Http, IdleMemory, Job, Load, Method, StartUp)
from cells.model import BEST, CPU, P50, P99, WALL, Bar, Cell

PEERS = ("uvloop", "rloop", "zuvloop")
LOCAL_PEERS = ("uvloop", "zloop", "zuvloop")    # rloop has neither Unix sockets nor TLS
KIB = 1024


def _bars(uvloop: float, best: float | None = None, zuvloop: float | None = None,
          figure: str = CPU) -> tuple[Bar, ...]:
    wanted = (("uvloop", uvloop), (BEST, best), ("zuvloop", zuvloop))
    return tuple(Bar(limit, against, figure) for against, limit in wanted if limit is not None)


def _cell(group: str, name: str, method: Method, bars: tuple[Bar, ...],
          rivals: tuple[str, ...] = PEERS, main: str = CPU) -> Cell:
    return Cell(name, group, method, rivals, bars, main)


def _callbacks() -> list[Cell]:
    def micro(name: str, job: str, *bars: float) -> Cell:
        return _cell("callbacks", name, Job(f"micro.{job}"), _bars(*bars))

    return [
        micro("call_soon chain", "call_soon_chain", 4.5, 1.2, 1.1),
        micro("call_soon burst of 10k", "call_soon_burst", 2.1, 1.2, 1.1),
        micro("100k timers, half cancelled", "timers", 4.8, 1.4, 1.1),
        micro("sleep(0)", "sleep_0", 2.5, 1.1, 1.0),
        micro("create_task + await", "create_task", 1.9, 1.1, 1.0),
        micro("future resolved", "futures", 2.1, 1.1, 1.0),
        micro("gather of 100", "gather_100", 1.2, 1.1, 1.1),
        _cell("threads", "run_in_executor", Job("threads.run_in_executor"),
              _bars(1.2, 1.15, figure=WALL), main=WALL),
        _cell("threads", "call_soon_threadsafe and back", Job("threads.threadsafe"),
              _bars(4, 3, figure=P50), main=P50),
    ]


def _echo() -> list[Cell]:
    def tcp(what: str, service: str, kib: int, connections: int, *bars: float | None,
            **more: object) -> Cell:
        limit, best, zuvloop = (*bars, None, None)[:3]
        assert limit is not None
        extra = (Bar(1.1, "uvloop", P99, True),) if (service, kib, connections) == (
            "protocol", 1, 100) else ()
        return _cell("tcp", f"TCP {what} {kib} KiB, {connections} connections",
                     Load(service, bytes=kib * KIB, connections=connections, **more),
                     _bars(limit, best, zuvloop) + extra)

    def lines(read: str, limit: float) -> Cell:
        return _cell("streams", f"streams {read}, 64-byte lines, 100 connections",
                     Load(f"streams {read}", bytes=64, line_bytes=64, connections=100),
                     _bars(limit))

    return [
        tcp("Protocol", "protocol", 1, 10, 1.25, 1.12, 1.1),
        tcp("Protocol", "protocol", 1, 100, 1.25, 1.12, 1.1),
        tcp("Protocol", "protocol", 16, 100, 1.2),
        tcp("Protocol", "protocol", 100, 10, 1.0),
        tcp("Protocol", "protocol", 100, 100, 1.0),
        tcp("BufferedProtocol", "buffered", 1, 100, 1.3, 1.15),
        tcp("BufferedProtocol", "buffered", 16, 100, 1.35, 1.15),
        tcp("streams", "streams read", 1, 100, 1.65, 1.5, 1.1),
        tcp("streams", "streams read", 100, 10, 2.5, 1.5),
        lines("readline", 1.85), lines("readuntil", 1.85), lines("readexactly", 1.85),
        _cell("streams", "streams readline, 100 lines a message, 10 connections",
              Load("streams readline", bytes=6400, line_bytes=64, connections=10), _bars(10)),
        _cell("sock", "sock_recv and sock_sendall 1 KiB, 100 connections",
              Load("sock", connections=100), _bars(3.0, 1.3, 1.1), (*PEERS, "talyn")),
        _cell("unix", "Unix Protocol 1 KiB, 10 connections",
              Load("unix", kind="unix", connections=10), _bars(1.4, 1.3, 1.1), LOCAL_PEERS),
        *(_cell("udp", f"UDP 1 KiB, {count} client{'s' * (count > 1)}",
                Load("datagrams", kind="udp", connections=count), bars)
          for count, bars in ((1, _bars(0.95)), (10, _bars(1.8, 1.2, 1.1)),
                              (100, _bars(1.8, 1.2)))),
    ]


def _tls() -> list[Cell]:
    def tls(what: str, service: str, kib: int, *bars: float) -> Cell:
        return _cell("tls", f"TLS {what} {kib} KiB, 10 connections",
                     Load(service, kind="tls", bytes=kib * KIB, connections=10), _bars(*bars),
                     LOCAL_PEERS)

    return [
        tls("Protocol", "tls protocol", 1, 3.7, 1.4, 1.1),
        tls("streams", "tls streams", 1, 3.7, 1.4, 1.1),
        tls("Protocol", "tls protocol", 16, 2.3, 1.4, 1.1),
        tls("Protocol", "tls protocol", 100, 2.0, 1.1, 1.1),
        _cell("tls", "TLS handshakes, with one short echo",
              Load("tls protocol", kind="tls", bytes=8, connections=4, life="once"), _bars(1.1),
              LOCAL_PEERS),
    ]


def _connections() -> list[Cell]:
    return [
        _cell("connections", "5,000 outbound connections at once", Job("connecting.outbound"),
              (Bar(1.2, "asyncio", WALL),), ("asyncio", "uvloop"), WALL),
        _cell("connections", "accept + close, Protocol, one client",
              Load("close protocol", life="close", connections=1), _bars(1.2, 1.1), LOCAL_PEERS),
        _cell("connections", "accept + close, streams, one client",
              Load("close streams", life="close", connections=1), _bars(1.15, 1.1), LOCAL_PEERS),
        _cell("memory", "idle memory of a Protocol connection", IdleMemory("protocol"),
              (Bar(0.65, None, "idle_kib", True),), ("uvloop", "rloop"), "idle_kib"),
        _cell("memory", "idle memory of a streams connection", IdleMemory("streams read"),
              (Bar(3.5, None, "idle_kib", True),), ("uvloop", "rloop"), "idle_kib"),
    ]


def _web() -> list[Cell]:
    cells = [_cell("web", f"{what}, {count} connections", Http(service, connections=count),
                   _bars(limit, limit))
             for what, service, limit in (("uvicorn + httptools", "uvicorn", 1.5),
                                          ("aiohttp", "aiohttp", 1.25)) for count in (10, 100)]
    return [*cells,
            _cell("web", "WebSocket echo 1 KiB, websockets under uvicorn, 100 connections",
                  Load("websockets", websocket="/socket", connections=100), _bars(1.2))]


def _system() -> list[Cell]:
    def child(what: str, job: str, *bars: Bar) -> Cell:
        return _cell("processes", f"subprocess {what}", Job(f"processes.{job}"),
                     (*bars, Bar(1.03, BEST, WALL)), main=WALL)

    pread = Job("files.pread_awaited", (("executor", "files.pread_executor"),
                                        ("blocking", "files.pread_blocking")))
    small = Job("files.small_awaited", (("executor", "files.small_executor"),
                                        ("blocking", "files.small_blocking")))
    return [
        child("true", "spawn_true", Bar(3.5, "uvloop", WALL), Bar(6, "uvloop")),
        child("echo through a pipe", "spawn_echo", Bar(3.5, "uvloop", WALL)),
        child("cat through three pipes", "spawn_cat", Bar(3.3, "uvloop", WALL)),
        _cell("processes", "spawn with 1 GiB resident, loop blocked",
              Job("processes.spawn_when_large"), (Bar(3e-4, None, "blocked_s", True),),
              ("uvloop",), "blocked_s"),
        _cell("files", "sendfile of 64 MiB", Load("sendfile", bytes=8, connections=1),
              (Bar(1.2, "asyncio"),), ("asyncio",)),
        _cell("files", "64 KiB pread", pread,
              (Bar(0.15, "executor", at_most=True), Bar(1.2, "blocking", at_most=True)),
              ("executor", "blocking")),
        _cell("files", "2,000 files of 4 KiB, 8 at once", small,
              (Bar(15, "executor", WALL), Bar(25, "executor"),
               Bar(0.7, "blocking", WALL, at_most=True)), ("executor", "blocking"), WALL),
    ]


def _behaviour() -> list[Cell]:
    return [
        _cell("growth", "CPU per TCP request by connections", Growth("protocol"),
              (Bar(1.3, None, "growth to 1,000", True), Bar(1.3, None, "growth to 10,000", True)),
              ()),
        _cell("growth", "timer and cancel, among a million over a thousand",
              Job("micro.timers_among"), (Bar(2, None, "growth", True),), ()),
        _cell("growth", "import and first loop", StartUp(), (Bar(1.2, "uvloop", at_most=True),),
              ("uvloop",)),
        _cell("growth", "two loops in two threads, native work", Job("threads.two_loops"),
              (Bar(1.6, None, "loops"),), (), "loops"),
        _cell("latency", "round trip 1 KiB of one idle connection",
              Load("protocol", connections=1), (Bar(1.0, "uvloop", P50, True),), main=P50),
        _cell("latency", "stalls under 100 connections", Job("quiet.stalls"),
              (Bar(1e-3, None, "stall_s", True),), ("uvloop",), "stall_s"),
        _cell("fairness", "99 quiet connections beside a flood", Fairness("protocol"),
              (Bar(2, None, "p99 beside", True),), ("uvloop",), "p99 beside"),
        _cell("fairness", "I/O beside 100,000 busy callbacks", Job("quiet.io_in_burst"),
              (Bar(2, None, "rounds", True),), ("uvloop",), "rounds"),
    ]


CELLS = [*_callbacks(), *_echo(), *_tls(), *_connections(), *_web(), *_system(), *_behaviour()]
