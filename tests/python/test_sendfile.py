"""sendfile() and sock_sendfile(): order, positions, cancelling, and ends in the middle."""
from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket

import pytest

from harness import certificates
from harness.tcp import Recorder, attach, elsewhere, read_all, read_exactly, reset, tcp_pair, turns

SIZE = 4 << 20  # more than both ends of a connection take without a reader


@pytest.fixture(scope="module")
def data():
    return os.urandom(1 << 20) * (SIZE >> 20)


@pytest.fixture
def file(tmp_path, data):
    name = tmp_path / "file"
    name.write_bytes(data)
    with open(name, "rb") as opened:
        yield opened


@pytest.fixture
def pair(request):
    if getattr(request, "param", "tcp") == "tcp":
        with tcp_pair() as (near, far):
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
            yield near, far
    else:
        near, far = socket.socketpair()
        far.settimeout(30)
        with near, far:
            yield near, far


BOTH_FAMILIES = pytest.mark.parametrize("pair", ["tcp", "unix"], indirect=True)


def sendfile(*arguments, **options):
    return asyncio.get_running_loop().sendfile(*arguments, **options)


def sock_sendfile(sock, *arguments, **options):
    sock.setblocking(False)
    return asyncio.get_running_loop().sock_sendfile(sock, *arguments, **options)


async def started(sending):
    """The task, once it waits for a peer that does not read."""
    task = asyncio.create_task(sending)
    await turns(20)
    assert not task.done()
    return task


# ---- a socket

@BOTH_FAMILIES
async def test_a_socket_gets_the_whole_file(pair, file, data):
    near, far = pair
    got = asyncio.create_task(elsewhere(read_exactly, far, SIZE))
    assert await sock_sendfile(near, file, fallback=False) == SIZE
    assert await got == data
    assert file.tell() == SIZE


@pytest.mark.parametrize("offset, count, sent", [
    (0, 1000, 1000), (5, None, SIZE - 5), (SIZE - 10, 100, 10), (SIZE, None, 0), (SIZE + 5, 7, 0),
    (3, 2 << 20, 2 << 20)])
async def test_offset_and_count_choose_a_part(pair, file, data, offset, count, sent):
    near, far = pair
    got = asyncio.create_task(elsewhere(read_exactly, far, sent))
    assert await sock_sendfile(near, file, offset, count, fallback=False) == sent
    assert await got == data[offset:offset + sent]
    assert file.tell() == offset + sent  # with nothing to send, too, as in newer asyncio


async def test_a_file_that_was_read_ahead_tells_where_sending_ended(pair, file, data):
    """asyncio moves the descriptor under the buffer: tell() was wrong by what the buffer held."""
    near, far = pair
    assert file.read(10) == data[:10]
    assert await sock_sendfile(near, file, 0, 20, fallback=False) == 20
    assert file.tell() == 20 and file.read(5) == data[20:25]


