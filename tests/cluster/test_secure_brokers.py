"""Brokers that speak TLS with each other: kills, restarts, and the way there from PLAINTEXT.

Clients in the laboratory speak PLAINTEXT, on a listener that brokers do not use.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.kafka.process import free_port
from tests.lab.cluster import PATIENT, Cluster
from tests.lab.verify.workload import Workload
from tests.support.certificates import Certificates

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


def use_listeners(lab: Cluster) -> None:
    """Have the brokers speak with each other there."""
    for broker in lab.brokers.values():
        broker.settings |= BY_BROKERS


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster("odradek", directory=tmp_path, settings=SETTINGS) as cluster:
        cluster.start_zookeeper()
        yield cluster


def kill_and_roll(lab: Cluster) -> None:
    """Kill one broker and restart another, while records are written and read."""
    lab.start()
    with Workload(lab, TOPIC, members=("aiokafka",), rate=200) as load:
        load.wait_for(BETWEEN, TIMEOUT_S)
        lab.kill(1, expire=True)
        load.wait_for(BETWEEN, TIMEOUT_S)
        lab.start(1)
        lab.settle()
        lab.stop(2)
        load.wait_for(BETWEEN, TIMEOUT_S)
        lab.start(2)
        lab.settle()
    assert load.verify() == []
    assert load.failed == 0, f"{load.failed} records failed or timed out: {load.history}"
    lab.settle()
    assert load.compare_logs() == []


def restart_each(lab: Cluster, load: Workload, settings: Mapping[str, str | None]) -> None:
    """Change settings of each broker in turn; None takes one away."""
    for broker in lab.brokers:
        lab.stop(broker)
        changed = {**lab.brokers[broker].settings, **settings}
        lab.brokers[broker].settings = {
            name: value for name, value in changed.items() if value is not None
        }
        lab.start(broker)
        lab.settle()
        load.wait_for(BETWEEN, TIMEOUT_S)


@pytest.mark.timeout(300)
def test_brokers_speak_tls(lab: Cluster, certificates: Certificates) -> None:
    add_listeners(lab, certificates, "SSL", {"ssl.client.auth": "required"})
    use_listeners(lab)
    kill_and_roll(lab)


def migrate(lab: Cluster) -> None:
    """From PLAINTEXT to the other listeners, under load, as docs/clusters.md says."""
    both = {ACCEPTED: ",".join(NAMES)}
    for broker in lab.brokers.values():
        broker.settings |= both
    lab.start()
    with Workload(lab, TOPIC, members=("aiokafka",), rate=200) as load:
        restart_each(lab, load, BY_BROKERS)
        restart_each(lab, load, {ACCEPTED: None})
    assert load.verify() == []
    assert load.failed == 0, f"{load.failed} records failed or timed out: {load.history}"
    lab.settle()
    assert load.compare_logs() == []


@pytest.mark.timeout(300)
def test_brokers_move_to_tls(lab: Cluster, certificates: Certificates) -> None:
    add_listeners(lab, certificates, "SSL", {})
    migrate(lab)
