"""What TLS must refuse: bad certificates, bad peers, cut and spoilt records.

Each bad certificate is refused by a client of ours with the reason that OpenSSL gives, costs the
server that one connection and no report, and leaves nothing behind.
"""
from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import ssl
from typing import Any, Callable

import pytest

from harness import certificates
from harness.certificates import Authority, Certificate, authority
from harness.tcp import Recorder, elsewhere, read_all
from harness.tls import Peer, serving, talking
from ringloop import _native

TLS12 = {"maximum_version": ssl.TLSVersion.TLSv1_2}
TLS13 = {"minimum_version": ssl.TLSVersion.TLSv1_3}


async def refusal(server: ssl.SSLContext, client: ssl.SSLContext,
                  host: str = "localhost") -> ssl.SSLError:
    """Why a client of ours refuses to talk to a server of ours."""
    async with serving(server) as port:
        with pytest.raises(ssl.SSLError) as refused:
            await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=host)
    return refused.value


# ---- certificates of servers

Case = tuple[Certificate, ssl.SSLContext, str]


def issued(host: str = "localhost", by: Callable[[], Authority] = authority, **how: Any) -> Case:
    return by().issue(**how), authority().client(), host


def self_signed() -> Case:
    return authority("localhost").own, authority().client(), "localhost"


def unknown_authority() -> Case:
    return authority("somebody else").issue(), authority().client(), "localhost"


def missing_link() -> Case:
    return issued(by=lambda: authority().below("between"), with_chain=False)


def signed_by_no_authority() -> Case:
    """The chain ends at a trusted root, but a plain certificate signed in between."""
    plain = authority().issue()
    rogue = authority().below("rogue")
    rogue.own = Certificate(plain.certificate, plain.key)
    return rogue.issue(), authority().client(), "localhost"


def revoked() -> Case:
    certificate = authority().issue()
    authority().revoke(certificate)
    client = authority().client()
    client.load_verify_locations(authority().revocations())
    client.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return certificate, client, "localhost"


def no_revocations() -> Case:
    certificate, client, host = issued()
    client.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return certificate, client, host


def weak_key() -> Case:
    certificate, client, host = issued(rsa_bits=1024)
    client.set_ciphers("DEFAULT@SECLEVEL=2")
    return certificate, client, host


def name_in_subject_only() -> Case:
    certificate, client, host = issued(names="")
    client.hostname_checks_common_name = False
    return certificate, client, host


# OpenSSL's number for "no name at all", which CPython 3.13 asks for.
STRICT = 87 if ssl.create_default_context().verify_flags & ssl.VERIFY_X509_STRICT else 62
# What is wrong: (how it is made, OpenSSL's number for it)
BAD_CERTIFICATES: dict[str, tuple[Callable[[], Case], int]] = {
    "expired": (lambda: issued(days=(-30, -1)), 10),
    "not yet valid": (lambda: issued(days=(1, 30)), 9),
    "self-signed": (self_signed, 18),
    "unknown authority": (unknown_authority, 20),
    "link of the chain missing": (missing_link, 20),
    "signed by no authority": (signed_by_no_authority, 79),
    "wrong host": (lambda: issued(host="example.test"), 62),
    "name without address": (lambda: issued(host="127.0.0.1", names="DNS:localhost"), 64),
    "address as a name": (lambda: issued(host="127.0.0.1", names="DNS:127.0.0.1"), 64),
    "other address": (lambda: issued(host="127.0.0.2"), 64),
    "wildcard over two labels": (
        lambda: issued(host="a.b.example.test", names="DNS:*.example.test"), 62),
    "wildcard for the domain": (
        lambda: issued(host="example.test", names="DNS:*.example.test"), 62),
    "wildcard in a label": (
        lambda: issued(host="foo.example.test", names="DNS:f*o.example.test"), 62),
    "bare wildcard": (lambda: issued(names="DNS:*"), 62),
    "no name": (lambda: issued(name="else", names="DER:30:00"), STRICT),
    "empty name": (lambda: issued(name="else", names="DER:30:02:82:00"), 62),
    "name in the subject only": (name_in_subject_only, 62),
    "purpose of a client": (lambda: issued(purpose="clientAuth"), 26),
    "key for signing lists": (lambda: issued(usage="cRLSign"), 26),
    "revoked": (revoked, 23),
    "no list of the revoked": (no_revocations, 3),
    "weak key": (weak_key, 66),
}


