"""SimSocket: what asyncio asks of a socket.socket, over a descriptor of the simulated kernel."""
from __future__ import annotations

import errno
import socket
from typing import Any


class SimSocket:
    """Owns one simulated descriptor until close() or detach()."""

    family = socket.AF_INET
    proto = 0

    def __init__(self, simulation: Any, number: int | None = None,
                 kind: socket.SocketKind = socket.SOCK_STREAM) -> None:
        self.simulation = simulation
        self.type = kind
        if number is None:
            number = (simulation.make_socket() if kind == socket.SOCK_STREAM
                      else simulation.make_datagram_socket())
        self.number = number

    def fileno(self) -> int:
        return self.number

    def setblocking(self, blocking: bool) -> None:
        if blocking:
            raise ValueError("a simulated socket never blocks")

    def gettimeout(self) -> float:
        return 0.0

    def settimeout(self, seconds: float | None) -> None:
        if seconds != 0:
            raise ValueError("a simulated socket never blocks")

    def bind(self, address: tuple[str, int]) -> None:
        self.simulation.bind(self.number, address[1])

    def listen(self, backlog: int = 100) -> None:
        self.simulation.listen(self.number, backlog)

    def connect(self, address: tuple[str, int]) -> None:
        self.simulation.connect(self.number, address[1])

    def connect_ex(self, address: tuple[str, int]) -> int:
        try:
            self.simulation.connect(self.number, address[1])
        except BlockingIOError:
            return errno.EINPROGRESS
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def accept(self) -> tuple[SimSocket, Any]:
        made = SimSocket(self.simulation, self.simulation.accept(self.number))
        return made, ("127.0.0.1", 0)

    def send(self, data: bytes) -> int:
        sent: int = self.simulation.send(self.number, bytes(data))
        return sent

    def recv(self, size: int) -> bytes:
        data: bytes = self.simulation.receive(self.number, size)
        return data

    def shutdown(self, how: int) -> None:
        self.simulation.shutdown(self.number, how)

    def getsockname(self) -> Any:
        return self.simulation.address(self.number, False)

    def getpeername(self) -> Any:
        return self.simulation.address(self.number, True)

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, level: int, option: int, *_: Any) -> int:
        if (level, option) != (socket.SOL_SOCKET, socket.SO_ERROR):
            return 0
        number: int = self.simulation.socket_error(self.number)
        return number

    def detach(self) -> int:
        number, self.number = self.number, -1
        return number

    def close(self) -> None:
        if self.number >= 0:
            number, self.number = self.number, -1
            self.simulation.close(number)
