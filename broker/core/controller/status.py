"""The states of partitions and replicas, and the transitions between them.

Source: the state machines of Kafka 3.9's controller in ZooKeeper mode.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class PartitionStatus(Enum):
    """The state of a partition in the controller's state machine."""

    NON_EXISTENT = auto()
    NEW = auto()
    """The partition has replicas and never had a leader."""
    ONLINE = auto()
    OFFLINE = auto()
    """The leader is gone, or the topic is being deleted."""


class ReplicaStatus(Enum):
    """The state of a replica in the controller's state machine."""

    NON_EXISTENT = auto()
    NEW = auto()
    ONLINE = auto()
    OFFLINE = auto()
    DELETION_STARTED = auto()
    """The broker was told to delete the replica and has not answered."""
    DELETION_SUCCESSFUL = auto()
    DELETION_INELIGIBLE = auto()
    """The replica can't be deleted now: it is offline, or the broker failed to delete it."""


_P = PartitionStatus
_R = ReplicaStatus

PARTITION_BEFORE: Final[Mapping[PartitionStatus, frozenset[PartitionStatus]]] = {
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
}
"""For each state of a partition, the states from which it can be reached."""

REPLICA_BEFORE: Final[Mapping[ReplicaStatus, frozenset[ReplicaStatus]]] = {
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
}
"""For each state of a replica, the states from which it can be reached."""
