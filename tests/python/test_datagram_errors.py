"""Datagram endpoints when something is wrong: errors of the kernel's, full receivers, callbacks
that raise, descriptors that go away."""
from __future__ import annotations

import asyncio
import gc
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from harness.datagrams import LOOPBACK, Recorder, close, endpoint, name, peer
from harness.loops import Run
from harness.tcp import elsewhere, turns


def nobody() -> Any:
    """An address of the loopback where nobody listens."""
    with peer() as gone:
        return gone.getsockname()


# ---- every errno goes to error_received, and the endpoint lives

@pytest.mark.parametrize(("data", "address", "kind", "words"), [
    (b"x" * 65508, None, OSError, "Message too long"),
    (b"x", ("127.0.0.1", 0), OSError, "Invalid argument"),
    (b"x", ("255.255.255.255", 9), PermissionError, "Permission denied"),
    (b"x", ("::1", 9), socket.gaierror, "family"),
    (b"x", ("no such host", 9), socket.gaierror, ""),
])
async def test_a_send_that_fails_is_told_and_the_endpoint_lives(
    data: bytes, address: Any, kind: type[OSError], words: str
) -> None:
    transport, protocol = await endpoint()
    to = name(transport) if address is None else address
    transport.sendto(data, to)                # alone in its turn: told before sendto() returns
    assert [type(error) for error in protocol.errors] == [kind]
    assert words in str(protocol.errors[0])
    transport.sendto(b"before", name(transport))
    transport.sendto(data, to)                # among others: told later in the turn
    transport.sendto(b"behind", name(transport))
    await protocol.error(2)
    assert type(protocol.errors[1]) is kind
    assert await protocol.receive(2) == [b"before", b"behind"]
    await close(transport)


async def test_a_connected_endpoint_is_told_that_nobody_is_there_each_time() -> None:
    transport, protocol = await endpoint(remote_addr=nobody())
    for count in range(1, 6):
        transport.sendto(b"anybody?")
        assert isinstance(await protocol.error(count), ConnectionRefusedError)
    assert not transport.is_closing()
    await close(transport)


async def test_a_refused_endpoint_works_once_somebody_is_there() -> None:
    address = nobody()
    transport, protocol = await endpoint(remote_addr=address)
    transport.sendto(b"too early")
    await protocol.error()
    late, receiver = await endpoint(local_addr=address)
    transport.sendto(b"in time")
    assert await receiver.receive(1) == [b"in time"]
    await close(transport, late)


async def test_a_unix_send_to_nobody_is_told(tmp_path: Path) -> None:
    transport, protocol = await endpoint(family=socket.AF_UNIX, local_addr=str(tmp_path / "s"))
    transport.sendto(b"x", str(tmp_path / "nobody"))
    transport.sendto(b"x", "x" * 200)          # too long for an address
    await protocol.error(2)
    assert [type(error) for error in protocol.errors] == [FileNotFoundError, OSError]
    await close(transport)


@pytest.mark.parametrize("address", [("127.0.0.1", -1), ("127.0.0.1", "80"), 17, None, ()])
async def test_what_is_no_address_at_all_ends_the_endpoint_as_in_asyncio(address: Any) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    transport, protocol = await endpoint()
    transport.sendto(b"x", address)
    lost = await protocol.lost
    assert isinstance(lost, (OverflowError, TypeError))
    assert [context["message"] for context in reported] == [
        "Fatal write error on datagram transport"]
    assert reported[0]["exception"] is lost and reported[0]["transport"] is transport
    assert not protocol.errors
    reported.clear()


# ---- a receiver that is full

async def unix_pair(connected: bool, tmp_path: Path) -> tuple[Any, Any, socket.socket, Any]:
    """A transport, its protocol, a Unix socket that reads only when told to, and its path."""
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.settimeout(30)
    path = str(tmp_path / "full")
    receiver.bind(path)
    if connected:
        transport, protocol = await endpoint(family=socket.AF_UNIX, remote_addr=path)
        return transport, protocol, receiver, None
    transport, protocol = await endpoint(family=socket.AF_UNIX, local_addr=str(tmp_path / "near"))
    return transport, protocol, receiver, path


def take(receiver: socket.socket, count: int) -> list[bytes]:
    return [receiver.recv(65536) for _ in range(count)]


@pytest.mark.parametrize("connected", [True, False])
async def test_a_full_receiver_pauses_writing_and_loses_nothing(
    connected: bool, tmp_path: Path
) -> None:
    transport, protocol, receiver, path = await unix_pair(connected, tmp_path)
    transport.set_write_buffer_limits(high=5000, low=1000)
    sent = [b"%d " % number + b"x" * 100 for number in range(300)]
    for data in sent:
        transport.sendto(data, path)
    assert protocol.events == ["made", "pause"]
    assert transport.get_write_buffer_size() > 5000
    assert "bufsize=0" not in repr(transport)
    half = await elsewhere(take, receiver, 150)
    rest = await elsewhere(take, receiver, 150)
    assert half + rest == sent
    await protocol.until(lambda: "resume" in protocol.events)
    assert transport.get_write_buffer_size() == 0
    assert protocol.events == ["made", "pause", "resume"]
    await close(transport)
    receiver.close()


@pytest.mark.parametrize("connected", [True, False])
async def test_close_waits_for_a_full_receiver(connected: bool, tmp_path: Path) -> None:
    transport, protocol, receiver, path = await unix_pair(connected, tmp_path)
    sent = [b"%d" % number for number in range(100)]
    for data in sent:
        transport.sendto(data, path)
    transport.close()
    await turns()
    assert not protocol.lost.done() and transport.is_closing()
    assert await elsewhere(take, receiver, 100) == sent
    assert await protocol.lost is None
    receiver.close()


