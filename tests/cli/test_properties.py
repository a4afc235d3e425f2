"""Properties under the names of Java, librdkafka and kafka-python."""

import time
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER
from odradek.cli.client_sasl import TOKEN_PROPERTIES
from odradek.cli.client_tls import tls_context
from odradek.cli.client_tokens import for_librdkafka
from odradek.cli.clients import Cluster, chosen_cluster
from odradek.cli.errors import CommandError
from odradek.cli.layers import layer_of, merged, read_layer
from odradek.cli.librdkafka import properties_for
from odradek.cli.properties import canonical
from odradek.jaas import OAUTHBEARER_MODULE
from tests.support.certificates import Certificates, openssl
from tests.support.tokens import unsigned

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOKENS = {"sasl.mechanism": "OAUTHBEARER"}
HANDLER = "sasl.login.callback.handler.class"
URL = "sasl.oauthbearer.token.endpoint.url"
FROM_FILE = {HANDLER: ENDPOINT_LOGIN_HANDLER, **TOKENS}
SASL = {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "hunter2"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"client.id": "x"}, {"client.id": "x"}),
        ({"client_id": "x"}, {"client.id": "x"}),
        ({"security_protocol": "sasl_ssl"}, {"security.protocol": "SASL_SSL"}),
        ({"sasl_plain_username": "u"}, {"sasl.username": "u"}),
        ({"ssl_cafile": "ca.pem"}, {"ssl.ca.location": "ca.pem"}),
        ({"delivery.timeout.ms": "1"}, {"message.timeout.ms": "1"}),
        ({"request.required.acks": "0"}, {"acks": "0"}),
        ({"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}),
        (
            {"partition.assignment.strategy": "org.apache.RangeAssignor, roundrobin"},
            {"partition.assignment.strategy": "range,roundrobin"},
        ),
        ({"ssl_check_hostname": "false"}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            {"sasl.jaas.config": f'{PLAIN} username="u" password="p \\"q\\"";'},
            {"sasl.username": "u", "sasl.password": 'p "q"'},
        ),
    ],
)
def test_names(given: dict[str, str], expected: dict[str, str]) -> None:
    assert canonical(given) == expected


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"sasl.jaas.config": f"{PLAIN};"}, "sasl.jaas.config gives no username"),
        ({"sasl.jaas.config": f"{PLAIN} password=hunter2"}, "does not end with ';'"),
        (
            {"sasl.jaas.config": f"{PLAIN};", "sasl.mechanism": "SCRAM-SHA-256"},
            "SCRAM-SHA-256 needs org.apache.kafka.common.security.scram.ScramLoginModule",
        ),
        (
            {"sasl.jaas.config": f"{PLAIN} username=u password=p;", "sasl.password": "hunter2"},
            "sasl.jaas.config and sasl.password exclude each other",
        ),
        ({"sasl_plain_password": "p", "sasl.password": "q"}, "sasl.password has two values"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS is none of PLAINTEXT, SSL"),
        ({"ssl.truststore.location": "no/ca"}, "ssl.truststore.location=no/ca can't be read: No"),
        ({"ssl.truststore.certificates": "hunter2"}, "ssl.ca.pem is not PEM"),
        ({"ssl.truststore.password": "p"}, "ssl.truststore.password has no meaning for a store in"),
    ],
)
def test_what_no_client_here_can_use_is_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        canonical(given)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "security.protocol=SASL_SSL needs sasl.mechanism"),
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI is not supported: use .*512, OAUTHBEARER"),
        ({"sasl.mechanism": "scram"}, "sasl.mechanism=scram is not supported: use one of PLAIN"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": ""}, "PLAIN needs sasl.username, or sasl.ja"),
        ({"sasl.mechanism": "PLAIN", "sasl.password": ""}, "PLAIN needs sasl.password, or sasl.ja"),
        (
            {"sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs a token: from a token endpoint or a file",
        ),
    ],
)
def test_a_login_that_cannot_succeed_is_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint) as refused:
        chosen_cluster("h:1", None, None, {**SASL, **given})
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"sasl.jaas.config": f"{PLAIN} username=x password=hunter2;", **TOKENS},
            "but OAUTHBEARER needs org.apache.kafka.common.security.oauthbearer",
        ),
        (
            {"sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;", **TOKENS},
            "unsecuredLoginStringClaim_sub must be the name of a user",
        ),
        ({HANDLER: "com.example.Login", **TOKENS}, "as no class is ever loaded"),
        ({HANDLER: ENDPOINT_LOGIN_HANDLER, **TOKENS}, "must be the URL of a token endpoint"),
        ({**FROM_FILE, URL: "https://h/t"}, "sasl.jaas.config: clientId must be set"),
        ({URL: "https://h/t", **TOKENS}, f"{URL} needs {HANDLER}={ENDPOINT_LOGIN_HANDLER}"),
        ({**FROM_FILE, URL: "file:///none"}, "the token in /none cannot be read: No such file"),
    ],
)
def test_tokens_that_nobody_has(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint) as refused:
        chosen_cluster("h:1", None, None, {"security.protocol": "SASL_SSL", **given})
    assert "hunter2" not in refused.value.message


