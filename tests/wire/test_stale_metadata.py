"""A client with old metadata finds its way: topics made, extended, deleted behind its back."""

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaProducer

from tests.support.brokers import NewTopicName, StartServer, UniqueName, create_topic
from tests.support.waiting import until
from tests.wire.clients import Settings, librdkafka, read_confluent
from tests.wire.servers import Server


def test_a_topic_deleted_and_made_again(
    server: Server, admin: AdminClient, new_topic: NewTopicName
) -> None:
    """The producer's partition 3 is gone; its records must reach the new partition 0."""
    name = new_topic("remade", partitions=4)
    producer = KafkaProducer(bootstrap_servers=server.bootstrap_servers, retries=50)
    try:
        producer.send(name, b"old", partition=0).get(timeout=30)
        admin.delete_topics([name])[name].result(timeout=30)
        until(lambda: created(server, admin, name))
        producer.send(name, b"new", partition=0).get(timeout=60)
    finally:
        producer.close()
    found = read_confluent(server.bootstrap_servers, name, {0: 1})[0]
    assert [record.value for record in found] == [b"new"]


def created(server: Server, admin: AdminClient, name: str) -> bool:
    try:
        create_topic(server.bootstrap_servers, name, partitions=1, admin=admin)
    except KafkaException as refused:
        assert refused.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, refused
        return False
    return True


def test_a_producer_sees_added_partitions(
    server: Server, admin: AdminClient, new_topic: NewTopicName
) -> None:
    name = new_topic("extended")
    producer = KafkaProducer(bootstrap_servers=server.bootstrap_servers, metadata_max_age_ms=300)
    try:
        producer.send(name, b"v", partition=0).get(timeout=30)
        admin.create_partitions([NewPartitions(name, 3)])[name].result(timeout=30)
        until(lambda: producer.partitions_for(name) == {0, 1, 2})
        producer.send(name, b"v", partition=2).get(timeout=30)
    finally:
        producer.close()


def test_librdkafka_sees_added_partitions(
    server: Server, admin: AdminClient, new_topic: NewTopicName
) -> None:
    """It asks again after `topic.metadata.refresh.interval.ms`; until then it refuses locally."""
    name = new_topic("extended")
    producer = Producer(
        librdkafka(server.bootstrap_servers, **{"topic.metadata.refresh.interval.ms": 200})
    )
    producer.produce(name, b"v", partition=0)
    assert producer.flush(30) == 0
    admin.create_partitions([NewPartitions(name, 2)])[name].result(timeout=30)
    errors: list[object] = []

    def sent() -> bool:
        try:
            producer.produce(name, b"v", partition=1, on_delivery=lambda e, _: errors.append(e))
        except KafkaException as refused:
            assert refused.args[0].code() == KafkaError._UNKNOWN_PARTITION, refused
            return False
        assert producer.flush(30) == 0
        return errors[-1] is None

    until(sent)


def test_a_consumer_waits_for_its_partition(
    server: Server, admin: AdminClient, unique_name: UniqueName
) -> None:
    """Assigned before the topic is there; UNKNOWN_TOPIC_OR_PARTITION is asked again, not fatal."""
    name = unique_name("later")
    settings: Settings = {
        "group.id": "waiting",
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": 200,
    }
    consumer = Consumer(librdkafka(server.bootstrap_servers, **settings))
    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
        early = consumer.poll(0.5)
        assert early is None or early.error().code() in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_PARTITION,
        )
        assert name not in admin.list_topics(timeout=30).topics
        create_topic(server.bootstrap_servers, name, admin=admin)
        producer = Producer(librdkafka(server.bootstrap_servers))
        producer.produce(name, b"v", partition=0)
        assert producer.flush(30) == 0

        def came() -> bool:
            message = consumer.poll(0.2)
            return message is not None and message.value() == b"v"

        until(came, timeout_s=30)
    finally:
        consumer.close()


def test_a_client_outlives_a_restart(start_server: StartServer) -> None:
    """Same port, same files: producer and consumer go on without being made again."""
    server = start_server()
    create_topic(server.bootstrap_servers, "outlived")
    settings = {"reconnect.backoff.max.ms": 200}
    producer = Producer(librdkafka(server.bootstrap_servers, **settings))
    producer.produce("outlived", b"before", partition=0)
    assert producer.flush(30) == 0
    server.stop()
    producer.produce("outlived", b"while away", partition=0)
    server.start()
    producer.produce("outlived", b"after", partition=0)
    assert producer.flush(60) == 0
    found = read_confluent(server.bootstrap_servers, "outlived", {0: 3})[0]
    assert [record.value for record in found] == [b"before", b"while away", b"after"]
