"""Brokers that a test puts into racks."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.testing import Broker, BrokerFailed
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.slow]

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def three() -> Iterator[Broker]:
    settings = {"replica.selector.class": SELECTOR, "broker.rack": "given"}
    with Broker(brokers=3, in_process=True, settings=settings) as started:
        yield started


def racks(broker: Broker) -> list[str | None]:
    return [each["rack"] for each in broker.admin.get("brokers")["brokers"]]


def test_consumers_read_in_their_rack_and_replicas_are_spread_over_racks(three: Broker) -> None:
    state = three.snapshot()
    assert racks(three) == ["given"] * 3
    for broker_id, rack in enumerate(("a", "a", "b")):
        three.set_rack(broker_id, rack)
    assert racks(three) == ["a", "a", "b"]
    topic = three.topics.create("spread", partitions=6, replication_factor=2)
    assert all(2 in each.replicas for each in topic.partitions)  # one in each rack
    (partition, *_) = (each.partition for each in topic.partitions if each.leader != 2)
    three.produce("spread", b"v", partition=partition)
    config = {"group.id": "g", "client.rack": "b", "client.id": "near"}
    consumer = Consumer({**three.client_config("confluent"), **config})
    consumer.assign([TopicPartition("spread", partition, 0)])

    def reads_nearby() -> bool:
        consumer.poll(0.1)
        fetches = three.journal.requests(api="Fetch", client_id="near")
        return any(each.broker == 2 for each in fetches)

    until(reads_nearby)
    consumer.close()
    three.stop(2)
    with pytest.raises(BrokerFailed, match="broker 2 is not running"):
        three.set_rack(2, "c")
    three.start(2)
    three.set_rack(0, None)
    assert racks(three) == [None, "a", "b"]
    with pytest.raises(BrokerFailed, match="there is no broker 7"):
        three.set_rack(7, "c")
    three.admin.post("snapshots", state.id, "restore", forgets_requests=True)
    assert racks(three) == ["given"] * 3
    three.set_rack(1, "elsewhere")
    three.reset()
    assert racks(three) == ["given"] * 3