def test_tokens_for_kafka_python_and_librdkafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(unsigned({"sub": "alice", "exp": 1_900_000_000}))
    given = {"security.protocol": "SASL_SSL", **FROM_FILE, URL: f"file://{file}"}
    cluster = chosen_cluster("h:1", None, None, given)
    provider: Any = cluster.admin_options()["sasl_oauth_token_provider"]
    assert provider.token() == file.read_text()
    assert not TOKEN_PROPERTIES & properties_for("Consumer", cluster.properties).keys()
    answer: Any = for_librdkafka(cluster.properties)["oauth_cb"]
    assert answer("") == (file.read_text(), 1_900_000_000, "alice", {})
    file.unlink()
    with pytest.raises(CommandError, match="this command gets no login: the token in"):
        answer("")
    assert capsys.readouterr().err.startswith("this command gets no login: the token in")


def test_unsecured_tokens() -> None:
    options = 'unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_trace="7"'
    given = {"sasl.jaas.config": f"{OAUTHBEARER_MODULE} required {options};", **TOKENS}
    cluster = chosen_cluster("h:1", None, None, {"security.protocol": "SASL_SSL", **given})
    provider: Any = cluster.admin_options()["sasl_oauth_token_provider"]
    assert provider.extensions() == {"trace": "7"}
    answer: Any = for_librdkafka(cluster.properties)["oauth_cb"]
    token, expires_s, user, extensions = answer("")
    assert (user, extensions) == ("alice", {"trace": "7"})
    assert 3500 < expires_s - time.time() < 3700
    assert token.endswith(".")


def test_tokens_of_librdkafka_are_for_librdkafka_only() -> None:
    oidc = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    cluster = chosen_cluster("h:1", None, None, {"security.protocol": "SASL_SSL", **oidc})
    with pytest.raises(CommandError, match="this command can't log in by OAUTHBEARER"):
        cluster.admin_options()


JAVAS = {"sasl.jaas.config": f"{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub=u;"}
LIBRDKAFKAS = {
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": "principal=alice",
}


@pytest.mark.parametrize(("far", "near"), [(JAVAS, LIBRDKAFKAS), (LIBRDKAFKAS, JAVAS)])
def test_the_nearest_way_to_tokens_counts(far: dict[str, str], near: dict[str, str]) -> None:
    layers = [layer_of("far", {**far, **TOKENS}), layer_of("near", {**near, **TOKENS})]
    assert merged(layers)[0] == {**near, **TOKENS}


