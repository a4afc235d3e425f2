"""Links between brokers that are cut and slow, seen by real clients."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from odradek.testing import AdminError, Broker
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


@pytest.fixture(scope="module")
def inside() -> Iterator[Broker]:
    """For what does not depend on where the brokers run."""
    with Broker(brokers=3, settings=SETTINGS, in_process=True) as started:
        yield started


@pytest.fixture(autouse=True)
def healed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"three", "inside"}.intersection(request.fixturenames):
        request.getfixturevalue(name).network.heal()


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


def test_a_side_of_a_split_without_the_controller_can_not_shrink_its_isr(inside: Broker) -> None:
    """As with Kafka: it is the controller that changes the ISR (AlterPartition)."""
    inside.topics.create("split", replication_factor=3)
    alone = next(each for each in inside.broker_ids if each != controller(inside))
    inside.move_leader("split", to=alone)
    inside.network.split({alone}, set(inside.broker_ids) - {alone})
    producer = Producer({**inside.client_config("confluent"), "message.timeout.ms": LAG_MS * 2})
    errors: list[object] = []
    producer.produce("split", b"lost?", callback=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert [error is None for error in errors] == [False]  # it never knew that it was written
    assert isr(inside, "split") == [0, 1, 2]
    inside.network.heal()
    producer = Producer(inside.client_config("confluent"))
    producer.produce("split", b"written")
    assert producer.flush(30) == 0
    assert inside.records("split")[-1].value == b"written"


def test_a_slow_link_is_as_slow_as_it_is_said_to_be(inside: Broker) -> None:
    inside.topics.create("slow", replication_factor=3)
    leader = inside.leader("slow")
    other = next(each for each in inside.broker_ids if each != leader)
    producer = Producer({**inside.client_config("confluent"), "acks": "all"})

    def write_s(size_bytes: int) -> float:
        begun_s = time.monotonic()
        producer.produce("slow", bytes(size_bytes))
        assert producer.flush(30) == 0
        return time.monotonic() - begun_s

    write_s(1)
    usual_s = write_s(300_000)
    inside.network.slow(other, delay="300ms")
    assert write_s(1) > 0.3
    inside.network.slow(other, bytes_per_s=300_000)
    assert write_s(300_000) > max(usual_s, 0.8)
    assert isr(inside, "slow") == [0, 1, 2]
    (shown,) = inside.network.state["slow"]
    assert (shown["broker"], shown["delay_s"], shown["bytes_per_s"]) == (other, 0, 300_000)
    inside.network.heal()
    assert inside.network.state == {"splits": [], "slow": []}


def test_a_link_may_be_slower_than_the_login_of_a_client() -> None:
    """Brokers log in to each other, too."""
    settings = {"odradek.authentication.timeout.ms": 50}
    with Broker(brokers=2, settings=settings, in_process=True) as broker:
        broker.network.slow(1, delay="100ms")
        broker.topics.create("slow", replication_factor=2)
        assert broker.produce("slow", b"v").offset == 0


def test_a_leader_that_is_isolated_is_replaced_and_loses_nothing_acknowledged(
    three: Broker,
) -> None:
    three.topics.create("led", replication_factor=3)
    isolated = three.move_leader("led", to=controller(three))
    acknowledged: set[bytes] = set()

    def note(error: object, message: Message) -> None:
        if error is None:
            acknowledged.add(bytes(message.value() or b""))

    patience = {"socket.timeout.ms": 2_000, "request.timeout.ms": 2_000}
    producer = Producer({**three.client_config("confluent"), **patience, "acks": "all"})
    for number in range(300):
        if number == 100:
            producer.flush(30)
            three.network.isolate(isolated, clients=True, store=True)
        if number == 200:
            until(lambda: three.leader("led") not in (isolated, -1))
        producer.produce("led", f"{number}", on_delivery=note)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert len(acknowledged) == 300
    until(lambda: isr(three, "led") == sorted({0, 1, 2} - {isolated}))
    assert controller(three) != isolated
    three.network.heal()
    until(lambda: isr(three, "led") == [0, 1, 2])
    assert three.move_leader("led", to=isolated) == isolated
    values = [record.value for record in three.records("led")]
    assert acknowledged <= set(values)


def test_clients_reach_nothing_and_slow_brokers_slowly(three: Broker) -> None:
    three.topics.create("reached", replication_factor=1)
    leader = three.leader("reached")
    consumer = Consumer({**three.client_config("confluent"), "group.id": "none"})
    consumer.assign([TopicPartition("reached", 0, 0)])
    producer = Producer(three.client_config("confluent"))
    producer.produce("reached", b"first")
    assert producer.flush(30) == 0
    (message,) = consumer.consume(1, timeout=30)
    assert message.value() == b"first"
    three.network.isolate(leader, clients=True)
    producer.produce("reached", b"second")
    assert producer.flush(0.3) == 1
    three.produce("reached", bytes(200_000))  # through the admin API, which is no client
    assert consumer.consume(1, timeout=0.3) == []
    three.network.heal()
    assert producer.flush(30) == 0
    assert len(consumer.consume(2, timeout=30)) == 2
    begun_s = time.monotonic()
    three.network.slow(leader, delay="300ms", clients=True)
    producer.produce("reached", b"third")
    assert producer.flush(30) == 0
    assert time.monotonic() - begun_s > 0.3
    three.network.slow(leader, bytes_per_s=200_000, clients=True)
    begun_s = time.monotonic()
    consumer.assign([TopicPartition("reached", 0, 1)])
    assert len(consumer.consume(3, timeout=30)) == 3
    assert time.monotonic() - begun_s > 0.7
    consumer.close()


def test_the_store_is_slow(inside: Broker) -> None:
    usual_s = create_s(inside, "quick")
    inside.network.slow(controller(inside), delay="100ms", store=True)
    assert create_s(inside, "tardy") > usual_s + 0.2
    assert inside.topics["tardy"].partitions[0].isr


def create_s(broker: Broker, topic: str) -> float:
    begun_s = time.monotonic()
    broker.topics.create(topic)
    return time.monotonic() - begun_s


def test_a_snapshot_is_of_a_good_network(three: Broker) -> None:
    snapshot = three.snapshot()
    three.network.isolate(1)
    with pytest.raises(AdminError, match="the network is cut or slow: heal it first"):
        three.snapshot()
    three.restore(snapshot)
    assert three.network.state == {"splits": [], "slow": []}
    three.network.slow(0, delay="1s")
    three._enter(snapshot)  # as before a test
    assert three.network.state == {"splits": [], "slow": []}
    three._leave()


def test_brokers_that_are_cut_off_stop_at_once_and_all_start_again(inside: Broker) -> None:
    inside.topics.create("kept", replication_factor=3)
    inside.network.split({0}, {1}, {2}, store=True)
    with pytest.raises(AdminError, match="broker 1 is cut off from the store: heal the network"):
        inside.set_rack(1, "a")
    begun_s = time.monotonic()
    for broker_id in inside.broker_ids:
        inside.stop(broker_id)
    assert time.monotonic() - begun_s < 20  # nobody waited for a controller
    inside.network.heal()
    inside.start()  # the last one to stop must lead before others are in sync
    assert isr(inside, "kept") == [0, 1, 2]


def test_what_makes_no_sense_is_refused(inside: Broker) -> None:
    network = inside.network
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
