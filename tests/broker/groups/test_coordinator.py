"""The coordinator at work in a broker: what it keeps, forgets, and tells those who wait."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from odradek.broker.coordinators.led_partition import LedPartition
from odradek.broker.coordinators.loading import CoordinatorLoader
from odradek.broker.core.groups.classic import ClassicGroup
from odradek.broker.core.groups.consumer import ConsumerGroup
from odradek.broker.core.groups.shard import Shard
from odradek.broker.core.partition import Partition
from odradek.broker.runtime import Offload
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.storage.log.log import Log
from tests.broker.group_requests import commit, consumer_heartbeat, fetch_offsets, join, sync
from tests.broker.requests import alter_log_dirs, delete_topics
from tests.broker.running import RunningBroker, on_broker, running
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_left

DAY_MS = 86_400_000
AT_ONCE = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
LATER = {"group.initial.rebalance.delay.ms": "60000", "offsets.topic.num.partitions": "1"}


async def client_of(broker: RunningBroker) -> Client:
    """A connection; the topic `orders` and the coordinator are there."""
    client = await broker.client()
    await client.create_topic("orders", 2)
    assert (await client.ask(FindCoordinatorRequest(key="g"), 3)).error_code == 0
    return client


async def joined(client: Client, group_id: str = "g") -> tuple[str, int]:
    """Become the only member of a group; its id and generation."""
    first = await client.ask(join(group_id), 5)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    second = await client.ask(join(group_id, first.member_id), 5)
    assert second.error_code == 0
    shares = {second.member_id: b"all"}
    synced = await client.ask(sync(group_id, second.generation_id, second.member_id, shares), 3)
    assert (synced.error_code, synced.assignment) == (0, b"all")
    return second.member_id, second.generation_id


def ring(broker: RunningBroker) -> None:
    """Look at the group now: its timer knows nothing of a clock that was moved."""
    led = broker.node.groups._led_of("g")
    led.run("g", led.machine.on_time("g", led.moment()))


async def offset_of(client: Client, group_id: str = "g", topic: str = "orders") -> int:
    answer = await client.ask(fetch_offsets(group_id, topic, 0), 7)
    assert answer.error_code == 0
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


async def state_of(client: Client, group_id: str = "g") -> str:
    described = await client.ask(DescribeGroupsRequest(groups=[group_id]), 5)
    state: str = described.groups[0].group_state
    return state


@on_broker(AT_ONCE, both=False)
async def test_offsets_of_nobody_expire_with_their_group(broker: RunningBroker) -> None:
    client = await client_of(broker)
    assert (await client.ask(commit("g", "orders", {0: 5}), 8)).topics[0].partitions
    broker.clock.moved_ms += 6 * DAY_MS
    broker.node.groups.expire()
    assert await offset_of(client) == 5
    broker.clock.moved_ms += 2 * DAY_MS
    broker.node.groups.expire()
    assert await offset_of(client) == -1
    assert (await client.ask(ListGroupsRequest(), 4)).groups == []


@on_broker(AT_ONCE, both=False)
async def test_a_deleted_topic_takes_its_offsets_along(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await client.create_topic("others")
    for topic in ("orders", "others"):
        await client.ask(commit("g", topic, {0: 5}), 8)
    await client.ask(delete_topics(6, "orders"), 6)
    everything = await client.ask(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert [topic.name for topic in everything.topics] == ["others"]


@on_broker(LATER, both=False)
async def test_who_waits_hears_that_the_groups_are_gone(broker: RunningBroker) -> None:
    client, member = await client_of(broker), await broker.client()
    waiting = asyncio.create_task(member.ask(join("g"), 3))
    await until(lambda: "g" in broker.node.groups.shard_of("g").groups)
    await client.ask(delete_topics(6, "__consumer_offsets"), 6)
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    assert (await client.ask(heartbeat, 3)).error_code == ErrorCode.NOT_COORDINATOR
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    assert (await client.ask(heartbeat, 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@on_broker(AT_ONCE, both=False)
async def test_nothing_of_a_deleted_partition_is_left_to_the_collector(
    broker: RunningBroker,
) -> None:
    kinds = (Partition, Log, LedPartition, Shard, ClassicGroup, ConsumerGroup)
    client = await broker.client()
    await client.create_topic("orders", 2)
    async with nothing_left(*kinds):
        await client.ask(FindCoordinatorRequest(key="g"), 3)
        await joined(client)
        joining = consumer_heartbeat("new", "m")
        assert (await client.ask(joining, 1)).error_code == 0
        await client.ask(delete_topics(6, "__consumer_offsets"), 6)


@on_broker(LATER, both=False)
async def test_a_member_that_hangs_up_is_joined_by_its_group_all_the_same(
    broker: RunningBroker,
) -> None:
    client, member = await client_of(broker), await broker.client()
    asked = asyncio.create_task(member.ask(join("g"), 3))
    await until(lambda: "g" in broker.node.groups.shard_of("g").groups)
    asked.cancel()
    member.abort()
    assert await state_of(client) == "PreparingRebalance"
    broker.clock.moved_ms += 61_000
    ring(broker)
    assert await state_of(client) == "CompletingRebalance"


@on_broker(AT_ONCE, both=False)
async def test_a_silent_member_is_missed_at_its_time(broker: RunningBroker) -> None:
    client = await client_of(broker)
    request = join("g", session_ms=6_000)
    member_id = (await client.ask(request, 5)).member_id
    request.member_id = member_id
    assert (await client.ask(request, 5)).error_code == 0
    broker.clock.moved_ms += 30_000
    ring(broker)
    assert await state_of(client) == "Empty"


@on_broker(AT_ONCE, both=False)
async def test_while_groups_are_loaded(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_load = asyncio.Event()
    load = CoordinatorLoader.load

    async def load_later(*arguments: object) -> None:
        await may_load.wait()
        await load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(CoordinatorLoader, "load", load_later)
    client = await client_of(broker)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (await client.ask(join("g"), 5)).error_code == loading
    rejoin = ErrorCode.REBALANCE_IN_PROGRESS
    assert (await client.ask(sync("g", 1, "m"), 3)).error_code == rejoin
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    assert (await client.ask(heartbeat, 3)).error_code == ErrorCode.NONE
    assert (await client.ask(consumer_heartbeat("g", "m"), 1)).error_code == loading
    committed = await client.ask(commit("g", "orders", {0: 1}), 8)
    assert committed.topics[0].partitions[0].error_code == loading
    assert (await client.ask(fetch_offsets("g", "orders", 0), 7)).error_code == loading
    assert (await client.ask(ListGroupsRequest(), 4)).error_code == loading
    described = await client.ask(DescribeGroupsRequest(groups=["g"]), 5)
    assert described.groups[0].error_code == loading
    may_load.set()
    await until(lambda: not broker.node.groups.is_loading)
    await joined(client)


@contextlib.asynccontextmanager
async def reading_slowly(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Partition]:
    """A coordinator that has read the first batches of its log; at the end it goes on."""
    partition = broker.node.replicas.partitions["__consumer_offsets", 0]
    may_go_on, reads = asyncio.Event(), 0
    read = CoordinatorLoader._read

    async def read_slowly(
        self: CoordinatorLoader[GroupRecord], offset: int, offload: Offload
    ) -> bytes | None:
        nonlocal reads
        data = await read(self, offset, offload)
        reads += 1
        await may_go_on.wait()
        return data

    monkeypatch.setattr(CoordinatorLoader, "_read", read_slowly)
    groups = broker.node.groups
    groups.resign_partitions([0])
    groups.lead(partition)
    await until(lambda: reads == 1)
    yield partition
    may_go_on.set()
    await until(lambda: not loads())


@contextlib.asynccontextmanager
async def loading_slowly(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Partition]:
    """The same of a log with five commits of one offset."""
    client = await client_of(broker)
    for number in range(5):
        await client.ask(commit("g", "orders", {0: number}), 8)
    async with reading_slowly(broker, monkeypatch) as partition:
        yield partition


def loads() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith("load __consumer_offsets")]


@on_broker({**AT_ONCE, "offsets.load.buffer.size": "1"}, both=False)
async def test_a_log_is_deleted_while_it_is_loaded(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a reassignment ends. That it can't be read any more is no failure of the disk."""
    async with loading_slowly(broker, monkeypatch):
        client = await broker.client()
        await client.ask(delete_topics(6, "__consumer_offsets"), 6)
    assert not broker.node.replicas.is_offline
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    await until(lambda: not broker.node.groups.is_loading)
    assert await offset_of(client) == -1


