"""Brokers that run on return to a snapshot: what clients see, and what is left in memory."""

import asyncio
import itertools
import random
import shutil
from pathlib import Path

import pytest

from odradek.broker.snapshots.image import CannotUndo, Image
from odradek.broker.snapshots.snapshots import Snapshots
from odradek.broker.snapshots.take import image_of
from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from tests.broker.group_requests import commit, fetch_offsets, join
from tests.broker.requests import change_configs, delete_topics
from tests.broker.running import RunningBroker, on_broker, running
from tests.broker.transaction_requests import (
    add_partitions,
    init_producer,
    produce_in_transaction,
)
from tests.seeds import SEED
from tests.support.awaiting import turns, until
from tests.support.client import Client
from tests.support.messages import batch_of, creatable, produce_request

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
}


NUMBERS = itertools.count()


def snapshots_of(broker: RunningBroker) -> Snapshots:
    return Snapshots(broker, broker._runtime)


def state_of(broker: RunningBroker) -> Image:
    """Without what is only bookkeeping."""
    image = image_of(broker.store, {broker.broker_id: broker})  # type: ignore[arg-type]
    kept = {p: d for p, d in image.nodes.items() if p.startswith(("/brokers/topics", "/config/t"))}
    return image._replace(nodes=kept)


async def topics_of(client: Client) -> set[str | None]:
    answer = await client.ask(MetadataRequest(topics=None), 12)
    return {topic.name for topic in answer.topics}


async def use_group(client: Client, group_id: str, topic: str, offset: int) -> None:
    """Find the coordinator, commit an offset, and become the only member of another group."""

    async def commits() -> bool:
        await client.ask(FindCoordinatorRequest(key=group_id), 3)
        answer = await client.ask(commit(group_id, topic, {0: offset}), 7)
        return not answer.topics[0].partitions[0].error_code

    await until(commits, "the offset is committed")
    await client.ask(join(f"{group_id}-{next(NUMBERS)}"), 3)


