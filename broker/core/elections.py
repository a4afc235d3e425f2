"""Who leads a partition: the controller's choices, as pure functions.

Source: how Kafka 3.9's controller in ZooKeeper mode brings a new partition online, and how it
answers ElectLeaders.
"""

from collections.abc import Collection, Sequence
from enum import Enum, IntEnum, auto
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode, Refused

from .partition_state import NO_LEADER, PartitionState


class ElectionType(IntEnum):
    """Which election ElectLeaders asks for."""

    PREFERRED = 0
    UNCLEAN = 1


class Strategy(Enum):
    """Why a leader is elected, and so who may be it."""

    OFFLINE = auto()
    """The leader is gone; out-of-sync replicas only where the topic allows it."""
    UNCLEAN = auto()
    """The leader is gone; any replica."""
    REASSIGN = auto()
    """A reassignment is done and its leader does not stay."""
    PREFERRED = auto()
    SHUTDOWN = auto()
    """The leader's broker wants to stop."""


class Leadership(NamedTuple):
    """A leader and its in-sync replicas."""

    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False
    """The leader was not in sync when it was elected: records may be lost."""


def first_leader(replicas: Sequence[int], live: Collection[int]) -> Leadership:
    """Of a new partition: the first live replica; all live ones are in sync, nothing is written.

    Without a live replica there is no leader, and the partition waits for one.
    """
    isr = tuple(replica for replica in replicas if replica in live)
    return Leadership(isr[0] if isr else NO_LEADER, isr)


def leader_if_offline(
    state: PartitionState, online: Collection[int], *, allow_unclean: bool
) -> Leadership | None:
    """The first online replica in sync, or else (unclean) the first online one."""
    replicas = [replica for replica in state.replicas if replica in online]
    for replica in replicas:
        if replica in state.isr:
            isr = tuple(r for r in state.isr if r in online)
            return Leadership(replica, isr, state.is_recovering)
    if replicas and allow_unclean:
        return Leadership(replicas[0], (replicas[0],), is_unclean=True)
    return None


def leader_after_reassignment(
    state: PartitionState, target: Sequence[int], online: Collection[int]
) -> Leadership | None:
    """The first of the target replicas that is online and in sync; those in sync stay so."""
    for replica in target:
        if replica in online and replica in state.isr:
            return Leadership(replica, state.isr, state.is_recovering)
    return None


def preferred_leader(state: PartitionState, online: Collection[int]) -> Leadership | None:
    """The first replica, if it is online and in sync; those in sync stay so."""
    return leader_after_reassignment(state, state.replicas[:1], online)


def leader_at_shutdown(
    state: PartitionState, online: Collection[int], shutting_down: Collection[int]
) -> Leadership | None:
    """The first replica that is online, in sync and stays; who goes is in sync no more.

    `online`: those that are shutting down are among them.
    """
    isr = tuple(r for r in state.isr if r not in shutting_down)
    for replica in state.replicas:
        if replica in online and replica in isr:
            return Leadership(replica, isr, state.is_recovering)
    return None


def elect(state: PartitionState | None, kind: ElectionType, live: Collection[int]) -> Leadership:
    """The leader that an election brings; None is a partition that never had one.

    Raises: Refused (ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE).
    """
    if kind == ElectionType.PREFERRED:
        if state is not None:
            return _elect_preferred(state, live)
        raise Refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "no replica has ever led it")
    if state is not None:
        return _elect_any(state, live)
    raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica has ever led it")


def elect_offline(state: PartitionState | None, live: Collection[int]) -> Leadership:
    """The leader of a partition that had none: the first live replica in sync, or still none."""
    assert state is not None
    in_sync = [r for r in state.replicas if r in live and r in state.isr]
    if not in_sync:
        return Leadership(NO_LEADER, state.isr)
    return Leadership(in_sync[0], tuple(r for r in state.isr if r in live))


def lose_replica(state: PartitionState | None, replica: int) -> Leadership:
    """What is left when a replica goes offline: no leader if it led, the last in sync stays so."""
    assert state is not None
    left = tuple(other for other in state.isr if other != replica)
    return Leadership(NO_LEADER if state.leader == replica else state.leader, left or state.isr)


def _elect_preferred(state: PartitionState, live: Collection[int]) -> Leadership:
    """The first replica, if it is alive and in sync; the in-sync replicas stay."""
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "the preferred replica leads already")
    if preferred not in live or preferred not in state.isr:
        raise Refused(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"the preferred replica {preferred} is not alive and in sync",
        )
    return Leadership(preferred, state.isr)


def _elect_any(state: PartitionState, live: Collection[int]) -> Leadership:
    """The first live replica in sync, or else the first live one: but only if there is no leader.

    A live leader stays, also if it was elected uncleanly.
    """
    if state.leader != NO_LEADER and state.leader in live:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "the leader is alive")
    replicas = [replica for replica in state.replicas if replica in live]
    in_sync = [replica for replica in replicas if replica in state.isr]
    if in_sync:
        return Leadership(in_sync[0], tuple(r for r in state.isr if r in live))
    if replicas:
        return Leadership(replicas[0], (replicas[0],), is_unclean=True)
    raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive")
