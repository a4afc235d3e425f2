"""The procedures of the controller, one for each thing that happens in the cluster.

The shell reads what has changed in the store (and sets its watches again) and hands it to the
procedure; it runs one at a time.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode, Refused

from ..elections import ElectionType
from ..partition_state import PartitionState, TopicPartition
from .context import Context, LiveBroker, TopicNode
from .effects import Procedure, StoredState


class Snapshot(NamedTuple):
    """All that a new controller has read from the store."""

    brokers: Mapping[int, LiveBroker]
    topics: Mapping[str, TopicNode]
    """Every topic has an id; the shell has written those that were missing."""
    states: Mapping[TopicPartition, StoredState]
    deletions: Collection[str]
    reassignments: Mapping[TopicPartition, tuple[int, ...]]
    """Of /admin/reassign_partitions."""
    preferred_elections: Collection[TopicPartition]
    """Of /admin/preferred_replica_election; the shell deletes the node afterwards."""


class IsrChange(NamedTuple):
    """What a leader asks for in AlterPartition."""

    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    is_recovering: bool


Elections = dict[TopicPartition, PartitionState | Refused]


def fail_over(context: Context, snapshot: Snapshot) -> Procedure[None]:
    """Begin as controller: tell everybody, elect where there is no leader, finish what was begun.

    First effect: UpdateMetadata with the live brokers and no partitions, to everyone.
    """
    raise NotImplementedError


def brokers_changed(context: Context, registered: Mapping[int, LiveBroker]) -> Procedure[None]:
    """Brokers have come, gone, bounced (another epoch) or changed their endpoints."""
    raise NotImplementedError


def topics_changed(
    context: Context, topics: Mapping[str, TopicNode], gone: Collection[str]
) -> Procedure[None]:
    """Topics were written (`topics`: only new ones) or removed by somebody."""
    raise NotImplementedError


def topic_changed(context: Context, topic: str, node: TopicNode) -> Procedure[None]:
    """A topic's node was changed by somebody: partitions may have been added."""
    raise NotImplementedError


def deletions_asked(context: Context, topics: Collection[str], *, enabled: bool) -> Procedure[None]:
    """Nodes below /admin/delete_topics; `enabled` is delete.topic.enable."""
    raise NotImplementedError


def log_dirs_failed(context: Context, broker_ids: Collection[int]) -> Procedure[None]:
    """Brokers have lost log directories: their answers to LeaderAndIsr tell which replicas."""
    raise NotImplementedError


def leader_and_isr_answered(
    context: Context, broker_id: int, errors: Mapping[TopicPartition, ErrorCode]
) -> Procedure[None]:
    """A broker has answered; only partitions with KAFKA_STORAGE_ERROR go offline there."""
    raise NotImplementedError


def stop_replica_answered(
    context: Context, broker_id: int, errors: Mapping[TopicPartition, ErrorCode]
) -> Procedure[None]:
    """A broker has answered for replicas that it was to delete (NONE: it is done)."""
    raise NotImplementedError


def reassign(
    context: Context, asked: Mapping[TopicPartition, tuple[int, ...] | None]
) -> Procedure[dict[TopicPartition, Refused | None]]:
    """Begin reassignments, replace them by others, or (None) cancel them."""
    raise NotImplementedError


def elect(
    context: Context, partitions: Iterable[TopicPartition] | None, kind: ElectionType
) -> Procedure[Elections]:
    """Hold elections as ElectLeaders asks for; None: for all partitions."""
    raise NotImplementedError


def rebalance(context: Context, imbalance_percent_max: int) -> Procedure[None]:
    """Give leadership back to preferred replicas where too many partitions are led by others."""
    raise NotImplementedError


def alter_partitions(
    context: Context, broker_id: int, broker_epoch: int, changes: Iterable[IsrChange]
) -> Procedure[dict[TopicPartition, PartitionState | ErrorCode]]:
    """Change in-sync replicas as leaders ask for.  Raises: Refused (STALE_BROKER_EPOCH)."""
    raise NotImplementedError


def shut_down(
    context: Context, broker_id: int, broker_epoch: int
) -> Procedure[list[TopicPartition]]:
    """Take leadership from a broker that wants to stop; what it still leads.

    Raises: Refused (BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH).
    """
    raise NotImplementedError


def isr_changes_noticed(
    context: Context, partitions: Collection[TopicPartition]
) -> Procedure[None]:
    """Somebody else changed in-sync replicas (/isr_change_notification): read and tell all."""
    raise NotImplementedError
