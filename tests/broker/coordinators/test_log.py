"""Appending what groups are made of: kept at once, later, or not at all."""

import asyncio
import errno
from functools import partial
from pathlib import Path

import pytest

from odradek.broker.coordinators.log import CoordinatorLog
from odradek.broker.core.effects import Producer
from odradek.broker.core.partition import Partition
from odradek.broker.groups.records import GROUP_RECORDS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord, classic
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.storage.errors import DiskFull, StorageError
from tests.broker.faulty_files import FaultyFiles
from tests.broker.running import RunningBroker, on_broker, running
from tests.support.awaiting import turns, until

RECORD = GroupRecord(classic.GroupMetadataKey(group="g"), None)
TWO_BROKERS = (0, 1)


class Watched:
    """A log of groups, and what it has told."""

    def __init__(
        self, broker: RunningBroker, partition: Partition, timeout_ms: int = 5_000
    ) -> None:
        self.told: list[object] = []
        self.failures: list[StorageError] = []
        self.partition = partition
        self.log = CoordinatorLog(
            partition,
            GROUP_RECORDS,
            broker.node.clock,
            commit_timeout_ms=timeout_ms,
            note_failure=self.failures.append,
        )

    def append(self, *records: GroupRecord) -> None:
        self.log.append(records, self.told.append, lambda: self.told.append("appended"))

    def append_of(self, producer: Producer, *records: GroupRecord) -> None:
        appended = partial(self.told.append, "appended")
        self.log.append(records, self.told.append, appended, producer)

    def follow(self) -> None:
        """A follower is in sync by now, and slow."""
        state = self.partition.state
        self.partition.become(state._replace(isr=TWO_BROKERS, replicas=TWO_BROKERS), 0)

    def catch_up(self) -> None:
        """The follower has fetched everything."""
        self.partition.log.high_watermark = self.partition.log.log_end_offset
        self.partition.wake()


async def watched(broker: RunningBroker, **more: int) -> Watched:
    client = await broker.client()
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    partition = next(
        p for p in broker.node.replicas.partitions.values() if p.log.topic == "__consumer_offsets"
    )
    return Watched(broker, partition, **more)


@on_broker(both=False)
async def test_alone_it_is_kept_at_once(broker: RunningBroker) -> None:
    groups = await watched(broker)
    groups.append(RECORD, RECORD)
    assert groups.told == ["appended", ErrorCode.NONE]
    assert groups.partition.log.high_watermark == 2


@on_broker(both=False)
async def test_nothing_to_keep_is_kept(broker: RunningBroker) -> None:
    groups = await watched(broker)
    groups.append()
    assert groups.told == ["appended", ErrorCode.NONE]
    assert groups.partition.log.log_end_offset == 0


@on_broker(both=False)
async def test_with_a_follower_it_waits_for_the_high_watermark(broker: RunningBroker) -> None:
    groups = await watched(broker)
    groups.follow()
    groups.append(RECORD)
    groups.append(RECORD)
    assert groups.told == ["appended", "appended"]
    groups.catch_up()
    assert groups.told == ["appended", "appended", ErrorCode.NONE, ErrorCode.NONE]
    assert not groups.partition.waiters


@on_broker({"min.insync.replicas": "2"}, both=False)
async def test_too_few_replicas_are_in_sync(broker: RunningBroker) -> None:
    """After the append, and then before it."""
    groups = await watched(broker)
    groups.follow()
    groups.append(RECORD)
    state = groups.partition.state
    groups.partition.become(state._replace(isr=(0,), partition_epoch=9), 0)
    assert groups.told == ["appended"], "what is there is not kept as long as it is so"
    groups.catch_up()
    assert groups.told[1:] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    groups.append(RECORD)
    assert groups.told[2:] == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert groups.partition.log.log_end_offset == 1


@on_broker(both=False)
async def test_a_follower_that_does_not_come(broker: RunningBroker) -> None:
    groups = await watched(broker, timeout_ms=20)
    groups.follow()
    groups.append(RECORD)
    await until(lambda: groups.told == ["appended", ErrorCode.REQUEST_TIMED_OUT])
    assert not groups.partition.waiters


