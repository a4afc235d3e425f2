"""Reads the state of running brokers for a snapshot."""

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..coordination.embedded import EmbeddedStore
from ..core.partition import Partition
from ..core.partition_state import TopicPartition
from .image import Image, LogMark, Marks

if TYPE_CHECKING:
    from ..server import Broker


async def settled(store: EmbeddedStore, brokers: "Collection[Broker]") -> None:
    """Return once the brokers have carried out everything that was asked of them so far."""
    while True:
        before = store.zxid
        for broker in brokers:
            await broker.node.tasks.finished()
        await store.settled()
        await asyncio.sleep(0)  # the watches are called
        for broker in brokers:
            await broker.node.controller.settled()
        if store.zxid == before:
            return


def image_of(
    store: EmbeddedStore, brokers: "Mapping[int, Broker]", known: Image | None = None
) -> Image:
    """The state of the brokers now; settle them first.

    `known`: an earlier one, whose marks are used again for logs that have not changed.
    """
    marks: Mapping[int, Marks] = {} if known is None else known.marks
    return Image(
        store.data(),
        {number: _marks(broker, marks.get(number, {})) for number, broker in brokers.items()},
    )


def _marks(broker: "Broker", known: Marks) -> dict[TopicPartition, LogMark]:
    marks = {}
    for key, partition in broker.node.replicas.partitions.items():
        mark = known.get(key)
        is_same = mark is not None and _has_not_changed(partition, mark)
        marks[key] = mark if mark is not None and is_same else mark_of(partition)
    return marks


def _has_not_changed(partition: Partition, mark: LogMark) -> bool:
    """What can change without any of these is no record: appending and compaction change one."""
    log = partition.log
    return (
        log.log_end_offset == mark.log_end_offset
        and log.log_start_offset == mark.log_start_offset
        and log.cleaner_offset == mark.cleaner_offset
        and log.topic_id == mark.topic_id
        and len(log.segments) == len(mark.segments)
        and log.segments.active.size_bytes == mark.segments[-1][1]
    )


def mark_of(partition: Partition) -> LogMark:
    """Where a replica's log begins and ends."""
    log = partition.log
    segments = tuple([(each.base_offset, each.size_bytes) for each in log.segments])
    return LogMark(
        log.topic_id,
        log.log_start_offset,
        log.log_end_offset,
        segments,
        len(partition.state.replicas),
        log.cleaner_offset,
    )


def keep_producers(brokers: "Collection[Broker]") -> None:
    """Write a producer snapshot of each log, so that cutting it there need not read all of it.

    Raises: DiskFull, LogDirFailed.
    """
    for broker in brokers:
        for partition in broker.node.replicas.partitions.values():
            log = partition.log
            if log.log_end_offset > log.log_start_offset:
                log.flushing.snapshot(log)
