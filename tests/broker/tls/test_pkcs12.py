"""PKCS12 stores as OpenSSL, cryptography and Java's keytool write them."""

import shlex
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.broker.config import Config
from odradek.broker.settings.declaration import ConfigError
from odradek.broker.tls.context import make_tls
from odradek.broker.tls.pkcs12 import BadPkcs12, pkcs12_pem
from odradek.broker.tls.stores import blocks_of
from tests.support.certificates import Authority, Certificates, Issued, openssl

PASSWORD = "hunter2"
KEYSTORE, TRUSTSTORE = "ssl.keystore.location", "ssl.truststore.location"


def context_of(settings: dict[str, str]) -> ssl.SSLContext:
    given = Config({"listeners": "PLAINTEXT://h:1,SSL://h:2", **settings}).listener_tls("SSL")
    assert given is not None
    return make_tls(given).context


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as error:
        context_of(settings)
    assert PASSWORD not in str(error.value)
    return str(error.value)


def exported(issued: Issued, path: Path, *more: str) -> str:
    own = ("-inkey", str(issued.key), "-in", str(issued.certificate), "-out", str(path))
    openssl("pkcs12", "-export", *own, "-passout", f"pass:{PASSWORD}", *more)
    return str(path)


def keytool(*arguments: str) -> None:
    done = subprocess.run(["keytool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def trusted(certificates: Certificates, path: Path, kind: str, *more: str) -> str:
    """A truststore as keytool writes it."""
    where = ("-keystore", str(path), "-storepass", PASSWORD, "-storetype", kind)
    from_ = ("-noprompt", "-alias", "ca", "-file", certificates.trust)
    keytool("-importcert", *from_, *where, *more)
    return str(path)


@pytest.fixture
def keystore(certificates: Certificates, tmp_path: Path) -> dict[str, str]:
    location = exported(certificates.broker, tmp_path / "keystore.jks")
    return {KEYSTORE: location, "ssl.keystore.password": PASSWORD}


def shake_hands(broker: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Both sides of a handshake; the broker's object."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname="127.0.0.1")
    answering = broker.wrap_bio(there, back, server_side=True)
    for side in (asking, answering, asking, answering):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return answering


def test_a_keystore_has_the_key_and_its_certificates_in_order(
    certificates: Certificates, keystore: dict[str, str], tmp_path: Path
) -> None:
    client = ssl.create_default_context(cafile=certificates.trust)
    assert shake_hands(context_of(keystore), client).cipher()
    unrelated = Authority(tmp_path / "other").certificate
    more = tmp_path / "more.pem"
    more.write_text(unrelated.read_text() + Path(certificates.trust).read_text())
    full = exported(certificates.broker, tmp_path / "full", "-certfile", str(more))
    blocks = blocks_of(pkcs12_pem(Path(full).read_bytes(), PASSWORD))
    assert [block.label for block in blocks] == ["PRIVATE KEY", "CERTIFICATE", "CERTIFICATE"]
    of_broker = blocks_of(certificates.broker.certificate.read_text())
    assert [*of_broker, *blocks_of(Path(certificates.trust).read_text())] == blocks[1:]


@pytest.mark.parametrize("password", [{"ssl.keystore.password": "hunter3"}, {}])
def test_a_wrong_password_is_named(password: dict[str, str], keystore: dict[str, str]) -> None:
    del keystore["ssl.keystore.password"]
    told = refusal({**keystore, **password})
    why = "the password is wrong, or the file is damaged" if password else "set it"
    shown = f"{KEYSTORE}={keystore[KEYSTORE]}"
    assert told == f"{shown} cannot be opened with ssl.keystore.password: {why}"


def test_a_key_has_no_password_of_its_own(keystore: dict[str, str]) -> None:
    context_of({**keystore, "ssl.key.password": PASSWORD})
    told = refusal({**keystore, "ssl.key.password": "hunter3"})
    assert "ssl.key.password must be ssl.keystore.password, or unset" in told


def test_a_damaged_store_is_refused(keystore: dict[str, str]) -> None:
    path = Path(keystore[KEYSTORE])
    whole = path.read_bytes()
    for end in range(2, len(whole), 97):
        with pytest.raises(BadPkcs12):
            pkcs12_pem(whole[:end], PASSWORD)
        with pytest.raises(BadPkcs12):
            pkcs12_pem(whole[: end - 1] + bytes([whole[end - 1] ^ 0xFF]) + whole[end:], PASSWORD)


def test_a_truststore_has_no_private_key(keystore: dict[str, str]) -> None:
    trust = {TRUSTSTORE: keystore[KEYSTORE], "ssl.truststore.password": PASSWORD}
    assert "has a private key: a truststore must have only" in refusal({**keystore, **trust})


def test_without_cryptography_the_extra_is_named(
    keystore: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "odradek.broker.tls.pkcs12", None)
    told = refusal(keystore)
    assert "needs the package cryptography: pip install 'odradek[tls]'" in told
    command = shlex.split(told.partition("`")[2].partition("`")[0])
    command[command.index("keystore.pem")] = str(tmp_path / "keystore.pem")
    openssl(*command[1:], "-passin", f"pass:{PASSWORD}", "-passout", f"pass:{PASSWORD}")
    context_of({KEYSTORE: str(tmp_path / "keystore.pem"), "ssl.key.password": PASSWORD})


@pytest.mark.java
@pytest.mark.parametrize("more", [(), ("-J-Dkeystore.pkcs12.legacy",)], ids=["new", "legacy"])
def test_a_truststore_of_keytool(
    more: tuple[str, ...], certificates: Certificates, keystore: dict[str, str], tmp_path: Path
) -> None:
    settings = {
        **keystore,
        TRUSTSTORE: trusted(certificates, tmp_path / "trust.jks", "PKCS12", *more),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    client = ssl.create_default_context(cafile=certificates.trust)
    client.load_cert_chain(certificates.alice.certificate, certificates.alice.key)
    assert shake_hands(context_of(settings), client).getpeercert()
    assert "ssl.truststore.password" in refusal({**settings, "ssl.truststore.password": "hunter3"})


@pytest.mark.java
def test_jks_is_converted_by_the_command_that_is_told(
    certificates: Certificates, keystore: dict[str, str], tmp_path: Path
) -> None:
    jks = tmp_path / "it's a keystore.p12"
    old = ("-srckeystore", keystore[KEYSTORE], "-srcstorepass", PASSWORD, "-noprompt")
    new = ("-destkeystore", str(jks), "-deststoretype", "JKS", "-deststorepass", PASSWORD)
    keytool("-importkeystore", *old, *new)
    trust = trusted(certificates, tmp_path / "trust.p12", "JKS")
    passwords = {"ssl.keystore.password": PASSWORD, "ssl.truststore.password": PASSWORD}
    settings = {KEYSTORE: str(jks), TRUSTSTORE: trust, **passwords}
    for location, name in ((KEYSTORE, "keystore.p12"), (TRUSTSTORE, "truststore.p12")):
        told = refusal(settings)
        assert f"{location}={settings[location]} is JKS, which cannot be read" in told
        command = shlex.split(told.partition("`")[2].partition("`")[0])
        settings[location] = command[command.index(name)] = str(tmp_path / name)
        keytool(*command[1:], "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD, "-noprompt")
    assert len(context_of(settings).get_ca_certs()) == 1
