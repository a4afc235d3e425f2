"""Brokers with TLS and logins among them: kills, restarts, and the way there from PLAINTEXT.

Clients in the laboratory speak PLAINTEXT, on a listener that brokers do not use.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from odradek.broker.sasl import scram
from odradek.broker.sasl.credentials import encode_credential
from tests.kafka.process import free_port
from tests.kafka.zookeeper import ZooKeeper, secure_settings, user_option
from tests.lab.cluster import PATIENT, Cluster
from tests.lab.verify.workload import Workload
from tests.support.certificates import Certificates
from tests.support.secrets import HUNTER2

pytestmark = [pytest.mark.java, pytest.mark.wire]

TOPIC: Final = "kept"
BETWEEN: Final = 200
TIMEOUT_S: Final = 60.0
SETTINGS: Final = {**PATIENT, "offsets.topic.replication.factor": "3"}
NAMES: Final = ("PLAINTEXT", "BROKERS", "PLANE")
ACCEPTED: Final = "odradek.broker.listeners.accepted"
BY_BROKERS: Final = {
    "inter.broker.listener.name": "BROKERS",
    "control.plane.listener.name": "PLANE",
}
LOGIN: Final = f'required username="broker" password="{HUNTER2}"'
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISM: Final = scram.SHA_512
BY_SCRAM: Final = {
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM.name}",
    "sasl.mechanism.inter.broker.protocol": MECHANISM.name,
    "listener.name.brokers.plain.sasl.jaas.config": f'{PLAIN} required user_nobody="x";',
    "listener.name.plane.plain.sasl.jaas.config": f'{PLAIN} required user_nobody="x";',
    f"listener.name.brokers.{MECHANISM.name.lower()}.sasl.jaas.config": f"{SCRAM} {LOGIN};",
    f"listener.name.plane.{MECHANISM.name.lower()}.sasl.jaas.config": f"{SCRAM} {LOGIN};",
    "connections.max.reauth.ms": "4000",
}
AUTHORIZER: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:ANONYMOUS",  # anonymous are the laboratory and its clients
}
ZOOKEEPER_LOGIN: Final = {"username": "broker", "password": HUNTER2}
BY_PLAIN: Final = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} {LOGIN} user_broker="{HUNTER2}";',
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster("odradek", directory=tmp_path, settings=SETTINGS) as cluster:
        cluster.start_zookeeper()
        yield cluster


@pytest.fixture
def secure_lab(tmp_path: Path, certificates: Certificates) -> Iterator[Cluster]:
    """Brokers speak TLS with ZooKeeper, and log in there; only they may write what is theirs."""
    with Cluster("odradek", directory=tmp_path, settings=SETTINGS) as cluster:
        secure_port = free_port()  # the other one is the laboratory's
        cluster.zookeeper = ZooKeeper(
            cluster.zookeeper.directory,
            tick_time_ms=cluster.zookeeper.tick_time_ms,
            settings=secure_settings(
                secure_port, store=str(certificates.broker.store), trust=certificates.trust
            ),
            java_options=[user_option(cluster.directory, **ZOOKEEPER_LOGIN)],
        )
        cluster.zookeeper_login = {"mechanism": "DIGEST-MD5", **ZOOKEEPER_LOGIN}
        for broker in cluster.brokers.values():
            broker.settings |= {
                "zookeeper.connect": f"{broker.host}:{secure_port}",
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.truststore.location": certificates.trust,
                "zookeeper.set.acl": "true",
                "odradek.zookeeper.auth.scheme": "sasl",
                **{f"odradek.zookeeper.auth.{k}": text for k, text in ZOOKEEPER_LOGIN.items()},
            }
        cluster.start_zookeeper()
        yield cluster


def check_stranger(lab: Cluster) -> None:
    """Somebody who has not logged in may look, but change nothing."""
    stranger = KazooClient(lab.zookeeper.address)
    stranger.start()
    try:
        for path in ("/controller_epoch", f"/brokers/topics/{TOPIC}"):
            data, _ = stranger.get(path)
            with pytest.raises(NoAuthError):
                stranger.set(path, data)
    finally:
        stranger.stop()
        stranger.close()


def add_listeners(
    lab: Cluster, certificates: Certificates, protocol: str, more: Mapping[str, str]
) -> None:
    """Give each broker two listeners beside the one for clients, which none of them uses yet."""
    for broker in lab.brokers.values():
        ports = dict(zip(NAMES, (broker.port, free_port(), free_port()), strict=True))
        broker.settings |= {
            "listeners": ",".join(f"{name}://{broker.host}:{ports[name]}" for name in NAMES),
            "listener.security.protocol.map": (
                f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol},PLANE:{protocol}"
            ),
            "ssl.keystore.location": str(certificates.broker.store),
            "ssl.truststore.location": certificates.trust,
            **more,
        }
    if BY_SCRAM.items() <= more.items():
        add_user(lab)


def add_user(lab: Cluster) -> None:
    """The broker's user of SCRAM, before any broker runs."""
    salted = scram.salted_password(MECHANISM, HUNTER2, salt=b"salt", iterations=4096)
    known = scram.credential(MECHANISM, salted, salt=b"salt", iterations=4096)
    config = {MECHANISM.name: encode_credential(known)}
    node = json.dumps({"version": 1, "config": config}).encode()
    lab.client.create("/config/users/broker", node, makepath=True)


