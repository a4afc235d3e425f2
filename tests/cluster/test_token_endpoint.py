"""Three brokers that log in to each other with tokens of an identity provider, which end soon."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, Producer

from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER, SIGNED_HANDLER
from odradek.jaas import OAUTHBEARER_MODULE
from tests.kafka.process import free_port
from tests.lab import admin
from tests.lab.cluster import PATIENT, Cluster
from tests.support.identity_provider import IdentityProvider, serving
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire]

LASTS_S: Final = 4
RENEWALS: Final = 2
ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
OAUTHBEARER: Final = "listener.name.brokers.oauthbearer"


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    secrets = {f"broker-{number}": f"secret-{number}" for number in range(3)}
    found = IdentityProvider(secrets, lasts_s=LASTS_S)
    with serving(found):
        yield found


@pytest.fixture
def lab(tmp_path: Path, provider: IdentityProvider) -> Iterator[Cluster]:
    """Brokers with a listener for clients, and one for brokers, who have an authorizer."""
    settings = {
        **PATIENT,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{OAUTHBEARER}.sasl.server.callback.handler.class": SIGNED_HANDLER,
        f"{OAUTHBEARER}.sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        f"{OAUTHBEARER}.sasl.oauthbearer.expected.audience": "kafka",
        f"{OAUTHBEARER}.sasl.login.callback.handler.class": ENDPOINT_LOGIN_HANDLER,
        f"{OAUTHBEARER}.sasl.oauthbearer.token.endpoint.url": provider.token_url,
        ALLOWED: f"{provider.keys_url},{provider.token_url}",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:broker-0;User:broker-1;User:broker-2",
    }
    with Cluster("odradek", directory=tmp_path, settings=settings) as cluster:
        for number, broker in cluster.brokers.items():
            login = f'clientId="broker-{number}" clientSecret="secret-{number}" scope="kafka"'
            broker.settings |= {
                "listeners": f"PLAINTEXT://{broker.host}:{broker.port},"
                f"BROKERS://{broker.host}:{free_port()}",
                f"{OAUTHBEARER}.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required {login};",
            }
        cluster.start_zookeeper()
        yield cluster


def asked_by_each(provider: IdentityProvider) -> int:
    """How often each broker has asked at least."""
    counts = Counter(asked.client_id for asked in provider.asked)
    return min((counts[f"broker-{number}"] for number in range(3)), default=0)


def test_logins_outlive_their_tokens(lab: Cluster, provider: IdentityProvider) -> None:
    lab.start()
    admin.create_topic(lab, "kept", partitions=3, replication_factor=3)
    lab.settle()
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "acks": "all"})
    asked = asked_by_each(provider)

    def writes_until_renewed() -> bool:
        producer.produce("kept", b"x", on_delivery=lambda error, _: outcomes.append(error))
        producer.poll(0.02)
        return asked_by_each(provider) >= asked + RENEWALS

    until(writes_until_renewed, "each broker has renewed its token")
    assert producer.flush(20) == 0
    assert set(outcomes) == {None}
    lab.settle()
    for broker in lab.brokers.values():
        assert "token renewed" in broker.output and "secret-" not in broker.output
