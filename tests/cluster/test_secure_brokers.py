"""Brokers that speak TLS with each other: replication, the controller, transactions, and kills.

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
MAP: Final = "PLAINTEXT:PLAINTEXT,BROKERS:{protocol},PLANE:{protocol}"


def secure(
    lab: Cluster, certificates: Certificates, protocol: str, more: Mapping[str, str]
) -> None:
    """Give each broker two listeners for the others, beside the one for clients."""
    for broker in lab.brokers.values():
        ports = {"PLAINTEXT": broker.port, "BROKERS": free_port(), "PLANE": free_port()}
        broker.settings |= {
            "listeners": ",".join(f"{name}://{broker.host}:{ports[name]}" for name in ports),
            "listener.security.protocol.map": MAP.format(protocol=protocol),
            "inter.broker.listener.name": "BROKERS",
            "control.plane.listener.name": "PLANE",
            "ssl.keystore.location": str(certificates.broker.store),
            "ssl.truststore.location": certificates.trust,
            **more,
        }


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


@pytest.mark.timeout(300)
def test_brokers_speak_tls(lab: Cluster, certificates: Certificates) -> None:
    secure(lab, certificates, "SSL", {"ssl.client.auth": "required"})
    kill_and_roll(lab)