@on_broker(both=False)
async def test_leadership_goes_before_the_follower_comes(broker: RunningBroker) -> None:
    groups = await watched(broker)
    groups.follow()
    groups.append(RECORD)
    groups.partition.is_leader = False
    groups.partition.wake()
    assert groups.told == ["appended", ErrorCode.NOT_LEADER_OR_FOLLOWER]
    groups.append(RECORD)
    assert groups.told[2:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@on_broker(both=False)
async def test_an_abandoned_log_calls_nobody(broker: RunningBroker) -> None:
    """A broker that stops: what a callback appends would come after the log is flushed."""
    groups = await watched(broker, timeout_ms=0)
    groups.follow()
    groups.append(RECORD)
    groups.log.abandon()
    groups.catch_up()
    await turns()
    assert groups.told == ["appended"]
    assert not groups.partition.waiters


@pytest.mark.slow
@on_broker(both=False)
async def test_too_much_for_one_batch(broker: RunningBroker) -> None:
    groups = await watched(broker)
    key = classic.OffsetCommitKey(group="g", topic="t", partition=0)
    large = GroupRecord(key, classic.OffsetCommitValue(metadata="x" * 30_000))
    groups.append(*[large] * 50)
    assert groups.told == [ErrorCode.MESSAGE_TOO_LARGE]
    assert groups.partition.log.log_end_offset == 0


@on_broker(both=False)
async def test_what_cannot_be_written(broker: RunningBroker) -> None:
    groups = await watched(broker)
    key = classic.GroupMetadataKey(group="g" * 40_000)
    groups.append(GroupRecord(key, None))
    assert groups.told == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert groups.partition.log.log_end_offset == 0


@on_broker(both=False)
async def test_what_is_appended_by_the_told_is_kept_with_the_others(broker: RunningBroker) -> None:
    groups = await watched(broker)
    groups.follow()
    groups.log.append([RECORD], lambda _code: groups.append(RECORD))
    groups.append(RECORD)
    state = groups.partition.state
    groups.partition.become(state._replace(replicas=(0,), isr=(0,)), 0)  # the follower is given up
    groups.catch_up()
    told = ["appended", ErrorCode.NONE, "appended", ErrorCode.NONE]
    assert groups.told == told, "the second is told by the append that the first one makes"
    assert not groups.partition.waiters


def test_a_full_disk(tmp_path: Path) -> None:
    files = FaultyFiles()

    async def main() -> None:
        async with running(tmp_path, files=files) as broker:
            groups = await watched(broker)
            files.faults = {"append": errno.ENOSPC}
            groups.append(RECORD)
            assert groups.told == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert [type(error) for error in groups.failures] == [DiskFull]
            files.faults = {}
            groups.append(RECORD)
            assert groups.told[1:] == ["appended", ErrorCode.NONE]

    asyncio.run(main())


@on_broker(both=False)
async def test_a_transaction_is_open_in_the_log_from_its_first_batch_on(
    broker: RunningBroker,
) -> None:
    groups = await watched(broker)
    for _ in range(2):
        groups.append_of(Producer(7, 3), RECORD, RECORD)  # sequences are not checked
    assert groups.told == ["appended", ErrorCode.NONE] * 2
    entry = groups.partition.log.producers.entry(7)
    assert entry is not None
    assert (entry.producer_epoch, entry.transaction_first_offset) == (3, 0)
    assert groups.partition.log.last_stable_offset == 0


@on_broker(both=False)
async def test_a_producer_that_was_replaced_appends_nothing(broker: RunningBroker) -> None:
    groups = await watched(broker)
    groups.append_of(Producer(7, 3), RECORD)
    groups.told.clear()
    groups.append_of(Producer(7, 2), RECORD)
    assert groups.told == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert groups.partition.log.log_end_offset == 1
    assert groups.failures == []
    groups.append_of(Producer(7, 4), RECORD)
    assert groups.told[1:] == ["appended", ErrorCode.NONE]


@on_broker(both=False)
async def test_waiting_until_all_of_the_log_is_committed(broker: RunningBroker) -> None:
    groups = await watched(broker)
    await groups.log.committed()
    groups.append(RECORD)
    await groups.log.committed()
    groups.follow()
    groups.append(RECORD)
    waiting = [asyncio.ensure_future(groups.log.committed()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    waiting.pop().cancel()
    groups.catch_up()
    await waiting[0]
    groups.append(RECORD)
    lost = asyncio.ensure_future(groups.log.committed())
    await asyncio.sleep(0)
    groups.log.close()
    await lost
