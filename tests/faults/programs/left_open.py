"""A protocol raises KeyboardInterrupt. Its traceback holds both ends of the connection open until
the interpreter has lost the means to import anything."""
import asyncio
import socket

import ringloop


class Interrupted(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        raise KeyboardInterrupt


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Interrupted, "127.0.0.1", 0)
    peer = socket.create_connection(server.sockets[0].getsockname())
    await asyncio.sleep(60)
    peer.close()


with asyncio.Runner(loop_factory=ringloop.new_event_loop) as runner:
    runner.run(main())