@pytest.mark.parametrize("connected", [True, False])
async def test_abort_does_not_wait_for_a_full_receiver(connected: bool, tmp_path: Path) -> None:
    transport, protocol, receiver, path = await unix_pair(connected, tmp_path)
    for _ in range(100):
        transport.sendto(b"x", path)
    transport.abort()
    assert await protocol.lost is None
    assert transport.get_write_buffer_size() == 0
    receiver.close()


async def test_a_receiver_that_goes_away_is_told_for_each_datagram(tmp_path: Path) -> None:
    transport, protocol, receiver, path = await unix_pair(True, tmp_path)
    for _ in range(50):
        transport.sendto(b"x", path)
    queued = len(transport._buffer)
    receiver.close()
    await protocol.error(queued)
    await turns()
    assert len(protocol.errors) == queued
    assert transport.get_write_buffer_size() == 0 and not transport.is_closing()
    await close(transport)


async def test_a_mutable_buffer_is_copied_before_it_waits(tmp_path: Path) -> None:
    transport, protocol, receiver, path = await unix_pair(True, tmp_path)
    changing = bytearray(b"as it was")
    for _ in range(100):
        transport.sendto(changing)
    changing[:] = b"as it is!"
    assert await elsewhere(take, receiver, 100) == [b"as it was"] * 100
    await close(transport)
    receiver.close()


# ---- callbacks that raise

class Raising(Recorder):
    """Raises what it is sent, by name."""

    def datagram_received(self, data: bytes, address: Any) -> None:
        super().datagram_received(data, address)
        if data.startswith(b"raise "):
            raise {"ZeroDivisionError": ZeroDivisionError, "SystemExit": SystemExit,
                   "KeyboardInterrupt": KeyboardInterrupt}[data[6:].decode()]

    def error_received(self, exc: Exception) -> None:
        super().error_received(exc)
        raise ZeroDivisionError


async def test_a_callback_that_raises_is_reported_and_the_endpoint_lives() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    transport, protocol = await endpoint(Raising)
    with peer() as other:
        for data in (b"raise ZeroDivisionError", b"good"):
            other.sendto(data, name(transport))
    assert await protocol.receive(2) == [b"raise ZeroDivisionError", b"good"]
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]
    assert "Exception in callback" in reported[0]["message"]
    with pytest.raises(ZeroDivisionError):     # from sendto() itself, as in asyncio
        transport.sendto(b"x", ("127.0.0.1", 0))
    transport.sendto(b"good", name(transport))
    transport.sendto(b"x", ("127.0.0.1", 0))   # behind another one: from the loop
    await protocol.error(2)
    await turns()
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError] * 2
    await close(transport)
    reported.clear()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_must_end_the_run_does_and_the_rest_of_the_batch_waits(
    run: Run, kind: type[BaseException]
) -> None:
    loop = run.new_loop()
    transport, protocol = loop.run_until_complete(endpoint(Raising))
    with peer() as other:
        for data in (b"first", b"raise " + kind.__name__.encode(), b"third", b"fourth"):
            other.sendto(data, name(transport))
    with pytest.raises(kind):
        loop.run_forever()
    assert len(protocol.received) == 2
    assert loop.run_until_complete(protocol.receive(4))[2:] == [b"third", b"fourth"]
    loop.run_until_complete(close(transport))
    loop.close()


async def test_a_protocol_without_methods_is_reported_when_they_are_needed() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    class Bare:
        def connection_made(self, transport: Any) -> None:
            pass

        connection_lost = connection_made

    transport, _ = await endpoint(Bare)
    with peer() as other:
        other.sendto(b"x", name(transport))
        while not reported:
            await asyncio.sleep(0)
    assert isinstance(reported[0]["exception"], AttributeError)
    transport.close()
    await turns()
    reported.clear()


# ---- descriptors behind the loop's back

async def test_a_descriptor_closed_behind_the_loops_back_ends_the_endpoint() -> None:
    transport, protocol = await endpoint()
    os.close(transport.get_extra_info("socket").fileno())
    transport.sendto(b"x", LOOPBACK)
    lost = await protocol.lost
    assert isinstance(lost, OSError) and not protocol.errors


async def test_a_number_reused_behind_the_loops_back_stays_its_new_owners() -> None:
    transport, protocol = await endpoint()
    number = transport.get_extra_info("socket").fileno()
    reader, writer = os.pipe()
    os.dup2(reader, number)
    transport.sendto(b"x", LOOPBACK)
    assert isinstance(await protocol.lost, OSError)
    os.write(writer, b"mine")
    assert os.read(number, 4) == b"mine"       # not closed with the transport
    for each in (reader, writer, number):
        os.close(each)


async def test_a_duplicate_outlives_its_endpoint() -> None:
    transport, _ = await endpoint()
    with transport.get_extra_info("socket").dup() as other:
        await close(transport)
        other.settimeout(30)
        other.sendto(b"alive", other.getsockname())
        assert other.recv(16) == b"alive"


async def test_a_second_transport_over_one_socket_is_refused() -> None:
    transport, _ = await endpoint()
    sock: Any = transport._sock
    with pytest.raises(RuntimeError, match="is used by transport"):
        await endpoint(sock=sock)
    await close(transport)


def test_debug_mode_tells_of_a_forgotten_endpoint(run: Run) -> None:
    with pytest.warns(ResourceWarning, match="unclosed transport <DatagramTransport"):
        run(endpoint(asyncio.DatagramProtocol), debug=True)
        gc.collect()
