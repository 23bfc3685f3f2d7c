"""Certificates for TLS tests, made on the spot with the openssl command, and contexts of them.

authority() is one for the process, made at its first use in a folder that goes with the process;
each certificate has an EC key of its own unless told otherwise.
"""
from __future__ import annotations

import atexit
import dataclasses
import datetime
import functools
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

_CONFIGURATION = """
[ca]
default_ca = it
[it]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
default_crl_days = 30
policy = any
unique_subject = no
[any]
commonName = optional
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
"""


def _openssl(*arguments: str | Path, check: bool = True) -> str:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Certificate:
    certificate: Path     # with its chain behind it
    key: Path

    def load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """Signs certificates. `own` is its own one, `parent` who signed that (None: itself)."""

    def __init__(self, folder: Path, name: str, parent: Authority | None = None) -> None:
        folder.mkdir()
        self.folder, self.parent = folder, parent
        self._count = 0
        (folder / "index.txt").touch()
        (folder / "openssl.cnf").write_text(_CONFIGURATION.format(folder=folder))
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        _make_key(key)
        request = folder / "request.pem"
        _openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        if parent is None:
            _openssl("x509", "-req", "-in", request, "-signkey", key, "-days", "30",
                     "-extfile", folder / "openssl.cnf", "-extensions", "authority",
                     "-out", certificate)
        else:
            made = parent._sign(request, folder / "openssl.cnf", "authority", *_dates(-1, 30))
            certificate.write_text(made)
        self.own = Certificate(certificate, key)

    @property
    def chain(self) -> str:
        """What a server sends behind its own certificate."""
        return "" if self.parent is None else self.own.certificate.read_text() + self.parent.chain

    def _sign(self, request: Path, extensions: Path, section: str, start: str, end: str) -> str:
        out = request.with_suffix(".signed")
        _openssl("ca", "-batch", "-notext", "-config", self.folder / "openssl.cnf",
                 "-cert", self.own.certificate, "-keyfile", self.own.key, "-in", request,
                 "-extfile", extensions, "-extensions", section, "-startdate", start,
                 "-enddate", end, "-out", out)
        return out.read_text()

    def issue(self, name: str = "localhost", *, names: str = "DNS:localhost,IP:127.0.0.1",
              days: tuple[float, float] = (-1, 30), purpose: str = "serverAuth,clientAuth",
              usage: str = "digitalSignature", rsa_bits: int | None = None,
              with_chain: bool = True) -> Certificate:
        """A certificate for `names` (a subjectAltName; "" for none), valid from and to so many
        days from now."""
        self._count += 1
        base = self.folder / f"issued-{self._count}"
        key, request, extensions = (base.with_suffix(end) for end in (".key", ".csr", ".cnf"))
        certificate = base.with_suffix(".pem")
        _make_key(key, rsa_bits)
        lines = ["[it]", "basicConstraints = critical, CA:FALSE", f"keyUsage = critical, {usage}",
                 f"extendedKeyUsage = {purpose}"]
        extensions.write_text("\n".join(lines + [f"subjectAltName = {names}"] * bool(names)))
        _openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        made = self._sign(request, extensions, "it", *_dates(*days))
        certificate.write_text(made + (self.chain if with_chain else ""))
        return Certificate(certificate, key)

    def revoke(self, certificate: Certificate) -> None:
        _openssl("ca", "-config", self.folder / "openssl.cnf", "-cert", self.own.certificate,
                 "-keyfile", self.own.key, "-revoke", certificate.certificate)

    def revocations(self) -> Path:
        """The list of what was revoked, in a file."""
        out = self.folder / "revoked.pem"
        _openssl("ca", "-config", self.folder / "openssl.cnf", "-cert", self.own.certificate,
                 "-keyfile", self.own.key, "-gencrl", "-out", out)
        return out

    def below(self, name: str) -> Authority:
        """Another one, whose certificate this one signed."""
        self._count += 1
        return Authority(self.folder / f"below-{self._count}", name, self)

    def client(self, **options: ssl.TLSVersion) -> ssl.SSLContext:
        """A client's context that trusts this authority."""
        root = self if self.parent is None else self.parent
        context = ssl.create_default_context(cafile=str(root.own.certificate))
        return _set(context, options)


def server(certificate: Certificate, **options: ssl.TLSVersion) -> ssl.SSLContext:
    """A server's context; options: attributes of the context."""
    return _set(certificate.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)), options)


def _set(context: ssl.SSLContext, options: dict[str, ssl.TLSVersion]) -> ssl.SSLContext:
    for name, value in options.items():
        setattr(context, name, value)
    return context


def _make_key(path: Path, rsa_bits: int | None = None) -> None:
    kind = ("EC", "ec_paramgen_curve:prime256v1")
    if rsa_bits is not None:
        kind = ("RSA", f"rsa_keygen_bits:{rsa_bits}")
    _openssl("genpkey", "-algorithm", kind[0], "-pkeyopt", kind[1], "-out", path)


def _dates(first_day: float, last_day: float) -> tuple[str, str]:
    now = datetime.datetime.now(datetime.timezone.utc)
    first, last = (now + datetime.timedelta(days=days) for days in (first_day, last_day))
    return f"{first:%Y%m%d%H%M%SZ}", f"{last:%Y%m%d%H%M%SZ}"


_making = threading.RLock()


def _once(make: Any) -> Any:
    """As functools.cache, but two threads (a test's peer is one) do not make the same thing."""
    cached = functools.cache(make)

    @functools.wraps(make)
    def call(*arguments: Any) -> Any:
        with _making:
            return cached(*arguments)
    return call


@_once
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="ringloop-certificates-")
    atexit.register(made.cleanup)
    return Path(made.name)


@_once
def authority(name: str = "ringloop test authority") -> Authority:
    """The process's authority of that name."""
    return Authority(_folder() / name.replace(" ", "-"), name)


@_once
def good() -> Certificate:
    """A certificate of authority() for localhost with which nothing is wrong."""
    return authority().issue()
