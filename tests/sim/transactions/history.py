"""What the committed log of a coordinator says has happened, and whether that may happen."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.broker.core.effects import Producer
from odradek.broker.core.partition_state import TopicPartition
from odradek.broker.core.transactions.states import AT_REST, TRANSITIONS, TransactionState
from odradek.broker.core.transactions.transaction import Snapshot, snapshot_of
from odradek.protocol.transaction_records import TransactionRecord

STEPS: Final = {(before, after) for (before, _), after in TRANSITIONS.items()}
EPOCH_RISES_IN: Final = (TransactionState.EMPTY, TransactionState.PREPARE_ABORT)
"""And with version 2 in PrepareCommit."""

VERSION_2: Final = 2


class Written(NamedTuple):
    """When a record was appended, and under which coordinator the high watermark passed it."""

    now_ms: int
    coordinator_epoch: int


@dataclass(eq=False)
class Instance:
    """One transaction of a transactional id."""

    begun: Written
    partitions: frozenset[TopicPartition] = frozenset()
    decision: bool | None = None
    """Whether it commits, once that is in the log."""
    producer: Producer | None = None
    """Of the markers, once it is decided."""
    kinds: dict[TopicPartition, set[bool]] = field(default_factory=dict)
    """The markers that partitions have of it."""


class History:
    """The records below the high watermark, of every transactional id."""

    def __init__(self) -> None:
        self.last: dict[str, Snapshot] = {}
        self.instances: dict[str, Instance] = {}
        """The latest of each id."""
        self.all: list[Instance] = []
        self.updated: dict[str, Written] = {}
        self.steps: set[tuple[TransactionState, TransactionState]] = set()

    def take(self, record: TransactionRecord, when: Written) -> None:
        """The high watermark passes a record."""
        key = record.transactional_id
        known = self.last.get(key)
        self.updated[key] = when
        if record.value is None:
            assert known is not None and known.state in AT_REST, known
            self.steps.add((known.state, TransactionState.DEAD))
            del self.last[key]
            return
        new = self.last[key] = snapshot_of(record.value)
        if known is None:
            assert new.state is TransactionState.EMPTY and new.producer_epoch == 0, new
            return
        assert (known.state, new.state) in STEPS, f"{known} is followed by {new}"
        self.steps.add((known.state, new.state))
        before, after = producer_of(known), producer_of(new)
        assert before <= after, f"epochs go back: {known} is followed by {new}"
        changes = before != after
        assert not changes or may_change(known, new), f"{known} is followed by {new}"
        if new.state is TransactionState.ONGOING:
            self._extend(key, known, new, when)
        elif new.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
            if known.state is not TransactionState.ONGOING:  # nothing was added to it
                self._begin(key, when)
            instance = self.instances[key]
            assert new.partitions == instance.partitions
            instance.decision = new.state is TransactionState.PREPARE_COMMIT
            instance.producer = after

    def _extend(self, key: str, known: Snapshot, new: Snapshot, when: Written) -> None:
        if known.state is not TransactionState.ONGOING:
            self._begin(key, when)
        assert self.instances[key].partitions <= new.partitions
        self.instances[key].partitions = new.partitions

    def _begin(self, key: str, when: Written) -> None:
        self.instances[key] = Instance(when)
        self.all.append(self.instances[key])


def may_change(known: Snapshot, new: Snapshot) -> bool:
    """Whether the producer may get another epoch, or id."""
    if new.state is TransactionState.PREPARE_COMMIT:
        return new.client_version >= VERSION_2
    return new.state in EPOCH_RISES_IN or new.producer_id == known.next_producer_id


def producer_of(snapshot: Snapshot) -> Producer:
    """The current producer."""
    return Producer(snapshot.producer_id, snapshot.producer_epoch)
