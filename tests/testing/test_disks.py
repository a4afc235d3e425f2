"""Disks of a broker under test that are full or fail, and what real clients see of it."""

import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaStorageError

from odradek.testing import AdminError, Broker, BrokerFailed
from odradek.testing.marker import Wanted
from odradek.testing.servers import Servers
from tests.kafka.jars import fetch
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.slow]


@pytest.fixture(params=[False, True], ids=["child", "in process"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(in_process=request.param) as started:
        yield started


def test_producers_retry_on_a_full_disk_until_it_has_room(broker: Broker) -> None:
    broker.topics.create("t")
    broker.produce("t", b"before")
    broker.disk_full(0)
    once = KafkaProducer(**broker.client_config("kafka-python"), retries=0)
    with pytest.raises(KafkaStorageError):
        once.send("t", b"lost").get(30)
    once.close()
    reports: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        reports.append(error)

    producer = Producer({**broker.client_config("confluent"), "retry.backoff.ms": 10})
    producer.produce("t", b"retried", on_delivery=on_delivery)
    seen = "KAFKA_STORAGE_ERROR"
    until(lambda: [r for r in broker.journal.requests(api="Produce") if r.error == seen][1:])
    assert [record.value for record in broker.records("t")] == [b"before"]
    broker.heal_disk(0)
    assert producer.flush(30) == 0
    assert reports == [None]
    assert [record.value for record in broker.records("t")] == [b"before", b"retried"]


def test_the_only_broker_ends_as_its_disk_fails_and_keeps_what_it_has_acknowledged(
    broker: Broker,
) -> None:
    broker.topics.create("t")
    broker.produce("t", b"acknowledged")
    broker.fail_disk(0)
    assert not broker.running
    with pytest.raises(BrokerFailed):
        broker.heal_disk(0)
    broker.start()
    assert [record.value for record in broker.records("t")] == [b"acknowledged"]


def test_a_full_disk_does_not_keep_a_broker_from_ending(broker: Broker) -> None:
    broker.topics.create("t")
    broker.disk_full(0)
    with pytest.raises(AdminError, match="KAFKA_STORAGE_ERROR"):
        broker.produce("t", b"v")
    broker.close()


def test_a_full_disk_does_not_keep_a_paused_broker_from_ending() -> None:
    with Broker(brokers=2, in_process=True) as two:
        two.topics.create("t")
        leader = two.leader("t")
        two.disk_full(leader)
        with pytest.raises(AdminError, match="KAFKA_STORAGE_ERROR"):
            two.produce("t", b"v")
        two.pause(leader)
    with Broker() as child:
        child.topics.create("t")
        child.disk_full(0)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)


def test_others_lead_while_the_disk_of_a_leader_has_failed() -> None:
    with Broker(brokers=3, in_process=True) as three:
        three.topics.create("t", replication_factor=3, configs={"min.insync.replicas": 2})
        producer = Producer({**three.client_config("confluent"), "enable.idempotence": True})
        producer.produce("t", b"one")
        assert producer.flush(30) == 0
        leader = three.leader("t")
        three.fail_disk(leader, expire=True)
        producer.produce("t", b"two")
        assert producer.flush(30) == 0
        assert three.leader("t") != leader
        with pytest.raises(BrokerFailed, match="Input/output error"):
            three.start(leader)
        three.heal_disk(leader)
        three.start(leader)
        assert leader in three.topics["t"].partitions[0].isr
        three.disk_full(leader)
        three.reset()
        assert "full" not in [each["disk"] for each in three.admin.get("brokers")["brokers"]]


def test_a_follower_with_a_full_disk_leaves_the_in_sync_replicas() -> None:
    settings = {"replica.lag.time.max.ms": 500}
    with Broker(brokers=2, settings=settings, in_process=True) as two:
        two.topics.create("t", replication_factor=2)
        follower = 1 - two.leader("t")
        two.disk_full(follower)
        two.produce("t", b"v")  # acknowledged once the follower is out of sync
        assert follower not in two.topics["t"].partitions[0].isr
        two.heal_disk(follower)
        until(lambda: follower in two.topics["t"].partitions[0].isr)


@pytest.mark.java
def test_disks_of_brokers_with_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_ZOOKEEPER_JARS", str(fetch("3.9.2")))
    settings = {"replica.lag.time.max.ms": 500, "zookeeper.session.timeout.ms": 4_000}
    with Broker(brokers=2, settings=settings, zookeeper="auto") as two:
        two.topics.create("t", replication_factor=2)
        leader = two.leader("t")
        follower = next(each for each in two.broker_ids if each != leader)
        two.disk_full(follower)
        two.produce("t", b"one")  # acknowledged once the follower is out of sync
        until(lambda: follower not in two.topics["t"].partitions[0].isr)
        two.heal_disk(follower)
        until(lambda: follower in two.topics["t"].partitions[0].isr)
        two.fail_disk(leader)
        until(lambda: two.leader("t") == follower)
        two.produce("t", b"two")
        two.start(leader)
        until(lambda: leader in two.topics["t"].partitions[0].isr)
        assert [record.value for record in two.records("t")] == [b"one", b"two"]


def test_a_clean_state_has_disks_that_work() -> None:
    servers = Servers(Wanted(in_process=True), (), ())
    server = servers.get(servers.usual)
    broker = server.broker
    try:
        for spoil in (broker.disk_full, broker.fail_disk, broker.disk_full):
            server.clean((("t", 1),))
            broker.produce("t", b"v")
            spoil(0)
            server.leave()
        server.clean((("t", 1),))
        broker.produce("t", b"v")
        assert len(broker.records("t")) == 1
    finally:
        servers.close()