def use_listeners(lab: Cluster) -> None:
    """Have the brokers speak with each other there."""
    for broker in lab.brokers.values():
        broker.settings |= BY_BROKERS


def check(lab: Cluster, load: Workload) -> None:
    """Nothing is lost, and nobody has noticed."""
    assert load.verify() == []
    assert load.failed == 0, f"{load.failed} records failed or timed out: {load.history}"
    lab.settle()
    assert load.compare_logs() == []


def kill_and_roll(lab: Cluster, *members: str) -> None:
    """Kill one broker and restart another, while records are written and read."""
    use_listeners(lab)
    lab.start()
    with Workload(lab, TOPIC, members=members, rate=200) as load:
        load.wait_for(BETWEEN, TIMEOUT_S)
        kill(lab, load)
        restart(lab, load, 2, {})
    check(lab, load)


def kill(lab: Cluster, load: Workload) -> None:
    """Kill a broker, and start it again when others have taken over."""
    lab.kill(1, expire=True)
    load.wait_for(BETWEEN, TIMEOUT_S)
    lab.start(1)
    lab.settle()


def restart(lab: Cluster, load: Workload, broker: int, settings: Mapping[str, str | None]) -> None:
    """Restart one with other settings; None takes one away."""
    lab.stop(broker)
    changed = {**lab.brokers[broker].settings, **settings}
    lab.brokers[broker].settings = {
        name: value for name, value in changed.items() if value is not None
    }
    lab.start(broker)
    lab.settle()
    load.wait_for(BETWEEN, TIMEOUT_S)


def migrate(lab: Cluster, *members: str, finishes: bool) -> None:
    """From PLAINTEXT to the other listeners, under load, as docs/clusters.md says.

    `finishes`: with the third round, after which only the new listeners are accepted. Without it,
    one of those that have moved is killed instead.
    """
    for broker in lab.brokers.values():
        broker.settings[ACCEPTED] = ",".join(NAMES)
    lab.start()
    with Workload(lab, TOPIC, members=members, rate=200) as load:
        for number in lab.brokers:
            restart(lab, load, number, BY_BROKERS)
        if finishes:
            for number in lab.brokers:
                restart(lab, load, number, {ACCEPTED: None})
        else:
            kill(lab, load)
    check(lab, load)


@pytest.mark.timeout(600)
def test_brokers_move_to_sasl_ssl(secure_lab: Cluster, certificates: Certificates) -> None:
    """With an authorizer, which lets them do what brokers do by their name."""
    add_listeners(secure_lab, certificates, "SASL_SSL", BY_SCRAM | AUTHORIZER)
    migrate(secure_lab, finishes=False)
    check_stranger(secure_lab)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("protocol", "more"),
    [
        ("SSL", {"ssl.client.auth": "required"}),
        ("SASL_PLAINTEXT", BY_PLAIN),
        ("SASL_SSL", BY_SCRAM),
    ],
    ids=["SSL", "PLAIN", "SCRAM"],
)
def test_groups_are_kept(
    lab: Cluster, certificates: Certificates, protocol: str, more: Mapping[str, str]
) -> None:
    add_listeners(lab, certificates, protocol, more)
    kill_and_roll(lab, "librdkafka", "aiokafka")


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("protocol", "more"), [("SSL", {}), ("SASL_SSL", BY_SCRAM)], ids=["SSL", "SASL_SSL"]
)
def test_the_whole_way(
    lab: Cluster, certificates: Certificates, protocol: str, more: Mapping[str, str]
) -> None:
    add_listeners(lab, certificates, protocol, more)
    migrate(lab, "librdkafka", "aiokafka", finishes=True)
