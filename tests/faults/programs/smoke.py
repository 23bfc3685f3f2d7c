"""A little of everything on the backend that this machine allows; prints one line of JSON.

    smoke.py [LOOPS]     before that, makes and closes so many loops in a row
"""
import asyncio
import importlib.util
import json
import os
import sys
import tempfile
import threading

import ringloop

SIZE = 1 << 20


async def echo() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    sent = os.urandom(SIZE)
    writer.write(sent)
    writer.write_eof()
    assert await reader.read() == sent
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def files() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 100_000)
        file.flush()
        async with ringloop.open(file.name, "rb") as opened:
            assert len(await opened.pread(100_000, offset=0)) == 100_000
        assert (await ringloop.fs.stat(file.name)).st_size == 100_000


async def kernels() -> None:
    if not all(map(importlib.util.find_spec, ("ringloop._kernels", "numpy"))):
        return
    import numpy
    a = numpy.random.default_rng(1).random((64, 64), dtype=numpy.float32)
    assert numpy.allclose(await ringloop.kernels.matmul(a, a), a @ a, rtol=1e-4)


async def main() -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0.001)
    assert await loop.run_in_executor(None, threading.get_ident) != threading.get_ident()
    woken = asyncio.Event()
    threading.Thread(target=loop.call_soon_threadsafe, args=(woken.set,)).start()
    await woken.wait()
    await echo()
    await files()
    await kernels()


def loops_in_a_row(count: int) -> None:
    for _ in range(count):
        loop = ringloop.new_event_loop()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


if __name__ == "__main__":
    loops_in_a_row(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    ringloop.run(main())
    what = ringloop.capabilities()
    print(json.dumps({"backend": what.backend, "reason": what.reason}))
