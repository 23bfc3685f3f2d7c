"""A server that may hold 32 descriptors, met by 100 clients of another process. All are served in
the end: none is refused, the listener is not lost. Exit code 0 then."""
import asyncio
import subprocess
import sys

import ringloop

CLIENTS = 100
CLIENT = """
import socket, sys
port = int(sys.argv[1])
for first in range(0, int(sys.argv[2]), 50):
    sockets = [socket.create_connection(('127.0.0.1', port)) for _ in range(50)]
    for one in sockets:
        one.sendall(b'x')
    for one in sockets:
        one.settimeout(20)
        assert one.recv(1) == b'x'
        one.close()
"""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readexactly(1))
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def main() -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)      # "too many open files" is expected
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=128)
    port = server.sockets[0].getsockname()[1]
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(port), str(CLIENTS)])
    code = await loop.run_in_executor(None, client.wait)
    server.close()
    return code


if __name__ == "__main__":
    sys.exit(ringloop.run(main()))
