"""What a procedure of the controller wants done, and what it is told of it.

Everything that is written is fenced by the version of /controller_epoch: if that fails, the shell
resigns and closes the procedure at its `yield`.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..partition_state import PartitionState, TopicPartition
from .requests import BrokerRequests


class ControllerMoved(Exception):
    """A later controller has written already: this one has to resign at once."""


class ReplicaAssignment(NamedTuple):
    """The replicas of one partition; during a reassignment the target's followed by the others."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are coming or going."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the reassignment is done."""
        return tuple(r for r in self.replicas if r not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment, not always in their order."""
        return tuple(r for r in self.replicas if r not in self.adding)

    def reassign_to(self, target: Iterable[int]) -> "ReplicaAssignment":
        """On the way to other replicas, from those before a reassignment that goes on already."""
        target = tuple(target)
        replicas = tuple(dict.fromkeys((*target, *self.origin)))
        return ReplicaAssignment(
            replicas,
            tuple(r for r in replicas if r not in self.origin),
            tuple(r for r in replicas if r not in target),
        )

    def without(self, replica: int) -> "ReplicaAssignment":
        """The same with a replica less."""
        return ReplicaAssignment(*(tuple(r for r in replicas if r != replica) for replicas in self))


class StoredState(NamedTuple):
    """A partition's state node. `partition_epoch` is its version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int
    is_recovering: bool = False


class ReadStates(NamedTuple):
    """Read state nodes again. Told: Mapping[TopicPartition, StoredState]; missing ones lack."""

    partitions: Sequence[TopicPartition]


class CreateStates(NamedTuple):
    """Make the nodes of partitions that never had a leader (also their parents).

    Told: Collection[TopicPartition], those that somebody else has made meanwhile.
    """

    states: Sequence[PartitionState]


class WriteStates(NamedTuple):
    """Write state nodes; each has the `partition_epoch` that it gets, one more than is expected.

    Told: Collection[TopicPartition], those that were changed by somebody else and not written.
    """

    states: Sequence[PartitionState]


class ReadUncleanElection(NamedTuple):
    """Whether topics allow it (their config, or the broker's). Told: Mapping[str, bool]."""

    topics: Sequence[str]


class WriteAssignment(NamedTuple):
    """Write a topic's node. Told: None."""

    topic: str
    topic_id: bytes
    partitions: Mapping[int, ReplicaAssignment]


class DeleteTopicNodes(NamedTuple):
    """Delete a topic's node and all below it, its config, and the request to delete it.

    Told: None.
    """

    topic: str


class DropDeletionRequests(NamedTuple):
    """Delete nodes below /admin/delete_topics. Told: None."""

    topics: Sequence[str]


class KeepReassignmentRequests(NamedTuple):
    """Rewrite /admin/reassign_partitions with what is left of it; nothing left: delete it.

    Told: None.
    """

    partitions: Mapping[TopicPartition, tuple[int, ...]]


class Send(NamedTuple):
    """Queue requests, behind all earlier ones of each broker. Told: None, at once.

    Answers come back as procedures of their own: `leader_and_isr_answered` and
    `stop_replica_answered` of `procedures`.
    """

    requests: Sequence[BrokerRequests]


class Breathe(NamedTuple):
    """Let others have a turn of the loop; yielded between slices of long work. Told: None."""


Effect = (
    ReadStates
    | CreateStates
    | WriteStates
    | ReadUncleanElection
    | WriteAssignment
    | DeleteTopicNodes
    | DropDeletionRequests
    | KeepReassignmentRequests
    | Send
    | Breathe
)

T = TypeVar("T")
Procedure = Generator[Effect, Any, T]
"""Yields effects, is sent what each one's docstring says, returns a T."""
