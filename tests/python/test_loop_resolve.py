"""getaddrinfo() and getnameinfo(): what the socket module says, whatever way it is asked."""
from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Any

import pytest

from harness.loops import BACKENDS

HOSTS = [None, "", b"", "127.0.0.1", b"127.0.0.1", "0.0.0.0", "255.255.255.255", "127.1", "0x7f.1",
         "127.0.0.01", " 127.0.0.1", "127.0.0.1\n", "::1", b"::1", "::", "::ffff:1.2.3.4",
         "fe80::1", "fe80::1%1", b"fe80::1%1", "fe80::1%lo", "::1%lo", "127.0.0.1%lo", "[::1]",
         "1::2::3", "1.2.3", "1.2.3.4.5", "\u0661.2.3.4", "127.0.0.1\0", 5]
PORTS = [0, 80, 65535, 65536, -1, "80", b"80", "http", b"domain", "", None, "65536", "1 ",
         "\u0661", 1.5]
KINDS = [(0, 0, 0), (socket.AF_INET6, 0, 0), (0, socket.SOCK_STREAM, socket.IPPROTO_UDP),
         (socket.AF_UNIX, 0, 0)]
FLAGS = [0, socket.AI_PASSIVE, socket.AI_NUMERICHOST, socket.AI_NUMERICSERV, socket.AI_CANONNAME]


def answer(ask: Any) -> Any:
    try:
        return ask()
    except Exception as error:
        return type(error), str(error)


def cases() -> Any:
    """All but the names that would leave the machine: nothing here is one."""
    for host, port, kind in itertools.product(HOSTS, PORTS, KINDS):
        yield host, port, *kind, FLAGS[hash((str(host), str(port), kind)) % len(FLAGS)]
    for host, port, flags in itertools.product(HOSTS, PORTS[:8], FLAGS):
        yield host, port, 0, socket.SOCK_STREAM, 0, flags


@pytest.mark.time_limit(300)
async def test_getaddrinfo_answers_as_the_socket_module(backend: str) -> None:
    """Resolving knows nothing of backends: each is asked its share."""
    loop = asyncio.get_running_loop()
    asked = 0
    share = itertools.islice(cases(), BACKENDS.index(backend), None, len(BACKENDS))
    for host, port, family, kind, proto, flags in share:
        if isinstance(host, str) and host in ("[::1]", "1::2::3", "1.2.3.4.5", " 127.0.0.1"):
            flags |= socket.AI_NUMERICHOST  # else a resolver would be asked for them
        expected = answer(lambda: socket.getaddrinfo(host, port, family, kind, proto, flags))
        try:
            got: Any = await loop.getaddrinfo(host, port, family=family, type=kind, proto=proto,
                                              flags=flags)
        except Exception as error:
            got = type(error), str(error)
        assert got == expected, (host, port, family, kind, proto, flags)
        asked += 1
    assert asked > 2500 / len(BACKENDS)


async def test_getnameinfo_answers_as_the_socket_module() -> None:
    loop = asyncio.get_running_loop()
    both = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    addresses: list[Any] = [("127.0.0.1", 80), ("::1", 80), ("::1", 80, 0, 0), ("fe80::1%1", 1),
                            ("fe80::1", 1, 0, 1), ("::1", 1, 2**20, 0), ("127.0.0.1",), (), "x",
                            ("127.0.0.1", "80"), (b"127.0.0.1", 80), ("127.0.0.1", 70000)]
    for address, flags in itertools.product(addresses,
                                            (both, socket.NI_NUMERICHOST, both | socket.NI_DGRAM)):
        expected = answer(lambda: socket.getnameinfo(address, flags))
        try:
            got: Any = await loop.getnameinfo(address, flags)
        except Exception as error:
            got = type(error), str(error)
        assert got == expected, (address, flags)


async def test_a_literal_needs_no_thread() -> None:
    loop: Any = asyncio.get_running_loop()
    await loop.getaddrinfo("::1", 80)
    await loop.getaddrinfo("127.0.0.1", "80", type=socket.SOCK_STREAM)
    await loop.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    if not loop.get_debug():
        assert loop._default_executor is None


async def test_a_patched_resolver_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = asyncio.get_running_loop()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    asked: list[Any] = []

    def resolve(host: Any, *rest: Any) -> Any:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: ("name", "service"))
    await loop.getaddrinfo("192.0.2.1", 1)
    reader, writer = await asyncio.open_connection("somewhere.example", 1)
    assert asked == ["192.0.2.1", "somewhere.example"]
    flags = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    assert await loop.getnameinfo(("127.0.0.1", 80), flags) == ("name", "service")
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


def test_a_closed_loop_resolves_nothing(loop: Any) -> None:
    question = loop.getaddrinfo("127.0.0.1", 80)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        question.send(None)
