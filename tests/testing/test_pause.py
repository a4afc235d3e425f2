"""A paused broker reads nothing and loses its session, in one process, too."""

import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from odradek.testing import Broker
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.slow]

SESSION_MS = 1_000
API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)


@pytest.fixture(scope="module", params=[False, True], ids=["child", "in process"])
def three(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = {"zookeeper.session.timeout.ms": SESSION_MS}
    with Broker(brokers=3, settings=settings, in_process=request.param) as started:
        yield started


def controller(broker: Broker) -> int:
    metadata = Producer(broker.client_config("confluent")).list_topics(timeout=10)
    return int(metadata.controller_id)


def test_leadership_moves_away_from_a_paused_broker_and_it_comes_back(three: Broker) -> None:
    three.topics.create("t", replication_factor=3)
    three.produce("t", b"before")
    leader = three.leader("t")
    three.pause(leader)
    with socket.create_connection(three.address(leader), timeout=0.2) as client:
        client.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
        with pytest.raises(TimeoutError):
            client.recv(1)
        until(lambda: three.leader("t") not in (leader, -1))
        producer = Producer(three.client_config("confluent"))
        producer.produce("t", b"meanwhile")
        assert producer.flush(30) == 0
        three.resume(leader)
        client.settimeout(30)
        assert client.recv(8)[4:] == struct.pack(">i", 7)  # answered now
    until(lambda: leader in three.topics["t"].partitions[0].isr)
    assert [record.value for record in three.records("t")] == [b"before", b"meanwhile"]
    assert three.move_leader("t", to=leader) == leader


def test_a_paused_follower_does_not_fetch() -> None:
    with Broker(brokers=2, in_process=True) as two:
        two.topics.create("t", replication_factor=2)
        follower = 1 - two.leader("t")
        two.pause(follower)
        producer = Producer(two.client_config("confluent"))
        producer.produce("t", b"v")
        assert producer.flush(1) == 1  # it waits for the follower, which is in sync
        two.resume(follower)
        assert producer.flush(30) == 0


def test_a_paused_controller_is_replaced(three: Broker) -> None:
    paused = controller(three)
    three.pause(paused)
    three.topics.create("new", replication_factor=2)
    three.resume(paused)
    three.topics.create("newer", replication_factor=3)
    assert controller(three) != paused


def test_a_short_pause_changes_nothing(three: Broker) -> None:
    topic = three.topics.create("short", partitions=3, replication_factor=3)
    for broker_id in three.broker_ids:
        three.pause(broker_id)
        assert three.admin.get("brokers")["brokers"][broker_id]["state"] == "paused"
        three.resume(broker_id)
    consumer = Consumer({**three.client_config("confluent"), "group.id": "g"})
    consumer.list_topics(timeout=30)
    consumer.close()
    assert three.topics["short"] == topic


def test_a_paused_broker_can_be_stopped_killed_and_started(three: Broker) -> None:
    for end in (three.stop, three.kill):
        three.pause(1)
        end(1)
        three.start(1)
    three.pause(1)
    three.admin.post("brokers", 2, "stop")
    three.reset()
    states = {each["state"] for each in three.admin.get("brokers")["brokers"]}
    assert states == {"running"}
