"""examples/cpp/static_files.cpp: what a browser asks, what it must not get, and what nobody may."""
from __future__ import annotations

import http.client
import os
import random
import socket
from pathlib import Path

import pytest

from examples.running import Server, Starter, read_all, start as start

PAGE = "<title>Grüße</title>"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "sub").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "sub" / "a b.txt").write_text("spaced")
    (folder / "big").write_bytes(random.Random(1).randbytes(3 << 20))
    (folder / "empty.css").write_bytes(b"")
    (folder / "inside").symlink_to("sub/a b.txt")
    (tmp_path / "secret").write_text("secret")
    (folder / "outside").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to("..")
    os.mkfifo(folder / "fifo")
    return folder


@pytest.fixture
def server(start: Starter, site: Path) -> Server:
    return start("static_files", "127.0.0.1", 0, site)


def test_files_come_over_one_connection_with_their_types(server: Server, site: Path) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for path, body, kind in (
            ("/", PAGE.encode(), "text/html; charset=utf-8"),
            ("/sub/a%20b.txt?x=1", b"spaced", "text/plain; charset=utf-8"),
            ("/big", (site / "big").read_bytes(), "application/octet-stream"),
            ("/empty.css", b"", "text/css"),
            ("/inside", b"spaced", "application/octet-stream"),
            (f"http://127.0.0.1:{server.port}/sub/../index.html", PAGE.encode(),
             "text/html; charset=utf-8")):
        client.request("GET", path)
        answer = client.getresponse()
        assert (answer.status, answer.getheader("content-type")) == (200, kind), path
        assert answer.read() == body
        port = client.sock.getsockname()[1]
        client.request("HEAD", path)
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        assert answer.getheader("content-length") == str(len(body))
        assert client.sock.getsockname()[1] == port
    client.close()
    assert server.stop() == ""


@pytest.mark.parametrize("path", ["/nothing", "/sub/", "/sub", "/outside", "/up/secret", "/fifo",
                                  "/../secret", "/%2e%2e/secret", "/sub/..%2f../secret",
                                  "/" + "a" * 300, "/index.html/x"])
def test_what_is_not_in_the_folder_is_not_found(server: Server, path: str) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for _ in range(2):          # the connection goes on
        client.request("GET", path)
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (404, b"Not Found\n")
    client.close()


HOST = b"Host: x\r\n"


@pytest.mark.parametrize(("request_", "status"), [
    (b"nonsense\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),                               # no host
    (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    (b"GET relative HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    (b"GET /%0 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    (b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    (b"GET /%zz HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 413),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 405),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 9000 + b"\r\n\r\n", 431),
    (b"GET /" + b"y" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
], ids=lambda value: None if isinstance(value, int) else value[:40].decode())
def test_what_is_no_good_request_is_refused_and_closed(server: Server, request_: bytes,
                                                       status: int) -> None:
    with server.connect() as client:
        client.sendall(request_)
        client.shutdown(socket.SHUT_WR)
        said = read_all(client)
    assert said.startswith(f"HTTP/1.1 {status} ".encode()), said
    assert b"\r\nConnection: close\r\n" in said
    assert said.count(b"HTTP/1.1") == 1


def test_another_method_is_told_which_there_are(server: Server) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for method in ("DELETE", "BREW"):
        client.request(method, "/")
        answer = client.getresponse()
        assert (answer.status, answer.getheader("allow")) == (405, "GET, HEAD")
        answer.read()
    client.close()


def test_requests_in_one_piece_and_byte_by_byte_are_answered_in_order(server: Server) -> None:
    first = b"GET / HTTP/1.1\r\n" + HOST + b"\r\nGET /nothing HTTP/1.1\r\n" + HOST + b"\r\n"
    last = b"GET /sub/a%20b.txt HTTP/1.0\r\n\r\n"       # HTTP/1.0 closes
    with server.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(first)
        for byte in last:
            client.sendall(bytes([byte]))
        said = read_all(client)
    assert said.count(b"HTTP/1.1 200 OK") == 2 and said.count(b"HTTP/1.1 404") == 1
    assert said.index(PAGE.encode()) < said.index(b"404") < said.index(b"spaced")


def test_it_stops_while_clients_idle_and_read_slowly(server: Server) -> None:
    with server.connect() as idle, server.connect() as slow:
        slow.sendall(b"GET /big HTTP/1.1\r\n" + HOST + b"\r\n")
        assert slow.recv(8) == b"HTTP/1.1"
        assert server.stop() == ""
        assert idle.recv(1) == b""
