"""Handshakes of TLS in great numbers: how long the loop works on them before it serves others."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.certificates import Certificates, openssl

from .crowd import crowd
from .target import attacked

TURN_MS_MAX: Final = 20.0
COUNT: Final = 2000
KEYS: Final = {
    "ec": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    "rsa-2048": ("-newkey", "rsa:2048"),
    "rsa-4096": ("-newkey", "rsa:4096"),
}


def make_store(directory: Path, kind: str) -> Path:
    """A certificate that signs itself, and its key, in one file."""
    key, certificate, store = (directory / name for name in ("key", "certificate", "store"))
    openssl("req", "-x509", *KEYS[kind], "-nodes", "-days", "3", "-subj", "/CN=broker",
            "-keyout", str(key), "-out", str(certificate))  # fmt: skip
    store.write_text(key.read_text() + certificate.read_text())
    return store


@pytest.mark.soak
@pytest.mark.parametrize("kind", KEYS)
def test_handshakes_do_not_hold_up_others(
    tmp_path: Path, certificates: Certificates, kind: str
) -> None:
    settings = {"ssl.keystore.location": str(make_store(tmp_path, kind))}
    with attacked(tmp_path / "broker", certificates, settings) as target:
        command = [sys.executable, "-m", "tests.fuzz.handshakes", str(target.tls_port), str(COUNT)]
        with crowd(target.plain_port, 1):  # once it serves, its start is over
            before_s = target.cpu_s
            target.longest_turn_ms()  # from now on
            subprocess.run(command, check=True)
            each_ms = (target.cpu_s - before_s) / COUNT * 1000
            turn_ms = target.longest_turn_ms()
    print(f"{COUNT} handshakes {kind}: longest turn={turn_ms:.1f} ms, cpu={each_ms:.2f} ms each")
    assert turn_ms < TURN_MS_MAX
