"""The in-sync set of one partition, as its leader knows it, and the pending change to it.

    state          means                                   counts for        counts before
                                                           high watermark    an append
    CommittedIsr   what the controller has written         isr               isr
    PendingExpand  a follower is to join                   isr + joining     isr
    PendingShrink  followers are to leave                  isr               isr

With acks=all, min.insync.replicas is checked twice: against the last column before an append, and
against the set that counts for the high watermark when it has passed the records.

The controller's answer to AlterPartition commits a pending state. Otherwise the state is reverted,
or stays until the next LeaderAndIsr (`outcome_of`). Until it is known what the controller has done,
the high watermark must be right for both sets.

Source: PartitionState and handleAlterPartitionError of Kafka 3.9's Partition.
"""

from enum import Enum
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode


class CommittedIsr(NamedTuple):
    """No change is pending."""

    isr: tuple[int, ...]

    @property
    def maximal(self) -> tuple[int, ...]:
        """All replicas that may be in sync, as far as is known."""
        return self.isr


class PendingExpand(NamedTuple):
    """A follower is to join; `isr` is the last committed set."""

    isr: tuple[int, ...]
    joining: int

    @property
    def maximal(self) -> tuple[int, ...]:
        """All replicas that may be in sync, as far as is known."""
        return (*self.isr, self.joining)

    @property
    def proposed(self) -> tuple[int, ...]:
        """The set that the leader requests from the controller."""
        return (*self.isr, self.joining)


class PendingShrink(NamedTuple):
    """Followers are to leave; `isr` is the last committed set."""

    isr: tuple[int, ...]
    leaving: tuple[int, ...]

    @property
    def maximal(self) -> tuple[int, ...]:
        """All replicas that may be in sync, as far as is known."""
        return self.isr

    @property
    def proposed(self) -> tuple[int, ...]:
        """The set that the leader requests from the controller."""
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
        """The proposed set."""
        return self.pending.proposed


class Outcome(Enum):
    """The outcome of a refused proposal."""

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
    """The outcome of an error code for one partition; an unknown code is retried."""
    return _OUTCOMES.get(code, Outcome.RETRY)  # type: ignore[call-overload, no-any-return]
