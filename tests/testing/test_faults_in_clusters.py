"""Rules and the journal of several brokers: in one process, and what replicas notice of them."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import Broker
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.slow]

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    settings = {"num.partitions": 3, "default.replication.factor": 3, "min.insync.replicas": 2}
    with Broker(in_process=True, brokers=3, settings=settings) as broker:
        yield broker


def write(cluster: Broker, partition: int) -> None:
    producer = Producer({**cluster.client_config("confluent"), "linger.ms": 0})
    producer.produce("t", b"v", partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def test_rules_reach_all_brokers_or_the_one_they_name(cluster: Broker) -> None:
    for partition in range(3):
        write(cluster, partition)
    leaders = {partition: cluster.leader("t", partition) for partition in range(3)}
    assert len(set(leaders.values())) == 3
    everywhere = cluster.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", every=2)
    there = cluster.faults.add(api="Produce", broker=leaders[1], delay="1ms")
    for partition in range(3):
        write(cluster, partition)
    assert everywhere.matched > everywhere.hits > 0
    assert there.hits >= 1
    brokers = {each.broker for each in cluster.journal.requests(api="Produce")}
    assert brokers == set(leaders.values())
    cluster.faults.clear()


def test_replicas_notice_only_rules_that_say_so(cluster: Broker) -> None:
    write(cluster, 0)
    cluster.journal.clear()
    unnoticed = cluster.faults.add(api="Fetch", close=True)
    write(cluster, 0)  # acks=all: the followers have fetched it
    assert unnoticed.hits == 0
    assert unnoticed.nearest_miss == "Fetch came only from other brokers: give inter_broker=true"
    assert cluster.journal.requests(api="Fetch") == []
    unnoticed.remove()
    noticed = cluster.faults.add(
        api="Fetch", topic="t", error="UNKNOWN_SERVER_ERROR", times=2, inter_broker=True
    )
    write(cluster, 0)
    until(lambda: noticed.hits == 2)


def test_a_reader_is_sent_to_a_follower(cluster: Broker) -> None:
    write(cluster, 0)
    leader = cluster.leader("t", 0)
    follower = (leader + 1) % 3
    sent = cluster.faults.add(
        api="Fetch", topic="t", broker=leader, answer={"preferred_read_replica": follower}
    )
    told = cluster.faults.add(
        api="Fetch", topic="t", broker=follower, answer={"high_watermark": 70}
    )
    config = {"group.id": "g", "client.id": "reader", "fetch.wait.max.ms": 50}
    consumer = Consumer({**cluster.client_config("confluent"), **config})
    partition = TopicPartition("t", 0, 0)
    consumer.assign([partition])

    def knows_the_followers_watermark() -> bool:
        consumer.poll(0.1)
        _, high_watermark = consumer.get_watermark_offsets(partition, cached=True)
        return bool(high_watermark == 70)

    until(knows_the_followers_watermark)
    consumer.close()
    fetches = cluster.journal.requests(api="Fetch", client_id="reader")
    assert {each.broker for each in fetches} == {leader, follower}
    assert sent.hits >= 1
    assert told.hits >= 1
    cluster.faults.clear()


def test_rules_last_while_a_broker_is_away(cluster: Broker) -> None:
    fault = cluster.faults.add(api="Metadata", delay="1ms")
    cluster.stop(cluster.broker_ids[2])
    cluster.start(cluster.broker_ids[2])
    before = fault.hits
    write(cluster, 2)
    assert fault.hits > before
    fault.remove()