def test_a_log_is_moved_while_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    settings = {
        **AT_ONCE,
        "log.dirs": f"{first},{second}",
        "offsets.load.buffer.size": "1",
        "log.segment.delete.delay.ms": "0",
    }

    async def main() -> None:
        async with running(tmp_path, settings) as broker:
            async with loading_slowly(broker, monkeypatch) as partition:
                source = partition.log
                target = second if source.directory.startswith(first) else first
                client = await broker.client()
                await client.ask(alter_log_dirs(target, ("__consumer_offsets", 0)), 2)
                await until(lambda: partition.log is not source)
                await until(lambda: not Path(source.directory).exists())
            assert len(broker.node.replicas.log_dirs.online) == 2
            await until(lambda: not broker.node.groups.is_loading)
            assert await offset_of(client) == 4

    asyncio.run(main())


@on_broker({**AT_ONCE, "odradek.group.metadata.bytes.max": "200"}, both=False)
async def test_members_have_only_so_much_to_say(broker: RunningBroker) -> None:
    client = await client_of(broker)
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    member_id, _ = await joined(client)
    large = join("other", topics=["x" * 200])
    assert (await client.ask(large, 3)).error_code == full
    names = consumer_heartbeat("new", "m", topics=["y" * 100, "z" * 100])
    assert (await client.ask(names, 1)).error_code == full
    assert (await client.ask(join("g", member_id), 5)).error_code == 0, "small ones may"
    entered = await client.ask(consumer_heartbeat("new", "m", topics=["y" * 150]), 1)
    assert entered.error_code == 0
    assert (await client.ask(join("late", topics=["x" * 20]), 3)).error_code == full
    await client.ask(consumer_heartbeat("new", "m", -1), 1)
    shard = broker.node.groups.shard_of("g")
    assert shard.metadata_bytes == shard.groups["g"].metadata_bytes > 0
    assert (await client.ask(join("late", topics=["x" * 20]), 3)).error_code == 0


@on_broker(AT_ONCE, both=False)
async def test_the_journal_tells_what_happened(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await joined(client)
    group = broker.node.groups.shard_of("g").groups["g"]
    events = [entry.event for entry in group.journal.entries()]
    assert events == ["id-given", "joined", "rebalance", "generation", "assigned"]
    assert all(entry.wall_ms > 0 for entry in group.journal.entries())
