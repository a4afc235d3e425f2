"""The in-sync set of one partition, as its leader knows it, and the change that is under way.

    state          means                                   counts for        counts before
                                                           high watermark    an append
    CommittedIsr   what the controller has written         isr               isr
    PendingExpand  a follower is to join                   isr + joining     isr
    PendingShrink  followers are to leave                  isr               isr

With acks=all min.insync.replicas are asked for twice: of those in the last column before an append,
of those that count for the high watermark when it has passed the records.

A pending state becomes committed by the controller's answer to AlterPartition, or it goes back, or
it stays until the next LeaderAndIsr (`outcome_of`). Until it is known what the controller has
done, the high watermark must be right for both.

Source: PartitionState and handleAlterPartitionError of Kafka 3.9's Partition.
"""

from enum import Enum
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode


class CommittedIsr(NamedTuple):
    """Nothing is under way."""

    isr: tuple[int, ...]

    @property
    def maximal(self) -> tuple[int, ...]:
        """All that may be in sync as far as anybody knows."""
        return self.isr


class PendingExpand(NamedTuple):
    """A follower is to join; `isr` is what was last committed."""

    isr: tuple[int, ...]
    joining: int

    @property
    def maximal(self) -> tuple[int, ...]:
        """All that may be in sync as far as anybody knows."""
        return (*self.isr, self.joining)

    @property
    def proposed(self) -> tuple[int, ...]:
        """The set that the controller is asked for."""
        return (*self.isr, self.joining)


class PendingShrink(NamedTuple):
    """Followers are to leave; `isr` is what was last committed."""

    isr: tuple[int, ...]
    leaving: tuple[int, ...]

    @property
    def maximal(self) -> tuple[int, ...]:
        """All that may be in sync as far as anybody knows."""
        return self.isr

    @property
    def proposed(self) -> tuple[int, ...]:
        """The set that the controller is asked for."""
        return tuple(replica for replica in self.isr if replica not in self.leaving)


PendingIsr = PendingExpand | PendingShrink
Isr = CommittedIsr | PendingIsr


class Proposal(NamedTuple):
    """An in-sync set that the controller is asked to write, for the epochs the leader knows."""

    pending: PendingIsr
    leader_epoch: int
    partition_epoch: int

    @property
    def isr(self) -> tuple[int, ...]:
        """The set."""
        return self.pending.proposed


class Outcome(Enum):
    """What a refused proposal comes to."""

    REVERT = "back to what was last committed"
    WAIT = "pending until the next LeaderAndIsr"
    RETRY = "proposed again"


_OUTCOMES: Final = {
    ErrorCode.INELIGIBLE_REPLICA: Outcome.REVERT,
    ErrorCode.OPERATION_NOT_ATTEMPTED: Outcome.REVERT,
    ErrorCode.FENCED_LEADER_EPOCH: Outcome.WAIT,
    ErrorCode.INVALID_UPDATE_VERSION: Outcome.WAIT,
    ErrorCode.UNKNOWN_TOPIC_ID: Outcome.WAIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Outcome.WAIT,
    ErrorCode.INVALID_REQUEST: Outcome.WAIT,
    ErrorCode.NEW_LEADER_ELECTED: Outcome.WAIT,
}


def outcome_of(code: int) -> Outcome:
    """What an error code, for one partition, comes to; one that nobody knows is tried again."""
    return _OUTCOMES.get(code, Outcome.RETRY)  # type: ignore[call-overload, no-any-return]
