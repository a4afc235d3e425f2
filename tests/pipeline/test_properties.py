"""Java properties, and what kafka-python is told of them."""

from pathlib import Path

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.properties import (
    parse_properties,
    python_settings,
    read_command_config,
    read_properties,
)

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";'


def test_properties_are_read_as_java_reads_them() -> None:
    text = """
# a comment
! another
plain=value
  spaced  :  value with blanks
blank value
empty=
continued=one,\\
    two
key\\ with\\=signs=x\\ty\\u00e9\\\\
"""
    assert parse_properties(text) == {
        "plain": "value",
        "spaced": "value with blanks",
        "blank": "value",
        "empty": "",
        "continued": "one,two",
        "key with=signs": "x\ty\u00e9\\",
    }


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(PipelineError, match="/nowhere cannot be read"):
        read_properties("/nowhere")


def test_what_spark_decides_is_refused(tmp_path: Path) -> None:
    """A consumer's own file, say."""
    path = tmp_path / "consumer.properties"
    path.write_text("group.id=mine\nauto.offset.reset=latest\nenable.auto.commit=true\n")
    with pytest.raises(PipelineError, match=r"sets auto\.offset\.reset, enable\.auto\.commit: "):
        read_command_config(str(path))
    path.write_text("group.id=mine\n")
    assert read_command_config(str(path)) == {"group.id": "mine"}


def test_plain_text_needs_no_settings() -> None:
    assert python_settings({"max.poll.records": "1"}) == {}


def test_small_letters_protect_as_well() -> None:
    assert python_settings({"security.protocol": "ssl"}) == {"security_protocol": "SSL"}


def test_sasl_and_tls_are_said_to_kafka_python() -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": JAAS.replace('"b"', '"b\\"c"'),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert python_settings(properties) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "a",
        "sasl_plain_password": 'b"c',
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"ssl.truststore.location": "/x.jks"}, "convert it to PEM"),
        ({"ssl.keystore.key": "-----BEGIN"}, "put them in a file"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "is not supported"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "no login modules"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, "no login modules"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": JAAS.replace("password", "passwort"),
            },
            "must give username=",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": JAAS,
            },
            "PLAIN needs org.apache.kafka.common.security.plain.PlainLoginModule",
        ),
        ({"security.protocol": "SASL-SSL"}, "security.protocol=SASL-SSL is none: use one of"),
    ],
)
def test_what_python_cannot_do_is_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        python_settings(properties)
