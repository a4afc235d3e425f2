"""Properties under the names of Java, librdkafka and kafka-python."""

from pathlib import Path

import pytest

from odradek.cli.errors import CommandError
from odradek.cli.properties import canonical, kafka_python_options, read_properties, tls_context


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
            {"sasl.jaas.config": 'org.example.Login required username="u" password="p \\"q\\"";'},
            {"sasl.username": "u", "sasl.password": 'p "q"'},
        ),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "ca.pem",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "me.pem",
            },
            {
                "ssl.ca.location": "ca.pem",
                "ssl.certificate.location": "me.pem",
                "ssl.key.location": "me.pem",
            },
        ),
        (
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "p"},
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "p"},
        ),
        (
            {"ssl.keystore.certificate.chain": "C", "ssl.keystore.key": "K"},
            {"ssl.certificate.pem": "C", "ssl.key.pem": "K"},
        ),
    ],
)
def test_names(given: dict[str, str], expected: dict[str, str]) -> None:
    assert canonical(given) == expected


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ssl.truststore.location": "ca.jks"}, "ssl.truststore.type=JKS can be read by Java only"),
        ({"ssl.keystore.location": "me.jks"}, "ssl.keystore.type=JKS can be read by Java only"),
        ({"sasl.jaas.config": "org.example.Kerberos required;"}, "gives no username"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS is none of PLAINTEXT, SSL"),
    ],
)
def test_what_no_client_here_can_use_is_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        canonical(given)


def test_a_file_of_a_java_client(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# mine\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism: PLAIN\n")
    found = read_properties(file)
    assert found == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with pytest.raises(
        CommandError, match=r"can't be read as a properties file: No such file or dir"
    ):
        read_properties(tmp_path / "missing")


def test_kafka_pythons_names() -> None:
    given = {
        "sasl.username": "u",
        "sasl.mechanism": "PLAIN",
        "socket.connection.setup.timeout.ms": "7",
        "ssl.ca.location": "ca.pem",
    }
    assert kafka_python_options(given) == {
        "sasl_plain_username": "u",
        "sasl_mechanism": "PLAIN",
        "bootstrap_timeout_ms": "7",
    }


def test_tls_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    assert tls_context({"security.protocol": "SASL_PLAINTEXT"}) is None
    for properties in (
        {"ssl.ca.location": str(tmp_path / "missing")},
        {"ssl.ca.pem": "no certificate"},
        {"ssl.keystore.location": "me.p12"},
    ):
        with pytest.raises(CommandError, match="the TLS properties can't be used"):
            tls_context({"security.protocol": "SSL", **properties})


def test_a_certificate_of_ones_own_inside_the_properties() -> None:
    pem = (Path(__file__).parent / "localhost.pem").read_text()
    end = pem.index("-----BEGIN CERTIFICATE")
    own = {"ssl.certificate.pem": pem[end:], "ssl.key.pem": pem[:end], "ssl.ca.pem": pem[end:]}
    context = tls_context({"security.protocol": "SSL", **own})
    assert context is not None and len(context.get_ca_certs()) == 1
