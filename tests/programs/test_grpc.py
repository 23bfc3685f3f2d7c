"""grpcio's aio server and client on our loop. Messages are plain bytes: no generated code."""
from __future__ import annotations

from typing import Any, AsyncIterator

import grpc
import grpc.aio
import pytest
from harness.loops import Run

COUNT = 1000


class Service(grpc.GenericRpcHandler):
    """/test/one answers with its message reversed, /test/all with each message of the stream."""

    def service(self, details: Any) -> Any:
        if details.method == "/test/one":
            return grpc.unary_unary_rpc_method_handler(self._one)
        return grpc.stream_stream_rpc_method_handler(self._all)

    async def _one(self, request: bytes, context: Any) -> bytes:
        return request[::-1]

    async def _all(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request[::-1]


# grpc's own threads and pollers live as long as the process.
@pytest.mark.no_ledger
def test_a_unary_and_a_streaming_call(run: Run) -> None:
    async def numbers() -> AsyncIterator[bytes]:
        for number in range(COUNT):
            yield b"%04d" % number

    async def main() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Service(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await channel.unary_unary("/test/one")(b"abc") == b"cba"
            call = channel.stream_stream("/test/all")(numbers())
            heard = [answer async for answer in call]
        assert heard == [(b"%04d" % number)[::-1] for number in range(COUNT)]
        await server.stop(None)
    run(main())
