"""Trouble between brokers and ZooKeeper: an expired session, a restart, a long outage.

Leaders that are there go on serving; afterwards all brokers are registered, all partitions are led
with full ISRs, and what was acknowledged is there once. `make soak` has longer outages and proves
the tests on Apache Kafka.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.lab import admin
from tests.lab.cluster import DELIVERY_TIMEOUT_MS, PATIENT, REQUEST_TIMEOUT_MS, Cluster
from tests.lab.tree import Tree
from tests.lab.waiting import QUIET_S
from tests.support.waiting import until
from tests.support.watermarks import watermarks
from tests.wire.clients import librdkafka

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(300)]

TOPIC: Final = "served"
ASSIGNMENT: Final = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
BETWEEN_RECORDS_S: Final = 0.2
# Shorter than the long outages, and as long as ZooKeeper grants.
TICK_TIME_MS: Final = 750
SESSION_MS: Final = 20 * TICK_TIME_MS


class Writer:
    """Writes one record after the other, round robin, and knows which were acknowledged by all."""

    def __init__(self, lab: Cluster) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._name = uuid.uuid4().hex
        self._number = 0
        settings: dict[str, str | float | bool] = {
            "acks": "all",
            "enable.idempotence": True,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        }
        self._producer = Producer(librdkafka(lab.bootstrap_servers, **settings))

    def begin(self) -> None:
        """Have a first record acknowledged: for its producer id a broker may need ZooKeeper."""
        self.write_for(BETWEEN_RECORDS_S)
        until(lambda: self._producer.flush(0.1) == 0, "a first acknowledgement")

    def write_for(self, seconds: float) -> None:
        """Write for a while; the last records may not be acknowledged yet."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._producer.produce(
                TOPIC,
                f"{self._name} {self._number}".encode(),
                partition=self._number % len(ASSIGNMENT),
                on_delivery=self._delivered,
            )
            self._number += 1
            self._producer.poll(BETWEEN_RECORDS_S)

    def finish(self) -> None:
        """Wait until all that was written is acknowledged or has failed."""
        assert self._producer.flush(60) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        value = message.value()
        assert value is not None
        self.acknowledged.append(value)


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.soak)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers; a topic of which each leads one partition.

    Sessions are long: a ZooKeeper that starts on a busy machine counts from its first moment, and
    all have to come back to it in time. It may take their first connections and never answer there,
    which takes half a session.
    """
    directory = tmp_path_factory.mktemp("lab")
    settings = {**PATIENT, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    with Cluster(
        request.param, directory=directory, settings=settings, tick_time_ms=TICK_TIME_MS
    ) as cluster:
        cluster.start_zookeeper()
        cluster.start()
        admin.create_topic(cluster, TOPIC, assignment=ASSIGNMENT)
        yield cluster


def registrations(tree: Tree) -> dict[str, int]:
    """Each broker's node and the transaction that made it."""
    return {p: node.czxid for p, node in tree.items() if p.startswith("/brokers/ids/")}


def states(tree: Tree) -> dict[str, bytes | None]:
    """Every partition's state as it is written."""
    return {path: node.data for path, node in tree.items() if path.endswith("/state")}


def values_in(lab: Cluster) -> list[bytes]:
    """Every record of the topic."""
    consumer = Consumer(librdkafka(lab.bootstrap_servers, **{"group.id": "reader"}))
    try:
        partitions = [TopicPartition(TOPIC, p, 0) for p in range(len(ASSIGNMENT))]
        ends = [watermarks(consumer, p)[1] for p in partitions]
        consumer.assign(partitions)
        found: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(found) < sum(ends) and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
        return found
    finally:
        consumer.close()


def test_an_expired_session_is_replaced(lab: Cluster) -> None:
    """Of the controller: somebody else is elected, and it returns as a broker among others."""
    before = lab.settle()
    controller = lab.controller()
    assert controller is not None
    epoch = json.loads(before["/controller_epoch"].data or b"")
    lab.expire_session(controller)
    after = lab.settle(quiet_s=QUIET_S)
    name = f"/brokers/ids/{controller}"
    assert registrations(after)[name] > registrations(before)[name]
    assert lab.controller() != controller
    assert json.loads(after["/controller_epoch"].data or b"") == epoch + 1
    others = {path: czxid for path, czxid in registrations(before).items() if path != name}
    assert {path: registrations(after)[path] for path in others} == others


@pytest.mark.parametrize(
    ("outage_s", "frozen"),
    [
        (0, False),
        (20, False),
        pytest.param(60, False, marks=pytest.mark.soak),
        pytest.param(20, True, marks=pytest.mark.soak),
    ],
)
def test_leaders_serve_without_zookeeper(lab: Cluster, outage_s: float, *, frozen: bool) -> None:
    before = lab.settle(quiet_s=QUIET_S)
    writer = Writer(lab)
    writer.begin()
    with lab.zookeeper_outage(frozen=frozen):
        acknowledged_count = len(writer.acknowledged)
        writer.write_for(outage_s)
        if outage_s:
            written = len(writer.acknowledged) - acknowledged_count
            assert written >= outage_s / BETWEEN_RECORDS_S / 2, writer.failed
    after = lab.settle(quiet_s=QUIET_S)
    writer.write_for(1)
    writer.finish()
    assert writer.failed == []
    found = Counter(values_in(lab))
    assert {value: found[value] for value in writer.acknowledged if found[value] != 1} == {}
    until(lambda: lab.controller() is not None, "there is a controller")
    if not frozen:
        # Sessions outlive a server that is gone: nobody was late, nothing has moved.
        assert registrations(after) == registrations(before)
        assert states(after) == states(before)
