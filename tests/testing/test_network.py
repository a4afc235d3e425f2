"""Links between brokers that are cut and slow, seen by real clients."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from odradek.testing import Broker
from odradek.testing.door import AdminError
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.slow]

LAG_MS = 1_500
SETTINGS = {
    "replica.lag.time.max.ms": LAG_MS,
    "replica.socket.timeout.ms": 2_000,
    "zookeeper.session.timeout.ms": 1_500,
}


@pytest.fixture(scope="module", params=[False, True], ids=["child", "in process"])
def three(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(brokers=3, settings=SETTINGS, in_process=request.param) as started:
        yield started


@pytest.fixture(autouse=True)
def healed(three: Broker) -> Iterator[None]:
    yield
    three.network.heal()


def isr(broker: Broker, topic: str) -> list[int]:
    return sorted(broker.topics[topic].partitions[0].isr)


def controller(broker: Broker) -> int:
    metadata = Producer(broker.client_config("confluent")).list_topics(timeout=10)
    return int(metadata.controller_id)


def test_a_follower_that_is_isolated_leaves_the_isr_and_comes_back(three: Broker) -> None:
    three.topics.create("followed", replication_factor=3)
    leader = three.move_leader("followed", to=controller(three))
    isolated = next(each for each in three.broker_ids if each != leader)
    three.network.isolate(isolated)
    producer = Producer({**three.client_config("confluent"), "acks": "all"})
    for number in range(10):
        producer.produce("followed", f"{number}")
    begun_s = time.monotonic()
    assert producer.flush(30) == 0  # once the ISR has shrunk
    assert time.monotonic() - begun_s > LAG_MS / 1000 / 2
    assert isr(three, "followed") == sorted({0, 1, 2} - {isolated})
    three.network.heal()
    until(lambda: isr(three, "followed") == [0, 1, 2])
    assert three.move_leader("followed", to=isolated) == isolated
    assert len(three.records("followed")) == 10


def test_a_side_of_a_split_without_the_controller_can_not_shrink_its_isr(three: Broker) -> None:
    """As with Kafka: it is the controller that changes the ISR (AlterPartition)."""
    three.topics.create("split", replication_factor=3)
    alone = next(each for each in three.broker_ids if each != controller(three))
    three.move_leader("split", to=alone)
    three.network.split({alone}, set(three.broker_ids) - {alone})
    producer = Producer({**three.client_config("confluent"), "message.timeout.ms": LAG_MS * 2})
    errors: list[object] = []
    producer.produce("split", b"lost?", callback=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert [error is None for error in errors] == [False]  # it never knew that it was written
    assert isr(three, "split") == [0, 1, 2]
    three.network.heal()
    producer = Producer(three.client_config("confluent"))
    producer.produce("split", b"written")
    assert producer.flush(30) == 0
    assert three.records("split")[-1].value == b"written"


def test_a_slow_link_is_as_slow_as_it_is_said_to_be(three: Broker) -> None:
    three.topics.create("slow", replication_factor=3)
    leader = three.leader("slow")
    other = next(each for each in three.broker_ids if each != leader)
    producer = Producer({**three.client_config("confluent"), "acks": "all"})

    def write_s(size_bytes: int) -> float:
        begun_s = time.monotonic()
        producer.produce("slow", bytes(size_bytes))
        assert producer.flush(30) == 0
        return time.monotonic() - begun_s

    write_s(1)
    usual_s = write_s(300_000)
    three.network.slow(other, delay="300ms")
    assert write_s(1) > 0.3
    three.network.slow(other, bytes_per_s=300_000)
    assert write_s(300_000) > max(usual_s, 0.8)
    assert isr(three, "slow") == [0, 1, 2]
    assert three.network.state["slow"] == [{"broker": other, "delay_s": 0, "bytes_per_s": 300_000}]
    three.network.heal()
    assert three.network.state == {"splits": [], "slow": []}


def test_a_snapshot_is_of_a_good_network(three: Broker) -> None:
    snapshot = three.snapshot()
    three.network.isolate(1)
    with pytest.raises(AdminError, match="the network is cut or slow: heal it first"):
        three.snapshot()
    three.restore(snapshot)
    assert three.network.state == {"splits": [], "slow": []}
    three.network.slow(0, delay="1s")
    three.admin.post("snapshots", snapshot.id, "restore", forgets_requests=True)
    assert three.network.state == {"splits": [], "slow": []}


def test_what_makes_no_sense_is_refused(three: Broker) -> None:
    network = three.network
    calls: list[tuple[Callable[[], None], str]] = [
        (lambda: network.split({0, 1, 2}), "at least two groups"),
        (lambda: network.split({0}, {0, 1}), "broker 0 is in two groups"),
        (lambda: network.split({0}, {7}), "there is no broker 7"),
        (lambda: network.isolate(7), "there is no broker 7"),
        (lambda: network.slow(1), "nothing is slow: give delay or bytes_per_s"),
        (lambda: network.slow(1, delay="2h"), "more than an hour"),
        (lambda: network.slow(1, bytes_per_s=0), "bytes_per_s must be a whole number from 1"),
    ]
    for call, sentence in calls:
        with pytest.raises(ValueError, match=sentence):
            call()
    assert network.state == {"splits": [], "slow": []}
