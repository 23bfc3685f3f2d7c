"""aioquic's server and client on our loop: a handshake, and 1 MiB there and back."""
from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from harness.loops import Run

SIZE = 1024 * 1024


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name)
            .public_key(key.public_key()).serial_number(1)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256()))
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))
    return files


def test_a_handshake_and_a_mebibyte_there_and_back(certificate: tuple[Path, Path],
                                                   run: Run) -> None:
    tasks: list[Any] = []

    async def echo(reader: Any, writer: Any) -> None:
        writer.write(await reader.read())
        writer.write_eof()

    def on_stream(reader: Any, writer: Any) -> None:
        tasks.append(asyncio.create_task(echo(reader, writer)))

    async def main() -> None:
        configuration = QuicConfiguration(is_client=False)
        configuration.load_cert_chain(*certificate)
        server = await serve("127.0.0.1", 0, configuration=configuration,
                             stream_handler=on_stream)
        port = server._transport.get_extra_info("sockname")[1]
        client_configuration = QuicConfiguration(is_client=True, verify_mode=ssl.CERT_NONE)
        async with connect("127.0.0.1", port, configuration=client_configuration) as client:
            await client.wait_connected()
            reader, writer = await client.create_stream()
            sent = bytes(range(256)) * (SIZE // 256)
            writer.write(sent)
            writer.write_eof()
            assert await reader.read() == sent
        server.close()

    run(main())
