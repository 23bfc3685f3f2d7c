"""Scenarios of datagram endpoints over the simulated kernel."""
from __future__ import annotations

import sys
from typing import Any

from simulated.harness import Main
from simulated.world import Recorder, World, content

SCENARIOS: dict[str, Main] = {}
PATIENCE_S = 5.0      # of virtual time: what has not come by then is lost
SENDS_EMPTY = sys.version_info >= (3, 13)


def scenario(main: Main) -> Main:
    SCENARIOS[main.__name__] = main  # type: ignore[attr-defined]
    return main


class Endpoint(Recorder):
    """Checks that what arrives is whole and in order; errors cost single datagrams only."""

    def __init__(self, world: World, stream: int = 0) -> None:
        super().__init__(world, stream)
        self.numbers: list[int] = []
        self.errors: list[Exception] = []

    def datagram_received(self, data: bytes, address: Any) -> None:
        self._note("datagram")
        self.world.must(address is not None and address[0] == "127.0.0.1", "it has a sender")
        self.on_datagram(data, address)

    def on_datagram(self, data: bytes, address: Any) -> None:
        number = data[0] if data else 0
        self.world.must(data == datagram(self.stream, number), "a datagram is damaged")
        self.world.must(not self.numbers or number > self.numbers[-1], "datagrams keep their order")
        self.numbers.append(number)

    def error_received(self, exc: Exception) -> None:
        self._note("error")
        self.world.must(isinstance(exc, OSError), f"an error that is no errno: {exc!r}")
        self.errors.append(exc)


class EchoEndpoint(Endpoint):
    def on_datagram(self, data: bytes, address: Any) -> None:
        self.transport.sendto(data, address)


def datagram(stream: int, number: int) -> bytes:
    """The first byte is its number; number 0 is empty, where asyncio sends that."""
    if number == 0 and SENDS_EMPTY:
        return b""
    return bytes([number]) + content(stream, number, number * 17 % 600)


async def endpoint(world: World, factory: Any, **where: Any) -> tuple[Any, Any]:
    sock: Any = world.datagram_socket(**where)
    return await world.loop.create_datagram_endpoint(factory, sock=sock)


@scenario
async def datagram_echo(world: World) -> None:
    """Two clients, one of them connected; bursts, and single datagrams with turns between."""
    server, _ = await endpoint(world, lambda: EchoEndpoint(world), port=53)
    clients = [(await endpoint(world, lambda: Endpoint(world, 5), peer=53))[1],
               (await endpoint(world, lambda: Endpoint(world, 6)))[1]]
    total = 16
    for number in range(total):
        for client, address in zip(clients, (None, ("127.0.0.1", 53))):
            client.transport.sendto(datagram(client.stream, number), address)
        if number >= total // 2:
            await rest(world, lambda: all(number in client.numbers for client in clients))
    for client in clients:
        await rest(world, lambda: len(client.numbers) == total)
        world.must_if_clean(client.numbers == list(range(total)), "all came back")
        world.must_if_clean(not client.errors, f"errors: {client.errors}")
        client.transport.close()
        await client.lost
    server.close()


@scenario
async def datagrams_to_nobody(world: World) -> None:
    """Refused again and again, then somebody is there."""
    _, client = await endpoint(world, lambda: Endpoint(world, 7), peer=99)
    for number in range(1, 5):
        client.transport.sendto(datagram(7, number))
        await rest(world, lambda: len(client.errors) == number)
    world.must_if_clean([type(error) for error in client.errors] == [ConnectionRefusedError] * 4,
                        f"each is refused: {client.errors}")
    world.must_if_clean(not client.transport.is_closing(), "the endpoint lives")
    _, late = await endpoint(world, lambda: Endpoint(world, 7), port=99)
    client.transport.sendto(datagram(7, 5))
    await rest(world, lambda: bool(late.numbers))
    world.must_if_clean(late.numbers == [5], "the last one arrives")
    for each in (client, late):
        each.transport.close()
        await each.lost


@scenario
async def datagrams_paused(world: World) -> None:
    """Reading paused in the middle of a batch and resumed later; then an abort in the middle."""
    class Pausing(Endpoint):
        def on_datagram(self, data: bytes, address: Any) -> None:
            super().on_datagram(data, address)
            self.transport.pause_reading()
            self.world.loop.call_later(0.01, self.transport.resume_reading)

    _, receiver = await endpoint(world, lambda: Pausing(world, 8), port=53)
    _, sender = await endpoint(world, lambda: Endpoint(world))
    for number in range(1, 9):
        sender.transport.sendto(datagram(8, number), ("127.0.0.1", 53))
    sender.transport.close()
    await rest(world, lambda: len(receiver.numbers) == 6)
    receiver.transport.abort()
    world.must_if_clean(receiver.numbers == [1, 2, 3, 4, 5, 6], "none is lost before the abort")
    await receiver.lost
    await sender.lost


async def rest(world: World, condition: Any) -> None:
    """Until it holds, or nothing more is to be expected."""
    end = world.loop.time() + PATIENCE_S
    await world.until(lambda: condition() or world.loop.time() > end)
