"""The effects that a controller procedure yields, each with the result that is sent back.

Every write is fenced by the version of /controller_epoch. If the fence fails, the shell resigns and
closes the procedure at its `yield`.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..partition_state import PartitionState, TopicPartition
from .requests import BrokerRequests


class ControllerMoved(Exception):
    """A later controller exists: this one must resign at once."""


def _those_not_in(others: Iterable[int], replicas: Iterable[int]) -> tuple[int, ...]:
    """In their order. A client may name as many as it likes: they are not compared one by one."""
    known = frozenset(others)
    return tuple(replica for replica in replicas if replica not in known)


class ReplicaAssignment(NamedTuple):
    """The replicas of one partition; during a reassignment, target replicas come first."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return _those_not_in(self.removing, self.replicas)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment, not always in their original order."""
        return _those_not_in(self.adding, self.replicas)

    def reassign_to(self, target: Iterable[int]) -> "ReplicaAssignment":
        """Begin a reassignment; one already under way is replaced, and its origin is kept."""
        target, origin = tuple(target), self.origin
        replicas = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(
            replicas, _those_not_in(origin, replicas), _those_not_in(target, replicas)
        )

    def without(self, replica: int) -> "ReplicaAssignment":
        """The same assignment without one replica."""
        return ReplicaAssignment(*(tuple(r for r in replicas if r != replica) for replicas in self))


class StoredState(NamedTuple):
    """A partition's state znode. `partition_epoch` is its version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int
    is_recovering: bool = False


class ReadStates(NamedTuple):
    """Read state znodes. Result: Mapping[TopicPartition, StoredState], without unusable ones."""

    partitions: Sequence[TopicPartition]


class CreateStates(NamedTuple):
    """Create the state znodes of partitions that never had a leader (and their parents).

    Result: Collection[TopicPartition], those not created because a znode was in the way.
    """

    states: Sequence[PartitionState]


class WriteStates(NamedTuple):
    """Write state znodes; each state holds its new `partition_epoch`, one above the expected one.

    Result: Collection[TopicPartition], those not written because their znode has changed.
    """

    states: Sequence[PartitionState]


class ReadUncleanElection(NamedTuple):
    """Read whether topics allow it, by topic or broker config. Result: Mapping[str, bool]."""

    topics: Sequence[str]


class WriteAssignment(NamedTuple):
    """Write a topic's znode. Result: None."""

    topic: str
    topic_id: bytes
    partitions: Mapping[int, ReplicaAssignment]


class DeleteTopicNodes(NamedTuple):
    """Delete a topic's znode with all its children, its config, and the deletion request.

    Result: None.
    """

    topic: str


class DeleteNodes(NamedTuple):
    """Delete the znodes of topics, children first. Result: None."""

    topics: Sequence[str]
    paths: Sequence[str]


class DropDeletionRequests(NamedTuple):
    """Delete znodes below /admin/delete_topics. Result: None."""

    topics: Sequence[str]


class KeepReassignmentRequests(NamedTuple):
    """Rewrite /admin/reassign_partitions with the remaining requests; delete it if none remain.

    Result: None.
    """

    partitions: Mapping[TopicPartition, tuple[int, ...]]


class Send(NamedTuple):
    """Queue requests, behind all earlier ones to the same broker. Result: None, at once.

    Each response starts a procedure of its own: `leader_and_isr_answered` or
    `stop_replica_answered` of `procedures`.
    """

    requests: Sequence[BrokerRequests]


class Breathe(NamedTuple):
    """Let other tasks run; yielded between slices of long work. Result: None."""


Effect = (
    ReadStates
    | CreateStates
    | WriteStates
    | ReadUncleanElection
    | WriteAssignment
    | DeleteTopicNodes
    | DeleteNodes
    | DropDeletionRequests
    | KeepReassignmentRequests
    | Send
    | Breathe
)

T = TypeVar("T")
Procedure = Generator[Effect, Any, T]
"""Yields effects, is sent the result that each effect's docstring names, and returns a T."""
