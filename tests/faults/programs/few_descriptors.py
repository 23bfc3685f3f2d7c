"""A server that may hold 32 descriptors, met by 100 clients of another process. All are served in
the end: none is refused, the listener is not lost. Exit code 0 then."""
import asyncio
import resource
import subprocess
import sys

import ringloop

CLIENTS = 100
CLIENT = """
import socket, sys
port = int(sys.stdin.readline())
for first in range(0, int(sys.argv[1]), 50):
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


async def main(client: subprocess.Popen[str]) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)      # "too many open files" is expected
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=128)
    port = server.sockets[0].getsockname()[1]
    assert client.stdin is not None
    client.stdin.write(f"{port}\n")
    client.stdin.flush()
    code = await loop.run_in_executor(None, client.wait)
    server.close()
    return code


if __name__ == "__main__":
    with subprocess.Popen([sys.executable, "-c", CLIENT, str(CLIENTS)], stdin=subprocess.PIPE,
                          text=True) as started:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))       # the client keeps its own
        sys.exit(ringloop.run(main(started)))