@on_broker(QUICK)
async def test_new_topics_are_dropped(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("seed")
    snapshots, before = snapshots_of(broker), state_of(broker)
    taken = await snapshots.take()
    for _ in range(2):
        client = await broker.client()
        for name in ("a", "b"):
            await client.create_topic(name, 3)
            assert await client.append(name, batch_of(b"1"), partition=2) == 0
        await use_group(client, "g", "a", 7)
        undo = await snapshots.restore(taken.id)
        assert undo.dropped_topics == ("__consumer_offsets", "a", "b")
        assert state_of(broker) == before
        client = await broker.client()
        assert await topics_of(client) == {"seed"}
        assert (await client.ask(ListGroupsRequest(), 4)).groups == []
    assert await client.append("seed", batch_of(b"1")) == 0


@on_broker(QUICK)
async def test_appended_records_are_gone(broker: RunningBroker) -> None:
    def of_producer(sequence: int) -> bytearray:
        return batch_of(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)

    client = await broker.client()
    await client.create_topic("seed")
    producer_id = (await client.ask(init_producer(None), 4)).producer_id
    for sequence in range(3):
        await client.append("seed", of_producer(sequence))
    snapshots, before = snapshots_of(broker), state_of(broker)
    taken = await snapshots.take()
    for _ in range(2):
        client = await broker.client()
        for sequence in (3, 4):
            assert await client.append("seed", of_producer(sequence)) == sequence
        epochs = broker.node.replicas.partitions["seed", 0].log.epochs.entries()
        undo = await snapshots.restore(taken.id)
        assert (undo.dropped_topics, undo.rewound_count) == ((), 1)
        assert state_of(broker) == before
        assert broker.node.replicas.partitions["seed", 0].log.epochs.entries() == epochs
        found = await (await broker.client()).fetch("seed")
        assert found.high_watermark == 3


@on_broker(QUICK, both=False)
async def test_checkpoints_never_promise_what_is_gone(broker: RunningBroker) -> None:
    """A crash right after a restore would otherwise seem to have lost committed records."""

    def promised() -> int:
        path = f"{broker.data_dir}/replication-offset-checkpoint"
        lines = broker.files.read_bytes(path).decode().splitlines()  # type: ignore[union-attr]
        return next(int(line.split()[2]) for line in lines if line.startswith("seed "))

    client = await broker.client()
    await client.create_topic("seed")
    snapshots = snapshots_of(broker)
    taken = await snapshots.take()
    await client.append("seed", batch_of(b"1", b"2"))
    await broker.node.replicas.checkpoint()
    assert promised() == 2
    await snapshots.restore(taken.id)
    assert promised() == 0


@on_broker(QUICK)
async def test_groups_are_as_they_were(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("seed")
    await use_group(client, "g", "seed", 1)
    client.abort()
    await until(lambda: not broker.connections, "the client is gone")
    snapshots = snapshots_of(broker)
    taken = await snapshots.take()
    client = await broker.client()
    await use_group(client, "g", "seed", 2)
    await use_group(client, "other", "seed", 2)
    await snapshots.restore(taken.id)
    client = await broker.client()
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    offsets = await client.ask(fetch_offsets("g", "seed", 0), 7)
    assert offsets.topics[0].partitions[0].committed_offset == 1
    listed = await client.ask(ListGroupsRequest(), 4)
    assert [group.group_id for group in listed.groups] == ["g"]
    described = await client.ask(DescribeGroupsRequest(groups=["g", "g-0", "g-1"]), 5)
    assert [len(group.members) for group in described.groups] == [0, 0, 0]


@on_broker(QUICK)
async def test_an_open_transaction_is_forgotten(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("seed")
    snapshots, before = snapshots_of(broker), state_of(broker)
    taken = await snapshots.take()

    answers = []

    async def ready() -> bool:
        await client.ask(FindCoordinatorRequest(key="tx", key_type=1), 3)
        answers.append(await client.ask(init_producer("tx"), 4))
        return not answers[-1].error_code

    await until(ready, "the transactional id has a producer")
    producer = answers[-1].producer_id, answers[-1].producer_epoch
    await client.ask(add_partitions("tx", producer, "seed", 0), 3)
    await client.ask(produce_in_transaction("tx", producer, "seed"), 11)
    await snapshots.restore(taken.id)
    assert state_of(broker) == before
    client = await broker.client()
    assert (await client.fetch("seed")).last_stable_offset == 0
    assert (await client.ask(ListTransactionsRequest(), 0)).transaction_states == []
    await client.append("seed", batch_of(b"1"))
    assert (await client.fetch("seed", isolation_level=1)).last_stable_offset == 1


@on_broker(QUICK)
async def test_late_requests_never_arrive(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("seed")
    snapshots, before = snapshots_of(broker), state_of(broker)
    taken = await snapshots.take()
    for _ in range(10):
        late = [await broker.client() for _ in range(3)]
        waiting = [
            asyncio.ensure_future(late[0].ask(produce_request("seed", {0: batch_of(b"x")}), 11)),
            asyncio.ensure_future(
                late[1].ask(CreateTopicsRequest(topics=[creatable("t", 3)], timeout_ms=9000), 7)
            ),
            asyncio.ensure_future(late[2].ask(delete_topics(6, "t"), 6)),
        ]
        await turns(random.randrange(6))
        await snapshots.restore(taken.id)
        assert state_of(broker) == before
        await asyncio.gather(*waiting, return_exceptions=True)
        assert state_of(broker) == before
        for each in late:
            each.abort()
    assert await topics_of(await broker.client()) == {"seed"}


@pytest.mark.slow
@on_broker(QUICK, both=False)
async def test_many_things_in_any_order(broker: RunningBroker) -> None:
    chance = random.Random(SEED)
    client = await broker.client()
    for topic in ("s0", "s1"):
        await client.create_topic(topic, 2)
        await client.append(topic, batch_of(b"1", b"2"), partition=1)
    await use_group(client, "g", "s0", 1)
    snapshots, before = snapshots_of(broker), state_of(broker)
    taken = await snapshots.take()
    for _ in range(8):
        client = await broker.client()
        made: list[str] = []
        for _ in range(chance.randrange(12)):
            match chance.randrange(5):
                case 0:
                    made.append(f"t{len(made)}")
                    await client.create_topic(made[-1], chance.randint(1, 3))
                case 1:
                    await use_group(client, chance.choice("gh"), "s0", chance.randrange(9))
                case 2 if made:
                    await client.ask(delete_topics(6, made[-1]), 6)
                case _:
                    topic = chance.choice(["s0", "s1"])
                    await client.append(topic, batch_of(b"x"), partition=chance.randrange(2))
        await snapshots.restore(taken.id)
        assert state_of(broker) == before


def test_what_cannot_be_undone_is_in_the_copy(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path / "one", QUICK) as broker:
            client = await broker.client()
            await client.create_topic("seed")
            await client.append("seed", batch_of(b"1"))
            await use_group(client, "g", "seed", 1)
            snapshots = snapshots_of(broker)
            taken = await snapshots.take()
            await client.ask(change_configs(2, "seed", ("retention.ms", 0, "1")), 1)
            with pytest.raises(CannotUndo, match="topic seed was changed"):
                await snapshots.restore(taken.id)
            client = await broker.client()
            await client.ask(delete_topics(6, "seed"), 6)
            with pytest.raises(CannotUndo, match="topic seed was deleted"):
                await snapshots.restore(taken.id)
            shutil.copytree(taken.directory, tmp_path / "two" / "data")
            snapshots.drop(taken.id)
            assert not taken.directory.exists()
            with pytest.raises(KeyError):
                await snapshots.restore(taken.id)
        async with running(tmp_path / "two", QUICK) as broker:
            client = await broker.client()
            assert await topics_of(client) == {"seed", "__consumer_offsets"}
            assert (await client.fetch("seed")).high_watermark == 1
            await client.ask(FindCoordinatorRequest(key="g"), 3)

            async def offset() -> bool:
                answer = await client.ask(fetch_offsets("g", "seed", 0), 7)
                partitions = [p for topic in answer.topics for p in topic.partitions]
                return [p.committed_offset for p in partitions] == [1]  # none while it is loaded

            await until(offset, "the offset is there")

    asyncio.run(main())
