"""The states of partitions and replicas, and which may follow which.

Source: the state machines of Kafka 3.9's controller in ZooKeeper mode.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class PartitionStatus(Enum):
    """Where a partition is in its life."""

    NON_EXISTENT = auto()
    NEW = auto()
    """It has replicas, and never had a leader."""
    ONLINE = auto()
    OFFLINE = auto()
    """Its leader is gone, or its topic is being deleted."""


class ReplicaStatus(Enum):
    """Where a replica is in its life."""

    NON_EXISTENT = auto()
    NEW = auto()
    ONLINE = auto()
    OFFLINE = auto()
    DELETION_STARTED = auto()
    """Its broker was told to delete it, and has not answered."""
    DELETION_SUCCESSFUL = auto()
    DELETION_INELIGIBLE = auto()
    """It can't be deleted now: its broker or its log directory is offline."""


_P = PartitionStatus
_R = ReplicaStatus

PARTITION_BEFORE: Final[Mapping[PartitionStatus, frozenset[PartitionStatus]]] = {
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
}
"""From which states a partition may come to each."""

REPLICA_BEFORE: Final[Mapping[ReplicaStatus, frozenset[ReplicaStatus]]] = {
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
}
"""From which states a replica may come to each."""