async def test_an_empty_file_is_nothing(pair, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with open(tmp_path / "empty", "rb") as file:
        assert await sock_sendfile(pair[0], file, fallback=False) == 0


async def test_what_is_no_regular_file_goes_through_a_buffer(pair):
    near, far = pair
    assert await sock_sendfile(near, io.BytesIO(b"in memory")) == 9
    reader, writer = os.pipe()
    os.write(writer, b"from a pipe")
    os.close(writer)
    with open(reader, "rb", 0) as pipe:
        with pytest.raises(asyncio.SendfileNotAvailableError, match="not a regular file"):
            await sock_sendfile(near, pipe, fallback=False)
    for fake in (io.BytesIO(b"in memory"), object()):
        with pytest.raises(asyncio.SendfileNotAvailableError, match="not a regular file"):
            await sock_sendfile(near, fake, fallback=False)
    assert await elsewhere(read_exactly, far, 9) == b"in memory"


async def test_sending_refuses_what_asyncio_refuses(pair, file, tmp_path):
    near, _ = pair
    with open(tmp_path / "file", encoding="latin-1") as text:
        with pytest.raises(ValueError, match="binary mode"):
            await sock_sendfile(near, text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        with pytest.raises(ValueError, match="SOCK_STREAM"):
            await sock_sendfile(datagrams, file)
    for arguments, error in (((0, 0), ValueError), ((0, "5"), TypeError), ((-1,), ValueError),
                             (("5",), TypeError), ((0, -1), ValueError)):
        with pytest.raises(error):
            await sock_sendfile(near, file, *arguments)
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        await sock_sendfile(near, file)


async def test_a_peer_that_is_gone_is_told_as_such(pair, file):
    """asyncio says that sendfile is not available when the first piece fails."""
    near, far = pair
    reset(far)
    with pytest.raises(ConnectionError):
        for _ in range(100):
            await sock_sendfile(near, file, fallback=False)


@BOTH_FAMILIES
async def test_a_peer_that_goes_in_the_middle_is_an_error(pair, file):
    near, far = pair
    task = await started(sock_sendfile(near, file, fallback=False))
    far.close()
    with pytest.raises(ConnectionError):
        await task
    assert 0 < file.tell() < SIZE


@BOTH_FAMILIES
async def test_a_cancelled_send_leaves_the_position_and_nothing_else(pair, file, data):
    near, far = pair
    task = await started(sock_sendfile(near, file, fallback=False))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    sent = file.tell()
    assert 0 < sent < SIZE
    near.shutdown(socket.SHUT_WR)
    assert await elsewhere(read_all, far) == data[:sent]


async def test_a_send_that_was_cancelled_at_once_has_sent_nothing(pair, file):
    near, far = pair
    task = asyncio.create_task(sock_sendfile(near, file, fallback=False))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert file.tell() == 0


async def test_a_file_that_is_closed_in_the_middle_is_not_read_any_more(pair, file, data):
    """Its number may be another file's by then."""
    near, far = pair
    task = await started(sock_sendfile(near, file, fallback=False))
    file.close()
    got = asyncio.create_task(elsewhere(read_all, far))
    with pytest.raises(ValueError, match="closed file"):
        await task
    near.shutdown(socket.SHUT_WR)
    received = await got
    assert len(received) < SIZE and received == data[:len(received)]


async def test_a_file_that_shrinks_ends_early(pair, file, tmp_path):
    near, far = pair
    task = await started(sock_sendfile(near, file, fallback=False))
    os.truncate(tmp_path / "file", 1000)
    got = asyncio.create_task(elsewhere(read_all, far))
    sent = await task
    near.shutdown(socket.SHUT_WR)
    assert len(await got) == sent < SIZE


async def test_the_loop_turns_while_a_fast_reader_takes_a_file(pair, file):
    near, far = pair
    turned = 0

    async def count():
        nonlocal turned
        while True:
            turned += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    got = asyncio.create_task(elsewhere(read_exactly, far, SIZE))
    await sock_sendfile(near, file, fallback=False)
    counting.cancel()
    await got
    assert turned >= SIZE >> 20


# ---- a transport

@BOTH_FAMILIES
async def test_a_file_stands_between_what_is_written_before_and_after(pair, file, data):
    near, far = pair
    transport, protocol = await attach(near)
    before = os.urandom(8 << 20)
    got = asyncio.create_task(elsewhere(read_all, far))
    transport.write(before)
    assert await sendfile(transport, file, fallback=False) == SIZE
    assert file.tell() == SIZE
    transport.write(b"after")
    transport.close()
    assert await got == before + data + b"after"
    assert await protocol.lost is None


async def test_nothing_is_written_while_a_file_is_on_its_way(pair, file, data):
    near, far = pair
    transport, protocol = await attach(near)
    task = await started(sendfile(transport, file))
    for write in (lambda: transport.write(b"no"), lambda: transport.writelines([b"no"])):
        with pytest.raises(RuntimeError, match="sendfile is in progress"):
            write()
    with pytest.raises(RuntimeError, match="already set"):
        await sendfile(transport, file)
    assert await elsewhere(read_exactly, far, SIZE) == data
    assert await task == SIZE
    transport.write(b"yes")
    assert await elsewhere(read_exactly, far, 3) == b"yes"
    transport.close()
    await protocol.lost


@pytest.mark.parametrize("paused", [False, True])
async def test_reading_waits_for_the_file_and_then_is_as_before(pair, file, data, paused):
    near, far = pair
    transport, protocol = await attach(near)
    if paused:
        transport.pause_reading()
    task = await started(sendfile(transport, file))
    far.sendall(b"an answer")
    await turns(10)
    assert not transport.is_reading() and protocol.received == b""
    assert await elsewhere(read_exactly, far, SIZE) == data
    await task
    assert transport.is_reading() != paused
    if not paused:
        assert await protocol.receive(9) == b"an answer"
    transport.close()
    await protocol.lost


@pytest.mark.parametrize("queued", [0, 8 << 20])
async def test_a_close_in_the_middle_waits_for_the_file(pair, file, data, queued):
    """asyncio's sendfile() never ends: the close takes away what it waits for."""
    near, far = pair
    transport, protocol = await attach(near)
    transport.write(bytes(queued))
    task = await started(sendfile(transport, file))
    transport.close()
    assert await elsewhere(read_all, far) == bytes(queued) + data
    assert await task == SIZE
    assert await protocol.lost is None


async def test_write_eof_in_the_middle_waits_for_the_file(pair, file, data):
    """asyncio shuts the connection down under the file."""
    near, far = pair
    transport, protocol = await attach(near)
    task = await started(sendfile(transport, file))
    transport.write_eof()
    assert await elsewhere(read_all, far) == data
    assert await task == SIZE
    transport.close()
    await protocol.lost


@pytest.mark.parametrize("queued", [0, 8 << 20])
async def test_an_abort_in_the_middle_ends_the_file(pair, file, queued):
    """asyncio's sendfile() never ends."""
    near, far = pair
    transport, protocol = await attach(near)
    transport.write(bytes(queued))
    task = await started(sendfile(transport, file))
    transport.abort()
    with pytest.raises(ConnectionError, match="closed by peer"):
        await task
    assert await protocol.lost is None


@pytest.mark.parametrize("queued", [0, 8 << 20])
@BOTH_FAMILIES
async def test_a_transport_whose_peer_goes_in_the_middle(pair, file, queued):
    near, far = pair
    transport, protocol = await attach(near)
    transport.write(bytes(queued))
    task = await started(sendfile(transport, file))
    far.close()
    with pytest.raises(ConnectionError):
        await task
    transport.abort()
    await protocol.lost


@pytest.mark.parametrize("queued", [0, 8 << 20])
async def test_a_cancelled_file_leaves_a_transport_that_works(pair, file, data, queued):
    near, far = pair
    transport, protocol = await attach(near)
    transport.write(bytes(queued))
    task = await started(sendfile(transport, file))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    sent = file.tell()
    assert (sent == 0) == (queued > 0)
    assert transport.is_reading()
    transport.write(b"after")
    transport.close()
    assert await elsewhere(read_all, far) == bytes(queued) + data[:sent] + b"after"
    await protocol.lost


async def test_a_cancelled_file_ends_a_close_that_waited_for_it(pair, file):
    near, far = pair
    transport, protocol = await attach(near)
    task = await started(sendfile(transport, file))
    transport.close()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await protocol.lost is None
    assert len(await elsewhere(read_all, far)) == file.tell()


async def test_a_transport_refuses_what_asyncio_refuses(pair, file, tmp_path):
    near, far = pair
    transport, protocol = await attach(near)
    with open(tmp_path / "file", encoding="latin-1") as text:
        with pytest.raises(ValueError, match="binary mode"):
            await sendfile(transport, text)
    with pytest.raises(asyncio.SendfileNotAvailableError):
        await sendfile(transport, io.BytesIO(b"in memory"), fallback=False)
    transport.write(b"still works")
    assert await elsewhere(read_exactly, far, 11) == b"still works"
    transport.close()
    with pytest.raises(RuntimeError, match="closing"):
        await sendfile(transport, file)
    await protocol.lost
    with pytest.raises(RuntimeError):
        await sendfile(asyncio.Transport(), file)


async def test_what_is_no_regular_file_goes_through_the_transport(pair):
    near, far = pair
    transport, protocol = await attach(near)
    assert await sendfile(transport, io.BytesIO(b"in memory"), 3, 4) == 4
    transport.close()
    assert await elsewhere(read_all, far) == b"memo"
    await protocol.lost


@contextlib.asynccontextmanager
async def tls_transport(folder, received):
    class Peer(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            received.append(self)

    loop = asyncio.get_running_loop()
    path = str(folder / "socket")
    server = await loop.create_unix_server(
        Peer, path, ssl=certificates.server(certificates.good()))
    transport, protocol = await loop.create_unix_connection(
        Recorder, path, ssl=certificates.authority().client(), server_hostname="localhost")
    while not received:
        await turns()
    try:
        yield transport
    finally:
        transport.close()
        await protocol.lost
        await received[0].lost
        server.close()
        await server.wait_closed()


async def test_tls_sends_a_file_through_its_encryption(tmp_path, file, data):
    received = []
    async with tls_transport(tmp_path, received) as transport:
        with pytest.raises(RuntimeError, match="fallback is disabled"):
            await sendfile(transport, file, fallback=False)
        assert await sendfile(transport, file, 5, 1 << 20) == 1 << 20
        assert await received[0].receive(1 << 20) == data[5:5 + (1 << 20)]
