"""Reads the state of running brokers for a snapshot."""

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..coordination.embedded import EmbeddedStore
from ..core.partition import Partition
from ..core.partition_state import TopicPartition
from .image import Image, LogMark

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


def image_of(store: EmbeddedStore, brokers: "Mapping[int, Broker]") -> Image:
    """The state of the brokers now; settle them first."""
    return Image(store.data(), {number: _marks(broker) for number, broker in brokers.items()})


def _marks(broker: "Broker") -> dict[TopicPartition, LogMark]:
    return {key: mark_of(partition) for key, partition in broker.node.replicas.partitions.items()}


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
