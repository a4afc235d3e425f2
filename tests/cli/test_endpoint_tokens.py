"""Commands that get their tokens from a token endpoint."""

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER
from odradek.cli import endpoint_tokens
from odradek.cli.client_sasl import TOKEN_PROPERTIES
from odradek.cli.client_tokens import for_librdkafka, get_ready, known_source
from odradek.cli.clients import Cluster, chosen_cluster
from odradek.cli.errors import CommandError
from odradek.cli.librdkafka import properties_for
from odradek.jaas import OAUTHBEARER_MODULE
from tests.support.certificates import Certificates
from tests.support.identity_provider import IdentityProvider, serving

URL = "sasl.oauthbearer.token.endpoint.url"
OPTIONS = 'clientId="alice" clientSecret="hunter2"'


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    found = IdentityProvider({"alice": "hunter2"}, lasts_s=3600)
    with serving(found):
        yield found


def properties(url: str, options: str = OPTIONS, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": ENDPOINT_LOGIN_HANDLER,
        URL: url,
        "sasl.jaas.config": f"{OAUTHBEARER_MODULE} required {options};",
        "sasl.login.retry.backoff.max.ms": "0",
        **more,
    }


def cluster_with(url: str, options: str = OPTIONS, **more: str) -> Cluster:
    return chosen_cluster("h:1", None, None, properties(url, options, **more))


def test_all_clients_of_a_command_share_a_token(provider: IdentityProvider) -> None:
    cluster = cluster_with(provider.token_url, f"{OPTIONS} scope=x extension_trace='7'")
    get_ready(cluster.properties)
    options = cluster.admin_options()
    asked: Any = options["sasl_oauth_token_provider"]
    answer: Any = for_librdkafka(cluster.properties)["oauth_cb"]
    token, expires_s, user, extensions = answer("")
    assert token == asked.token()
    assert (user, extensions) == ("alice", {"trace": "7"})
    assert expires_s > 0
    assert len(provider.asked) == 1
    assert provider.asked[0].form["scope"] == ["x"]
    of_both = options.keys() | properties_for("Consumer", cluster.properties).keys()
    assert not of_both & (TOKEN_PROPERTIES | {n.replace(".", "_") for n in TOKEN_PROPERTIES})


def test_a_token_is_renewed_before_it_ends(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = endpoint_tokens._wall_ms()
    source = known_source(cluster_with(provider.token_url).properties)
    found = []
    for passed_s in (0, 2860, 2900, 2910):
        monkeypatch.setattr(endpoint_tokens, "_wall_ms", lambda s=passed_s: now_ms + 1000 * s)
        found.append(source.new_token())
    assert found[0] == found[1] != found[2] == found[3]
    assert len(provider.asked) == 2


def test_the_old_token_is_shown_while_there_is_no_new_one(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = known_source(cluster_with(provider.token_url).properties)
    now_ms, token = endpoint_tokens._wall_ms(), source.new_token()
    provider.secrets = {}
    monkeypatch.setattr(endpoint_tokens, "_wall_ms", lambda: now_ms + 3_500_000)
    assert [source.new_token() for _ in range(3)] == [token] * 3
    assert len(provider.asked) == 2
    monkeypatch.setattr(endpoint_tokens, "_wall_ms", lambda: now_ms + 3_598_500)
    with pytest.raises(Exception, match=r"gets no token: .* status 401 \(invalid_client\)"):
        source.new_token()


def test_what_may_pass_is_tried_again(provider: IdentityProvider) -> None:
    provider.answers.extend([(503, b""), (500, b"")])
    more = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "9000"}
    get_ready(cluster_with(provider.token_url, **more).properties)
    assert len(provider.asked) == 3


def test_a_wrong_secret_is_one_sentence(provider: IdentityProvider) -> None:
    options = 'clientId="alice" clientSecret="hunter3"'
    with pytest.raises(CommandError) as error:
        get_ready(cluster_with(provider.token_url, options).properties)
    assert error.value.message == (
        f"this command gets no token: {URL}={provider.token_url} answers with status 401"
        " (invalid_client)"
    )


def test_an_id_with_a_colon_is_encoded(provider: IdentityProvider) -> None:
    options = 'clientId="a:b" clientSecret="hunter2"'
    provider.secrets = {"a%3Ab": "hunter2"}
    more = {"sasl.oauthbearer.header.urlencode": "true"}
    get_ready(cluster_with(provider.token_url, options, **more).properties)


def test_over_tls(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker.store)
    provider = IdentityProvider({"alice": "hunter2"})
    with serving(provider, context):
        trusting = f'{OPTIONS} ssl.truststore.location="{certificates.trust}"'
        get_ready(cluster_with(provider.token_url, trusting).properties)
        with pytest.raises(CommandError, match="has a certificate that is refused"):
            get_ready(cluster_with(provider.token_url).properties)


@pytest.mark.parametrize(
    ("options", "more", "complaint"),
    [
        ('clientSecret="hunter2"', {}, "sasl.jaas.config: clientId must be set"),
        ("clientId=alice", {}, "sasl.jaas.config: clientSecret must be set"),
        (f"{OPTIONS} username=x", {}, "username is not an option"),
        (f"{OPTIONS} extension_auth=x", {}, "extension_auth is not allowed"),
        (f"{OPTIONS} ssl.truststore.location='/none'", {}, "ssl.truststore.location=/none"),
        (OPTIONS, {URL: "ftp://h"}, "must be the URL of a token endpoint"),
        (OPTIONS, {URL: "https://u:hunter2@h/"}, "must be the URL of a token endpoint"),
        (OPTIONS, {"sasl.login.read.timeout.ms": "x"}, "sasl.login.read.timeout.ms=x is not allow"),
        (OPTIONS, {"sasl.oauthbearer.header.urlencode": "x"}, "urlencode=x must be true or false"),
    ],
)
def test_what_no_token_comes_from(options: str, more: dict[str, str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint) as refused:
        cluster_with("https://h/token", options, **more)
    assert "hunter2" not in refused.value.message
