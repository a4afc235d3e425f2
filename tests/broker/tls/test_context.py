"""The TLS of a listener: what its settings make, and what they are refused for."""

import os
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from odradek.broker.config import Config
from odradek.broker.settings.declaration import ConfigError
from odradek.broker.tls.context import Tls, make_tls
from odradek.broker.tls.stores import blocks_of
from tests.support.certificates import Certificates, openssl

LISTENERS = {"listeners": "PLAINTEXT://h:1,SSL://h:2"}


def tls_of(settings: dict[str, str], listener_name: str = "SSL") -> Tls:
    given = Config({**LISTENERS, **settings}).listener_tls(listener_name)
    assert given is not None
    return make_tls(given)


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as error:
        tls_of(settings)
    return str(error.value)


@pytest.fixture
def keystore(certificates: Certificates) -> dict[str, str]:
    return {"ssl.keystore.location": str(certificates.broker.store)}


def test_a_pem_file_is_enough(keystore: dict[str, str]) -> None:
    context = tls_of(keystore).context
    assert context.verify_mode is ssl.CERT_NONE
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize("joint", ["\n", " "], ids=["lines", "spaces"])
def test_pem_in_the_settings_leaves_no_file(
    joint: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = tls_of(
        {
            "ssl.keystore.key": joint.join(certificates.broker.key.read_text().splitlines()),
            "ssl.keystore.certificate.chain": joint.join(
                certificates.broker.certificate.read_text().splitlines()
            ),
            "ssl.truststore.certificates": joint.join(
                Path(certificates.trust).read_text().splitlines()
            ),
            "ssl.client.auth": "required",
        }
    )
    assert made.context.verify_mode is ssl.CERT_REQUIRED
    assert len(made.context.get_ca_certs()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_key_in_the_settings_is_readable_by_nobody_else(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []

    def look(context: ssl.SSLContext, path: str, **more: object) -> None:
        modes.append(Path(path).stat().st_mode & 0o777)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    tls_of(
        {
            "ssl.keystore.key": certificates.broker.key.read_text(),
            "ssl.keystore.certificate.chain": certificates.broker.certificate.read_text(),
        }
    )
    assert modes == [0o600]


@pytest.mark.parametrize(
    "command",
    [
        ("pkcs8", "-topk8", "-passout", "pass:hunter2"),
        ("ec", "-aes128", "-passout", "pass:hunter2"),
    ],
    ids=["PKCS8", "old"],
)
def test_an_encrypted_key(
    command: tuple[str, ...], certificates: Certificates, tmp_path: Path
) -> None:
    key, store = tmp_path / "encrypted.key", tmp_path / "store"
    openssl(*command, "-in", str(certificates.broker.key), "-out", str(key))
    certificate = certificates.broker.certificate.read_text()
    store.write_text(key.read_text() + certificate)
    inline = {"ssl.keystore.key": key.read_text(), "ssl.keystore.certificate.chain": certificate}
    for settings in ({"ssl.keystore.location": str(store)}, inline):
        tls_of({**settings, "ssl.key.password": "hunter2"})
        wrong = refusal({**settings, "ssl.key.password": "hunter3"})
        assert "cannot be opened with ssl.key.password" in wrong
        assert "hunter" not in wrong
        assert "is encrypted: set ssl.key.password" in refusal(settings)


def test_what_a_listener_says_beats_what_all_say(
    certificates: Certificates, keystore: dict[str, str]
) -> None:
    settings = {
        "listeners": "SSL://h:1,INSIDE://h:2",
        "listener.security.protocol.map": "SSL:SSL,INSIDE:SSL",
        "inter.broker.listener.name": "SSL",
        **keystore,
        "ssl.truststore.location": certificates.trust,
        "ssl.client.auth": "required",
        "listener.name.inside.ssl.client.auth": "none",
        "listener.name.inside.ssl.enabled.protocols": "TLSv1.3",
    }
    assert tls_of(settings, "SSL").context.verify_mode is ssl.CERT_REQUIRED
    inside = tls_of(settings, "INSIDE").context
    assert inside.verify_mode is ssl.CERT_NONE
    assert inside.minimum_version is ssl.TLSVersion.TLSv1_3
    own = {**settings, "listener.name.ssl.ssl.keystore.location": "/nowhere"}
    assert refusal(own).startswith("listener.name.ssl.ssl.keystore.location=/nowhere cannot be")
    tls_of(own, "INSIDE")


def test_an_invalid_value_of_a_listener_is_named_with_its_prefix() -> None:
    with pytest.raises(ConfigError, match=r"^listener\.name\.ssl\.ssl\.client\.auth=maybe is not"):
        Config({**LISTENERS, "listener.name.ssl.ssl.client.auth": "maybe"})


def test_a_listener_without_tls_has_none() -> None:
    assert Config(LISTENERS).listener_tls("PLAINTEXT") is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols=TLSv1.1,TLSv1.2"),
        ({"ssl.enabled.protocols": ""}, "ssl.enabled.protocols"),
        ({"ssl.protocol": "TLSv1"}, "ssl.protocol=TLSv1 is not allowed"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth=required needs ssl.truststore.location"),
        ({"ssl.client.auth": "requested"}, "needs ssl.truststore.location"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "cannot choose among the suites"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL_SHA"}, "'TLS_RSA_WITH_NULL_SHA' is not a suite"),
        (
            {
                "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "ssl.enabled.protocols": "TLSv1.3",
            },
            "has no suite for ssl.enabled.protocols=TLSv1.3",
        ),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "ssl.principal.mapping.rules is not allowed"),
        ({"ssl.keystore.password": "hunter2"}, "ssl.keystore.password has no meaning"),
        ({"ssl.keystore.key": "x"}, "only one of"),
        ({"ssl.keystore.certificate.chain": "x"}, "needs ssl.keystore.key"),
        ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location=/nowhere cannot be read"),
        ({"ssl.truststore.location": "/nowhere"}, "ssl.truststore.location=/nowhere cannot be"),
    ],
)
def test_what_is_refused(settings: dict[str, str], words: str, keystore: dict[str, str]) -> None:
    told = refusal({**keystore, **settings})
    assert words in told
    assert "hunter2" not in told


def test_a_broker_without_a_certificate_is_refused() -> None:
    assert "set ssl.keystore.location, or" in refusal({})
    assert "needs ssl.keystore.certificate.chain" in refusal(
        {"ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"}
    )


def test_a_truststore_has_certificates_and_no_password(
    certificates: Certificates, keystore: dict[str, str]
) -> None:
    trust = {**keystore, "ssl.truststore.location": certificates.trust}
    told = refusal({**trust, "ssl.truststore.password": "hunter2"})
    assert "ssl.truststore.password has no meaning" in told
    assert "hunter2" not in told
    key = {"ssl.truststore.location": str(certificates.broker.key)}
    assert "has no certificates" in refusal({**keystore, **key})


def test_the_key_of_another_certificate(certificates: Certificates, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.write_text(
        certificates.alice.key.read_text() + certificates.broker.certificate.read_text()
    )
    told = refusal({"ssl.keystore.location": str(store)})
    assert told == (
        f"the key of ssl.keystore.location={store} does not belong to the first certificate"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "is JKS, which cannot be read: convert it with `keytool"),
        (b"\x30\x82\x0a\0", "cannot be opened with ssl.keystore.password: set it"),
        (b"hello", "is not PEM"),
        (b"", "is not PEM"),
        (
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "cannot be read",
        ),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "it has 0 keys"),
    ],
)
def test_a_store_is_told_by_its_content(content: bytes, words: str, tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    store.write_bytes(content)
    told = refusal({"ssl.keystore.location": str(store), "ssl.keystore.type": "PEM"})
    assert f"ssl.keystore.location={store}" in told
    assert words in told


def test_a_hostile_store_takes_no_time(tmp_path: Path) -> None:
    """To look for the end of each block anew would take hours, in which the broker stands still."""
    store = tmp_path / "store.pem"
    store.write_text("-----BEGIN CERTIFICATE-----" * 100_000)
    assert "is not PEM" in refusal({"ssl.keystore.location": str(store)})


def test_a_block_ends_with_its_own_label(certificates: Certificates, tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    begun, ended = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    text = certificates.broker.store.read_text()
    store.write_text(f"{ended}\n{begun}\nAAAA\n-----END X-----\n-----BEGIN Y-----\n{text}")
    assert "BEGIN Y" not in "".join(each.text for each in blocks_of(store.read_text()))
    assert blocks_of(store.read_text()) == blocks_of(text)


@hypothesis.given(data=st.data())
@hypothesis.settings(
    max_examples=25, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_a_damaged_store_is_refused_or_works(
    data: st.DataObject, certificates: Certificates, keystore: dict[str, str], tmp_path: Path
) -> None:
    """Whatever it has; so a running broker that reads it again only says so."""
    name, path = data.draw(
        st.sampled_from(
            [
                ("ssl.truststore.location", Path(certificates.trust)),
                ("ssl.keystore.location", certificates.broker.store),
            ]
        )
    )
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    store = tmp_path / "store.pem"
    store.write_bytes(content[:at] + data.draw(st.binary(max_size=2)) + content[at + 1 :])
    with suppress(ConfigError):
        tls_of({**keystore, name: str(store)})


def test_a_truststore_that_is_not_ascii_is_named(
    certificates: Certificates, keystore: dict[str, str]
) -> None:
    text = Path(certificates.trust).read_text().replace("M", "\u00c4")
    assert refusal({**keystore, "ssl.truststore.certificates": text}) == (
        "ssl.truststore.certificates is damaged: from -----BEGIN to -----END, PEM is ASCII"
    )


@pytest.mark.parametrize("name", ["ssl.keystore.location", "ssl.truststore.location"])
def test_nobody_waits_for_a_pipe(name: str, keystore: dict[str, str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert (
        refusal({**keystore, name: str(pipe)}) == f"{name}={pipe} cannot be read: it is not a file"
    )


def test_the_suites_of_tls_1_2_can_be_chosen(keystore: dict[str, str]) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    context = tls_of({**keystore, "ssl.cipher.suites": suite}).context
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2, "no suite of TLS 1.3 is named"
    older = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert older == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    newer = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    both = tls_of({**keystore, "ssl.cipher.suites": f"{suite},{newer}"}).context
    assert both.maximum_version is ssl.TLSVersion.TLSv1_3
    only = tls_of({**keystore, "ssl.cipher.suites": newer}).context
    assert only.minimum_version is ssl.TLSVersion.TLSv1_3