def test_librdkafka_does_not_get_the_tokens_of_another_context() -> None:
    far, near = {**JAVAS, **TOKENS}, {"sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    properties, _ = merged([layer_of("far", far), layer_of("near", near)])
    assert properties_for("Consumer", properties) == near


def test_the_nearest_user_and_store_count() -> None:
    far = layer_of(
        "far",
        {
            "sasl.jaas.config": f"{PLAIN} username=u password=p;",
            "ssl.ca.location": "far.pem",
            "ssl.certificate.location": "far.pem",
            "ssl.key.location": "far.pem",
        },
    )
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    near = layer_of("near", {"sasl.password": "q", "ssl.ca.pem": pem, "ssl.key.location": "n.pem"})
    properties, sources = merged([far, near])
    assert properties == {
        "sasl.username": "u",
        "sasl.password": "q",
        "ssl.ca.pem": pem,
        "ssl.certificate.location": "far.pem",
        "ssl.key.location": "n.pem",
    }
    assert (sources["sasl.username"], sources["sasl.password"]) == ("far", "near")
    with pytest.raises(CommandError, match=r"^near: ssl.ca.location and ssl.ca.pem exclude each"):
        layer_of("near", {"ssl.ca.pem": pem, "ssl.ca.location": "far.pem"})


def test_a_file_of_a_java_client(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# mine\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism: PLAIN\n")
    found = read_layer(file)
    assert found.properties == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with pytest.raises(
        CommandError, match=r"can't be read as a properties file: No such file or dir"
    ):
        read_layer(tmp_path / "missing")


def test_kafka_pythons_names() -> None:
    given = {
        **SASL,
        "sasl.mechanism": "PLAIN",
        "socket.connection.setup.timeout.ms": "7",
        "bootstrap.servers": "h:1",
    }
    options = Cluster(given).admin_options()
    assert options.pop("ssl_context") is not None
    assert options == {
        "bootstrap_servers": ["h:1"],
        "client_id": "odradek-cli",
        "security_protocol": "SASL_SSL",
        "sasl_plain_username": "u",
        "sasl_plain_password": "hunter2",
        "sasl_mechanism": "PLAIN",
        "bootstrap_timeout_ms": 7,
    }


def test_how_long_an_answer_may_take() -> None:
    """Java and kafka-python call it by one name, librdkafka by another."""
    here = {"bootstrap.servers": "h:1"}
    for given in (
        {"socket.timeout.ms": "70"},
        {"request.timeout.ms": "70"},
        {"request.timeout.ms": "70", "socket.timeout.ms": "80"},
        {"socket.timeout.ms": "80", "request.timeout.ms": "70"},
    ):
        assert Cluster({**here, **given}).admin_options()["request_timeout_ms"] == 70
    java = {"request.timeout.ms": "70", "socket.connection.setup.timeout.ms": "9"}
    assert properties_for("Consumer", java) == {"socket.timeout.ms": "70"}
    both = {"request.timeout.ms": "70", "socket.timeout.ms": "70"}
    assert properties_for("Producer", java) == both
    both["socket.timeout.ms"] = "80"
    assert properties_for("Producer", both) == both


def test_tls_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    assert tls_context({"security.protocol": "SASL_PLAINTEXT"}) is None
    for properties in (
        {"ssl.ca.location": str(tmp_path / "missing")},
        {"ssl.ca.pem": "no certificate"},
        {"ssl.crl.location": str(tmp_path / "missing")},
        {"ssl.keystore.location": str(tmp_path / "missing")},
    ):
        with pytest.raises(CommandError, match="the TLS properties can't be used"):
            tls_context({"security.protocol": "SSL", **properties})


def test_stores_of_java_are_told_by_their_content(
    tmp_path: Path, certificates: Certificates
) -> None:
    trust, own = certificates.trust, str(certificates.alice.store)
    for types in ({}, {"ssl.truststore.type": "JKS", "ssl.keystore.type": "PEM"}):
        stores = {"ssl.truststore.location": trust, "ssl.keystore.location": own, **types}
        assert canonical(stores) == {
            "ssl.ca.location": trust,
            "ssl.certificate.location": own,
            "ssl.key.location": own,
        }
    with pytest.raises(ValueError, match=r"ssl.keystore.password has no .*: set ssl.key.password"):
        canonical({"ssl.keystore.location": own, "ssl.keystore.password": "p"})
    jks = tmp_path / "a.p12"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    for store in ("truststore", "keystore"):
        with pytest.raises(ValueError, match=rf"^ssl.{store}.location={jks} is JKS, .*keytool"):
            canonical({f"ssl.{store}.location": str(jks)})


@pytest.mark.slow
def test_stores_in_pkcs12(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, trust = tmp_path / "own.jks", tmp_path / "trust"
    export = ("pkcs12", "-export", "-passout", "pass:hunter2")
    openssl(*export, "-in", str(certificates.alice.store), "-out", str(own))
    openssl(*export, "-in", certificates.trust, "-nokeys", "-out", str(trust))
    kept = {"ssl.keystore.location": str(own), "ssl.keystore.password": "hunter2"}
    stores = {
        **kept,
        "ssl.keystore.type": "JKS",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": "hunter2",
    }
    found = canonical(stores)
    assert found == {**kept, "ssl.ca.pem": Path(certificates.trust).read_text()}
    context = tls_context({"security.protocol": "SSL", **found})
    assert context is not None and len(context.get_ca_certs()) == 1
    with pytest.raises(ValueError, match=r"can't be opened: ssl.truststore.password is wrong"):
        canonical({**stores, "ssl.truststore.password": "hunter3"})
    with pytest.raises(CommandError, match=r"can't be opened: ssl.keystore.password is wrong"):
        tls_context({"security.protocol": "SSL", **kept, "ssl.keystore.password": "hunter3"})
    monkeypatch.setattr("odradek.cli.client_tls.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"ssl.truststore.*: pip install 'odradek\[tls\]'"):
        canonical(stores)
    with pytest.raises(CommandError, match=r"ssl.keystore.*: pip install 'odradek\[tls\]'"):
        tls_context({"security.protocol": "SSL", **kept})


def test_certificates_inside_the_properties(certificates: Certificates) -> None:
    """Java permits blanks between the lines, which other clients do not."""
    alice = certificates.alice
    texts = {
        "ssl.truststore.certificates": Path(certificates.trust).read_text(),
        "ssl.keystore.certificate.chain": alice.certificate.read_text(),
        "ssl.keystore.key": alice.key.read_text(),
    }
    expected = canonical(texts)
    assert expected.keys() == {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"}
    assert canonical({name: " ".join(text.split("\n")) for name, text in texts.items()}) == expected
    context = tls_context({"security.protocol": "SSL", **expected})
    assert context is not None and len(context.get_ca_certs()) == 1


@pytest.mark.slow
def test_an_encrypted_key_does_not_ask_on_the_terminal(
    tmp_path: Path, certificates: Certificates
) -> None:
    key = tmp_path / "key.pem"
    openssl("pkcs8", "-topk8", "-in", str(certificates.alice.key), "-out", str(key),
            "-passout", "pass:hunter2")  # fmt: skip
    in_files = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(certificates.alice.certificate),
        "ssl.key.location": str(key),
    }
    inside = {
        "security.protocol": "SSL",
        "ssl.certificate.pem": certificates.alice.certificate.read_text(),
        "ssl.key.pem": key.read_text(),
    }
    for properties in (in_files, inside):
        with pytest.raises(CommandError, match=r"the key is encrypted: set ssl.key.password"):
            tls_context(properties)
        assert tls_context({**properties, "ssl.key.password": "hunter2"}) is not None
