"""A properties file as the access of fixtures, under the names of each client."""

from pathlib import Path

import pytest

from odradek.cli.errors import CommandError
from odradek.cli.given_access import GivenAccess
from odradek.cli.java_properties import java_properties
from odradek.cli.properties import canonical

PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n"
SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": 'a"b\\', "sasl.password": "p;="}
TOKENS = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
    'required unsecuredLoginStringClaim_sub="bob";',
}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"security.protocol": "SASL_PLAINTEXT", **SCRAM},
        {"security.protocol": "SASL_PLAINTEXT", **TOKENS},
        {"security.protocol": "SSL", "ssl.ca.location": "{pem}"},
        {"security.protocol": "SSL", "ssl.ca.pem": PEM},
        {"security.protocol": "SSL", "ssl.certificate.pem": PEM, "ssl.key.pem": KEY},
        {
            "security.protocol": "SSL",
            "ssl.certificate.location": "{pem}",
            "ssl.key.location": "{pem}",
        },
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
        {"security.protocol": "SASL_SSL", **SCRAM, "ssl.key.password": "secret"},
    ],
)
def test_javas_names_say_the_same(given: dict[str, str], tmp_path: Path) -> None:
    pem = tmp_path / "own.pem"
    pem.write_text(KEY + PEM)
    properties = canonical({name: text.format(pem=pem) for name, text in given.items()})
    assert canonical(java_properties(properties)) == properties


def test_a_login_that_is_not_used_is_not_told() -> None:
    assert java_properties({"sasl.username": "bob"}) == {}
    java = java_properties({"security.protocol": "SASL_SSL", **TOKENS, "sasl.username": "bob"})
    assert java["sasl.jaas.config"] == TOKENS["sasl.jaas.config"]


def test_a_key_in_a_file_of_its_own_goes_to_java_as_text(tmp_path: Path) -> None:
    own, key = tmp_path / "own.pem", tmp_path / "own.key"
    own.write_text(PEM)
    key.write_text(KEY)
    given = {"ssl.certificate.location": str(own), "ssl.key.location": str(key)}
    told = java_properties({"security.protocol": "SSL", **given})
    assert (told["ssl.keystore.certificate.chain"], told["ssl.keystore.key"]) == (PEM, KEY)
    store = {"ssl.keystore.location": "own.p12", "ssl.keystore.password": "p"}
    assert java_properties(store) == {"ssl.keystore.type": "PKCS12", **store}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "Java verifies certificates"),
        ({"ssl.crl.location": "crl.pem"}, "no property for revoked certificates"),
        ({"ssl.ca.location": "/"}, "reads no directory of certificates"),
        ({"ssl.certificate.location": "/nosuch"}, "/nosuch can't be read"),
        (
            {"security.protocol": "SASL_SSL", "sasl.oauthbearer.method": "oidc"},
            "can't get tokens as librdkafka does",
        ),
    ],
)
def test_what_java_cannot_do_is_a_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        java_properties(given)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "can't be read as a properties file: No such file"),
        ("security.protocol=TLS", "security.protocol=TLS is none of"),
        ("security.protocol=SASL_SSL", "needs sasl.mechanism"),
        ("security.protocol=SSL\nssl.ca.location=/nosuch", "can't be used: .*No such file"),
    ],
)
def test_a_file_that_says_nothing_sensible(text: str | None, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CommandError, match=sentence):
        GivenAccess(file)
