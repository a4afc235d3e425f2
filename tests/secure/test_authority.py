"""Certificates of one's own, judged by OpenSSL."""

import ssl
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from odradek.secure.authority import Authority, Issued

NOW = datetime.now(UTC)


def handshake(server: Issued, trusted: bytes, host: str, directory: Path) -> None:
    """Shake hands in memory.  Raises: ssl.SSLError."""
    store = directory / "store.pem"
    store.write_bytes(server.store)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(store)
    trusting = ssl.create_default_context(cadata=trusted.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=host)
    broker = serving.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, broker):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert client.getpeercert()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "broker.example", "localhost"])
def test_a_certificate_is_good_for_its_hosts(host: str, tmp_path: Path) -> None:
    authority = Authority.make("ours", NOW)
    hosts = ["127.0.0.1", "::1", "broker.example", "localhost"]
    issued = authority.issue("broker", hosts, NOW)
    handshake(issued, authority.pem.certificate, host, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(issued, authority.pem.certificate, "other.example", tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(issued, Authority.make("ours", NOW).pem.certificate, host, tmp_path)


def test_a_host_may_have_a_name_of_any_letters() -> None:
    issued = Authority.make("ours", NOW).issue("broker", ["bücher.example"], NOW)
    assert b"xn--bcher-kva.example" in ssl.PEM_cert_to_DER_cert(issued.certificate.decode())


def test_a_stored_authority_goes_on_issuing(tmp_path: Path) -> None:
    stored = Authority.make("ours", NOW).pem
    issued = Authority.load(stored).issue("broker", ["localhost"], NOW)
    handshake(issued, stored.certificate, "localhost", tmp_path)


def test_openssl_finds_nothing_to_say_against_them(tmp_path: Path) -> None:
    authority = Authority.make("ours", NOW)
    trusted, store = tmp_path / "ca.pem", tmp_path / "broker.pem"
    trusted.write_bytes(authority.pem.certificate)
    store.write_bytes(authority.issue("broker", ["localhost"], NOW).store)
    for purpose in ("sslserver", "sslclient"):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose]
        subprocess.run([*command, "-CAfile", str(trusted), str(store)], check=True)
