"""Snapshots of `Broker`, with real clients: restored, also after crashes and deletions; forked."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from odradek.testing import Broker, BrokerFailed

pytestmark = pytest.mark.wire
FOREVER = {"log.retention.ms": -1}


def write(broker: Broker, topic: str, *values: bytes) -> None:
    producer = Producer({**broker.client_config("confluent"), "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def read(broker: Broker, topic: str) -> list[bytes]:
    consumer = Consumer({**broker.client_config("confluent"), "group.id": "reader"})
    try:
        partition = TopicPartition(topic, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(end, timeout=30) if end else []
        return [message.value() for message in found]
    finally:
        consumer.close()


def topics(broker: Broker) -> set[str]:
    return set(AdminClient(broker.client_config("confluent")).list_topics(timeout=30).topics)


@pytest.fixture(params=[True, False], ids=["in process", "child"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(in_process=request.param, settings=FOREVER) as broker:
        yield broker


def test_it_returns_to_a_snapshot_whatever_has_happened(broker: Broker) -> None:
    write(broker, "seed", b"one", b"two")
    taken, before = broker.snapshot(), broker.bootstrap_servers
    admin = AdminClient(broker.client_config("confluent"))

    def more() -> None:
        write(broker, "seed", b"three")
        write(broker, "new", b"x")

    def stop() -> None:
        more()
        broker.stop()

    def delete() -> None:
        for done in admin.delete_topics(["seed"], operation_timeout=30).values():
            done.result(30)

    def change() -> None:
        entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "seed", incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(30)

    for happens in (more, stop, delete, change, more):
        happens()
        broker.restore(taken)
        assert broker.bootstrap_servers == before
        assert topics(broker) == {"seed"}, happens
        assert read(broker, "seed") == [b"one", b"two"], happens


def test_a_fork_has_the_state_and_goes_its_own_way(broker: Broker) -> None:
    write(broker, "seed", b"one")
    with broker.fork() as twin:
        assert twin.port != broker.port
        write(twin, "seed", b"two")
        write(broker, "seed", b"three")
        assert read(twin, "seed") == [b"one", b"two"]
        assert read(broker, "seed") == [b"one", b"three"]


def test_what_is_killed_after_restore_has_lost_nothing() -> None:
    """Although nothing is synced: what is written is in the page cache, and counted as there."""
    with Broker(settings=FOREVER) as broker:
        write(broker, "seed", b"one")
        taken = broker.snapshot()
        for value in (b"two", b"three"):
            write(broker, "seed", b"gone", b"gone")
            broker.restore(taken)
            write(broker, "seed", value)
            broker.kill()
            broker.start()
            assert read(broker, "seed") == [b"one", value]
            assert "suspect" not in broker.log
            broker.restore(taken)


def test_a_cluster_drops_topics_in_place_and_starts_again_for_more() -> None:
    with Broker(brokers=2, in_process=True, settings=FOREVER) as cluster:
        write(cluster, "seed", b"one")
        taken = cluster.snapshot()
        for happens in ("new", "seed"):
            write(cluster, happens, b"two")
            cluster.restore(taken)
            assert topics(cluster) == {"seed"}
            assert read(cluster, "seed") == [b"one"]
        cluster.kill(1)
        cluster.restore(taken)
        assert read(cluster, "seed") == [b"one"]


def test_the_same_as_coroutines() -> None:
    async def main() -> None:
        async with Broker(in_process=True, settings=FOREVER) as broker:
            taken = await broker.aio.snapshot()
            await broker.aio.topics.create("t")
            twin = await broker.aio.fork()
            assert list(twin.topics) == ["t"]
            await twin.aio.close()
            await broker.aio.restore(taken)
            assert await broker.aio.topics.names() == []

    asyncio.run(main())


def test_a_snapshot_that_is_removed_leaves_nothing() -> None:
    with Broker(in_process=True) as broker:
        taken = broker.snapshot()
        taken.remove()
        assert not taken.directory.exists()
        with pytest.raises(ValueError, match="removed already"):
            taken.remove()
        with pytest.raises(ValueError, match="is removed"):
            broker.restore(taken)
        for _ in range(110):  # more than there may be at a time
            broker.snapshot().remove()


def test_refusals_are_one_sentence() -> None:
    with Broker(in_process=True) as broker:
        taken = broker.snapshot()
        with Broker(in_process=True) as other:
            stranger = other.snapshot()
        with pytest.raises(ValueError, match="this snapshot is removed, or of another broker"):
            broker.restore(stranger)
        (taken.directory / "odradek-snapshot.json").write_text(json.dumps({"version": "0.0.1"}))
        broker.restart()
        with pytest.raises(BrokerFailed, match=r"is of Odradek 0\.0\.1, and this is .*: take it"):
            broker.restore(taken)
    assert not taken.directory.exists()
