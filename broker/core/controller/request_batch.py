"""Collects the requests that one step of the controller sends to brokers.

Source: how Kafka 3.9's controller batches requests. A later entry for the same broker and
partition replaces an earlier one, but `is_new` and `delete` stay once they are set.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ..partition_state import LEADER_IS_DELETED, PartitionState, TopicPartition
from .context import Context
from .effects import Breathe, Procedure, Send
from .requests import (
    LEADER_EPOCH_DELETED,
    LEADER_EPOCH_UNKNOWN,
    BrokerRequests,
    StoppedReplica,
)

SLICE_MAX: Final = 200

T = TypeVar("T")


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split long work into slices; callers yield `Breathe` between them."""
    for start in range(0, len(items), SLICE_MAX):
        yield items[start : start + SLICE_MAX]


class RequestBatch:
    """The requests of one step. Brokers that are not registered get none."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._leader_and_isr: dict[int, dict[TopicPartition, PartitionState]] = {}
        self._stop_replicas: dict[int, dict[TopicPartition, StoppedReplica]] = {}
        self._updated: dict[TopicPartition, None] = {}
        self._update_brokers: set[int] = set()

    def add_leader_and_isr(
        self, broker_ids: Iterable[int], state: PartitionState, *, is_new: bool = False
    ) -> None:
        """Send LeaderAndIsr for a partition to some brokers, and UpdateMetadata to all."""
        key = state.key
        for broker_id in broker_ids:
            states = self._leader_and_isr.setdefault(broker_id, {})
            earlier = states.get(key)
            new = is_new or (earlier is not None and earlier.is_new)
            states[key] = state._replace(is_new=True) if new else state
        self._updated[key] = None
        self._tell_everybody()

    def add_update_metadata(
        self, keys: Iterable[TopicPartition], broker_ids: Collection[int] | None = None
    ) -> None:
        """Send the live brokers and these partitions to some brokers, or (None) to all.

        Partitions that never had a leader are left out.
        """
        if broker_ids is not None:
            self._update_brokers.update(broker_ids)
        else:
            self._tell_everybody()
        self._updated.update(dict.fromkeys(keys))

    def add_stop_replica(self, broker_id: int, key: TopicPartition, *, delete: bool) -> None:
        """Tell a broker to stop its replica and, if `delete`, to delete it."""
        if self._context.is_to_be_deleted(key[0]):
            leader_epoch = LEADER_EPOCH_DELETED
        else:
            state = self._context.states.get(key)
            leader_epoch = LEADER_EPOCH_UNKNOWN if state is None else state.leader_epoch
        stopped = self._stop_replicas.setdefault(broker_id, {})
        earlier = stopped.get(key)
        delete = delete or (earlier is not None and earlier.delete)
        stopped[key] = StoppedReplica(*key, leader_epoch, delete)

    def send(self, *, is_full: bool = False) -> Procedure[None]:
        """Send what was collected, if anything. `is_full`: every partition has been added."""
        metadata: list[PartitionState] = []
        for number, keys in enumerate(slices(list(self._updated))):
            if number:
                yield Breathe()
            metadata += self._metadata(keys)
        told = self._leader_and_isr.keys() | self._update_brokers | self._stop_replicas.keys()
        requests = [
            BrokerRequests(
                broker_id,
                list(self._leader_and_isr.get(broker_id, {}).values()),
                metadata if broker_id in self._update_brokers else None,
                list(self._stop_replicas.get(broker_id, {}).values()),
                is_full,
            )
            for broker_id in sorted(told)
            if broker_id in self._context.brokers
        ]
        if requests:
            yield Send(requests)

    def _tell_everybody(self) -> None:
        if len(self._update_brokers) < len(self._context.brokers):
            self._update_brokers.update(self._context.brokers)

    def _metadata(self, keys: Iterable[TopicPartition]) -> Iterator[PartitionState]:
        context = self._context
        for key in keys:
            state = context.states.get(key)
            if state is None:
                continue  # no leader yet
            online = context.online(key, state.replicas)
            if len(online) < len(state.replicas):
                offline = tuple(r for r in state.replicas if r not in online)
                state = state._replace(offline_replicas=offline)
            if context.is_to_be_deleted(key[0]):
                state = state._replace(
                    leader=LEADER_IS_DELETED, leader_epoch=0, partition_epoch=0, is_recovering=False
                )
            yield state


def send_metadata(
    context: Context,
    keys: Iterable[TopicPartition] = (),
    broker_ids: Collection[int] | None = None,
) -> Procedure[None]:
    """Send UpdateMetadata with the live brokers and these partitions to some brokers, or all."""
    batch = RequestBatch(context)
    batch.add_update_metadata(keys, broker_ids)
    yield from batch.send()


def send_full_metadata(
    context: Context, broker_ids: Collection[int] | None = None
) -> Procedure[None]:
    """Send UpdateMetadata with the live brokers and every partition to some brokers, or all.

    A broker may still know topics that were deleted while it had no session, or that the previous
    controller deleted without telling it; it drops what a full update does not name. Topics that
    are being deleted are named as such; Kafka leaves them out. The update is not full while there
    are topics that it cannot name: those that the controller could not read, and those that have
    no leader yet.
    """
    batch = RequestBatch(context)
    batch.add_update_metadata(list(context.states), broker_ids)
    named = {topic for topic, _ in context.states}
    is_full = context.is_complete and context.assignments.keys() <= named
    yield from batch.send(is_full=is_full)