@pytest.mark.parametrize("what", BAD_CERTIFICATES)
async def test_a_bad_certificate_is_refused_for_its_reason(what):
    make, number = BAD_CERTIFICATES[what]
    certificate, client, host = make()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    error = await refusal(certificate.load(context), client, host)
    assert isinstance(error, ssl.SSLCertVerificationError), error
    assert error.verify_code == number, error


async def test_a_bad_certificate_is_refused_by_start_tls_too():
    certificate = authority().issue(days=(-30, -1))
    async with serving(certificates.server(certificate)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ssl.SSLCertVerificationError):
            await writer.start_tls(authority().client(), server_hostname="localhost")
        with pytest.raises(ssl.SSLCertVerificationError):
            await writer.wait_closed()
        with pytest.raises(ssl.SSLCertVerificationError):
            await reader.read()


# ---- what both must agree on


@pytest.mark.parametrize("server, client", [(TLS12, TLS13), (TLS13, TLS12)])
async def test_no_common_version_is_refused(server, client):
    await refusal(certificates.server(certificates.good(), **server), authority().client(**client))


async def test_an_old_version_is_refused_unless_asked_for():
    client = authority().client()
    client.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        client.minimum_version = ssl.TLSVersion.TLSv1
        client.maximum_version = ssl.TLSVersion.TLSv1_1
    await refusal(certificates.server(certificates.good()), client)


async def test_no_common_cipher_is_refused():
    server = certificates.server(certificates.good(), **TLS12)
    server.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    client = authority().client(**TLS12)
    client.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    await refusal(server, client)


# ---- certificates of clients


def demanding(**options: Any) -> ssl.SSLContext:
    context = certificates.server(certificates.good(), **options)
    context.load_verify_locations(authority().own.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


BAD_CLIENTS: dict[str, Callable[[], Certificate | None]] = {
    "none": lambda: None,
    "of an unknown authority": lambda: authority("somebody else").issue(),
    "expired": lambda: authority().issue(days=(-30, -1)),
    "of a server": lambda: authority().issue(purpose="serverAuth"),
}


@pytest.mark.parametrize("versions", [TLS12, TLS13], ids=["1.2", "1.3"])
@pytest.mark.parametrize("what", BAD_CLIENTS)
async def test_a_client_without_a_good_certificate_is_told_so(what, versions):
    """The alert used to stay in the server: the client saw a reset, or an end of the stream."""
    certificate = BAD_CLIENTS[what]()
    client = authority().client(**versions)
    if certificate is not None:
        certificate.load(client)
    made: list[Recorder] = []
    async with serving(demanding(**versions), lambda: made.append(Recorder()) or made[-1]) as port:
        with pytest.raises(ssl.SSLError, match="ALERT|alert"):
            # Of TLS 1.3 the client's part is done before the server has seen its certificate.
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client,
                                                           server_hostname="localhost")
            try:
                await reader.read()
            finally:
                writer.transport.abort()
    assert [each.events for each in made] == [[]]


# ---- peers that do not speak TLS


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0" * 64,
                                  b"\x16\x03\x01\xff\xff" + b"x" * 64,
                                  b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02garbage"],
                         ids=["HTTP", "zeros", "huge record", "no hello", "SSLv2"])
async def test_a_server_refuses_what_is_no_client_hello(said):
    made: list[Recorder] = []
    async with serving(certificates.server(certificates.good()),
                       lambda: made.append(Recorder()) or made[-1]) as port:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                await elsewhere(read_all, client)
    assert [each.events for each in made] == [[]]


@pytest.mark.parametrize("said", [b"220 welcome\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n",
                                  b"\0" * 9])
async def test_a_client_refuses_a_server_that_speaks_plain_text(said):
    def script(sock: socket.socket) -> None:
        sock.recv(1 << 16)
        sock.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            read_all(sock)

    async with talking(script) as port:
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", port, ssl=authority().client(),
                                          server_hostname="localhost")


# ---- handshakes and records that are cut or spoilt


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority().client().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("length", [0, 1, 4, 5, 6, 40, -1, None])
async def test_a_server_drops_a_handshake_that_is_cut(length):
    made: list[Recorder] = []
    async with serving(certificates.server(certificates.good()),
                       lambda: made.append(Recorder()) or made[-1]) as port:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(client_hello()[:length])
            client.shutdown(socket.SHUT_WR)
            await elsewhere(read_all, client)
    assert [each.events for each in made] == [[]]


