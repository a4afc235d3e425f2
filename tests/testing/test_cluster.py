"""`odradek.testing.Broker` with several brokers: in a child, in this process, with ZooKeeper."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Broker, BrokerFailed
from odradek.testing.door import AdminError
from odradek.testing.processes import ProcessCluster
from odradek.testing.ready import Start
from tests.kafka.jars import fetch
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

# Longer than a machine stops: a broker that is well is neither dead nor out of sync for that.
SOON = {"replica.lag.time.max.ms": "10000", "zookeeper.session.timeout.ms": "8000"}


def create(broker: Broker, topic: str, replicas: list[int]) -> None:
    admin = AdminClient(broker.client_config("confluent"))
    new = NewTopic(topic, num_partitions=1, replica_assignment=[replicas])
    admin.create_topics([new])[topic].result(60)


def write(broker: Broker, topic: str, values: list[bytes]) -> None:
    producer = Producer(broker.client_config("confluent"))
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def read(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**broker.client_config("confluent"), "group.id": "none"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=60)
    consumer.close()
    return [message.value() for message in messages]


@pytest.fixture(params=["child", "thread"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(brokers=3, in_process=request.param == "thread", settings=SOON) as broker:
        yield broker


def test_a_killed_leader_is_replaced_and_comes_back(cluster: Broker) -> None:
    assert cluster.broker_ids == [0, 1, 2]
    create(cluster, "t", [1, 2, 0])
    write(cluster, "t", [b"first"])
    until(lambda: cluster.leader("t") == 1)
    cluster.kill(1, expire=True)
    until(lambda: cluster.leader("t") == 2)
    write(cluster, "t", [b"second"])
    cluster.start(1)
    cluster.stop(2)
    until(lambda: cluster.leader("t") in (0, 1))
    write(cluster, "t", [b"third"])
    cluster.start()
    cluster.start(2)  # it runs: nothing happens
    assert read(cluster, "t", 3) == [b"first", b"second", b"third"]
    with pytest.raises(ValueError, match="there is no broker 7"):
        cluster.kill(7)


def test_a_session_that_is_left_keeps_the_dead_leader_for_its_time(cluster: Broker) -> None:
    create(cluster, "t", [1, 2, 0])
    until(lambda: cluster.leader("t") == 1)
    cluster.kill(1)
    assert cluster.leader("t") == 1
    until(lambda: cluster.leader("t") == 2)


def test_all_stop_and_start_again_on_their_ports(tmp_path: Path) -> None:
    with Broker(brokers=2, data_dir=tmp_path, settings=SOON) as broker:
        create(broker, "t", [1, 0])
        write(broker, "t", [b"kept"])
        before = broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == before
        assert broker.leader("t") == 1  # nobody took over while all stopped, or all started
        assert read(broker, "t", 1) == [b"kept"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "broker-0",
        "broker-1",
    ]
    with pytest.raises(BrokerFailed, match="also has files of broker 0, 1, which"):
        Broker(brokers=3, data_dir=tmp_path, settings={"broker.id": 2}).start()
    with pytest.raises(BrokerFailed, match="the directory of several brokers"):
        Broker(data_dir=tmp_path).start()


def test_a_record_is_written_as_soon_as_all_have_started_again() -> None:
    """Brokers know who leads before they lead."""
    with Broker(brokers=3, in_process=True) as cluster:
        cluster.topics.create("again", replication_factor=3)
        for offset in range(4):
            cluster.restart()
            assert cluster.produce("again", b"v").offset == offset


def test_several_brokers_refuse_the_directory_of_one(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path):
        pass
    with pytest.raises(BrokerFailed, match="is the directory of a single broker"):
        Broker(brokers=2, data_dir=tmp_path).start()


@pytest.mark.java
def test_with_zookeeper_every_broker_is_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_ZOOKEEPER_JARS", str(fetch("3.9.2")))
    with Broker(brokers=3, zookeeper="auto", settings=SOON) as broker:
        create(broker, "t", [1, 2, 0])
        write(broker, "t", [b"first"])
        fault = broker.faults.add(api="Metadata", broker=1, delay="1ms")
        fault.remove()
        broker.pause(1)  # until its session has expired
        until(lambda: broker.leader("t") == 2)
        broker.resume(1)
        broker.start(1)  # it runs: nothing happens
        broker.kill(2)
        until(lambda: broker.leader("t") in (0, 1))
        broker.start(2)
        write(broker, "t", [b"second"])
        assert read(broker, "t", 2) == [b"first", b"second"]
        broker.topics.create("spread", partitions=3, replication_factor=1)
        for partition in range(3):  # of which each is led in another process
            broker.produce("spread", f"{partition}", partition=partition)
        assert [record.value for record in broker.records("spread")] == [b"0", b"1", b"2"]
        _check_network_of_processes(broker)
        broker.kill(0)
        assert broker.admin.get("brokers")["brokers"][0]["id"] == 1


def _check_network_of_processes(broker: Broker) -> None:
    metadata = Producer(broker.client_config("confluent")).list_topics(timeout=10)
    controller = int(metadata.controller_id)
    isolated, other = (each for each in broker.broker_ids if each != controller)
    create(broker, "cut", [controller, isolated])
    broker.network.isolate(isolated)
    producer = Producer({**broker.client_config("confluent"), "message.timeout.ms": 1500})
    errors: list[object] = []
    producer.produce("cut", b"v", callback=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert [error is None for error in errors] == [False]
    broker.stop(other)
    broker.start(other, in_sync=False)  # it is told what the others have been told
    states = [admin.get("network")["splits"] for admin in broker._admins]
    assert (
        states
        == [
            [
                {
                    "groups": [[isolated], sorted((controller, other))],
                    "clients": False,
                    "store": False,
                }
            ]
        ]
        * 3
    )
    broker.network.heal()
    write(broker, "cut", [b"v"])
    with pytest.raises(AdminError, match="brokers connect to the same listener"):
        broker.network.slow(isolated, delay="1s", clients=True)
    broker.network.isolate(controller, clients=True, store=True)
    until(lambda: broker.leader("cut") == isolated)  # once the session has expired
    broker.network.heal()
    until(lambda: controller in broker.topics["cut"].partitions[0].isr)


@pytest.mark.java
def test_a_failed_start_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ODRADEK_ZOOKEEPER_JARS", str(fetch("3.9.2")))

    def fail(settings: Mapping[str, str]) -> None:
        told.append(settings["zookeeper.connect"])
        raise BrokerFailed("no")

    told: list[str] = []
    cluster = ProcessCluster(
        tmp_path, brokers=2, zookeeper=None, before_brokers=fail, start_timeout_s=60
    )
    with pytest.raises(BrokerFailed, match="no"):
        cluster.start(Start(data_dir=tmp_path / "data", settings={}))
    host, _, port = told[0].partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
