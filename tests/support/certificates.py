"""Certificates for tests, made by the `openssl` command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


def openssl(*arguments: str) -> None:
    """Run a command of openssl."""
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@dataclass(frozen=True)
class Issued:
    """A certificate, its key, and both together in one file."""

    certificate: Path
    key: Path
    store: Path


class Authority:
    """An authority, and what it has issued, in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.certificate = directory / "authority.pem"
        self._key = directory / "authority.key"
        self._request("authority", "/CN=authority", "-x509", "-days", "3", self.certificate)

    def issue(
        self, name: str, subject: str, *, host: str = "IP:127.0.0.1", days: int = 3
    ) -> Issued:
        """A certificate of a broker or of a client; with 0 days it has expired."""
        certificate, request = (self._directory / f"{name}.{end}" for end in ("pem", "request"))
        extensions = self._directory / "extensions"
        extensions.write_text(f"subjectAltName={host}\n")
        self._request(name, subject, request)
        signing = ["x509", "-req", "-in", str(request), "-out", str(certificate)]
        signing += ["-days", str(days)]
        signing += ["-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial"]
        openssl(*signing, "-extfile", str(extensions))
        key, store = self._directory / f"{name}.key", self._directory / f"{name}.store"
        store.write_text(key.read_text() + certificate.read_text())
        return Issued(certificate, key, store)

    def _request(self, name: str, subject: str, *more: str | Path) -> None:
        key = self._directory / f"{name}.key"
        making = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl(*making, "-keyout", str(key), "-subj", subject, *map(str, more[:-1]),
                "-out", str(more[-1]))  # fmt: skip


@dataclass(frozen=True)
class Certificates:
    """What the tests of a session share."""

    directory: Path
    authority: Authority
    broker: Issued
    alice: Issued
    stranger: Issued
    """Of an authority that nobody trusts."""

    @property
    def trust(self) -> str:
        """The path of the truststore."""
        return str(self.authority.certificate)


def make_certificates(directory: Path) -> Certificates:
    """Certificates of a broker and of clients, in a new directory."""
    authority = Authority(directory / "ours")
    return Certificates(
        directory,
        authority,
        authority.issue("broker", "/CN=broker"),
        authority.issue("alice", "/O=Example, Inc./OU=Readers/CN=alice"),
        Authority(directory / "theirs").issue("stranger", "/CN=stranger"),
    )


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates that the tests of a session share."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