@pytest.mark.parametrize("length", [0, 1, 5, 100, 700])
async def test_a_client_is_told_of_a_handshake_that_is_cut(length):
    def script(sock: socket.socket) -> None:
        peer = Peer(sock, certificates.server(certificates.good()), server_side=True)
        peer.more()
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        sock.sendall(peer.outgoing.read()[:length])
        sock.shutdown(socket.SHUT_WR)
        read_all(sock)

    async with talking(script) as port:
        with pytest.raises(ConnectionResetError, match="handshake"):
            await asyncio.open_connection("127.0.0.1", port, ssl=authority().client(),
                                          server_hostname="localhost")


async def lost_after(spoil: Callable[[Peer], None], **versions: Any) -> Recorder:
    """A client's protocol that got "first", then what `spoil` sends, then the end of the stream."""
    def script(sock: socket.socket) -> None:
        context = certificates.server(certificates.good(), **versions)
        peer = Peer(sock, context, server_side=True).handshake()
        peer.send(b"first")
        spoil(peer)
        sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            read_all(sock)

    async with talking(script) as port:
        _, protocol = await asyncio.get_running_loop().create_connection(
            Recorder, "127.0.0.1", port, ssl=authority().client(), server_hostname="localhost")
        await asyncio.wait([protocol.lost])
    assert protocol.events.count("lost") == 1
    return protocol


@pytest.mark.parametrize("length", [1, 2, 4, 5, 6, 20, -1])
async def test_a_record_that_is_cut_is_an_error_and_no_end(length):
    """A stream that ended inside a record used to look like one that was ended properly."""
    protocol = await lost_after(lambda peer: peer.sock.sendall(peer.sealed(b"second")[:length]))
    assert protocol.received == b"first"
    assert isinstance(protocol.lost.result(), ssl.SSLEOFError)
    assert "eof" not in protocol.events


def test_the_place_in_a_record_is_known_however_the_bytes_come_in():
    chance = random.Random(1)
    records = [b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)
               for size in (0, 1, 2, 4, 5, 6, 300, 16_384)]
    for _ in range(200):
        chance.shuffle(records)
        stream = b"".join(records)
        ends = set(itertools.accumulate(map(len, records), initial=0))
        meter, at = _native.TlsProtocol(), 0
        meter._incoming = ssl.MemoryBIO()
        while at < len(stream):
            piece = stream[at:at + chance.choice((1, 2, 3, 4, 5, 6, 7, 100, 5000))]
            meter._take(memoryview(piece))
            at += len(piece)
            assert meter._inside_record == (at not in ends), (at, [len(each) for each in records])


async def test_a_record_that_is_cut_is_an_error_of_a_stream():
    def script(sock: socket.socket) -> None:
        peer = Peer(sock, certificates.server(certificates.good()), server_side=True).handshake()
        sock.sendall(peer.sealed(b"all of it")[:-1])

    async with talking(script) as port:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=authority().client(), server_hostname="localhost")
        with pytest.raises(ssl.SSLEOFError):
            await reader.read()
        writer.close()
        with pytest.raises(ssl.SSLEOFError):
            await writer.wait_closed()


async def test_an_end_between_records_is_an_end_as_in_asyncio():
    protocol = await lost_after(lambda peer: None)
    assert protocol.events == ["made", "data", "eof", "lost"]
    assert protocol.lost.result() is None


def flipped(record: bytes, at: int) -> bytes:
    return record[:at] + bytes([record[at] ^ 1]) + record[at + 1:]


SPOILT: dict[str, Callable[[Peer], bytes]] = {
    "a bit of the contents": lambda peer: flipped(peer.sealed(b"second"), 8),
    "a bit of the code behind": lambda peer: flipped(peer.sealed(b"second"), -1),
    "the length": lambda peer: flipped(peer.sealed(b"second" * 50), 4),
    "plain text for a record": lambda peer: b"\x17\x03\x03\x00\x06second",
    "no record at all": lambda peer: b"this is not TLS",
    "too long a record": lambda peer: b"\x17\x03\x03\xff\xff" + b"x" * 100,
    "a record twice": lambda peer: peer.sealed(b"") or 2 * peer.sealed(b"second"),
}


@pytest.mark.parametrize("versions", [TLS12, TLS13], ids=["1.2", "1.3"])
@pytest.mark.parametrize("what", SPOILT)
async def test_a_spoilt_record_ends_the_connection_with_an_error(what, versions):
    protocol = await lost_after(lambda peer: peer.sock.sendall(SPOILT[what](peer)), **versions)
    assert isinstance(protocol.lost.result(), ssl.SSLError)
    assert protocol.received == (b"firstsecond" if "twice" in what else b"first")
    assert "eof" not in protocol.events
