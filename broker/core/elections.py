"""Who leads a partition: the controller's choices, as pure functions.

Source: the leader elections of Kafka 3.9's controller in ZooKeeper mode.
"""

from collections.abc import Collection, Sequence
from enum import Enum, IntEnum, auto
from typing import NamedTuple

from .partition_state import NO_LEADER, PartitionState


class ElectionType(IntEnum):
    """Which election ElectLeaders asks for."""

    PREFERRED = 0
    UNCLEAN = 1


class Strategy(Enum):
    """Why a leader is elected, and therefore which replicas are eligible."""

    OFFLINE = auto()
    """The leader is gone; an out-of-sync replica is eligible only where the topic allows it."""
    UNCLEAN = auto()
    """The leader is gone; any replica is eligible."""
    REASSIGN = auto()
    """A reassignment is complete, and its leader is not among the target replicas."""
    PREFERRED = auto()
    SHUTDOWN = auto()
    """The leader's broker is shutting down."""


class Leadership(NamedTuple):
    """A leader and its in-sync replicas."""

    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False
    """The leader was not in sync when it was elected: records may be lost."""


def first_leader(online: Sequence[int]) -> Leadership:
    """The first online replica of a new partition; all online replicas are in sync.

    If no replica is online there is no leader, and the partition waits for one.
    """
    return Leadership(online[0] if online else NO_LEADER, tuple(online))


def leader_if_offline(
    state: PartitionState, online: Collection[int], *, allow_unclean: bool
) -> Leadership | None:
    """The first online in-sync replica, or else (unclean) the first online replica."""
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
    """The first target replica that is online and in sync; the in-sync set stays."""
    for replica in target:
        if replica in online and replica in state.isr:
            return Leadership(replica, state.isr, state.is_recovering)
    return None


def preferred_leader(state: PartitionState, online: Collection[int]) -> Leadership | None:
    """The first replica, if it is online and in sync; the in-sync set stays."""
    return leader_after_reassignment(state, state.replicas[:1], online)


def leader_at_shutdown(
    state: PartitionState, online: Collection[int], shutting_down: Collection[int]
) -> Leadership | None:
    """The first replica that is online, in sync and not shutting down.

    The replicas that are shutting down leave the in-sync set; `online` includes them.
    """
    isr = tuple(r for r in state.isr if r not in shutting_down)
    for replica in state.replicas:
        if replica in online and replica in isr:
            return Leadership(replica, isr, state.is_recovering)
    return None


def lose_replica(state: PartitionState, replica: int) -> Leadership:
    """The state after a replica goes offline.

    If it led, there is no leader. The last in-sync replica stays in the set. A replica in sync that
    a reassignment has removed can't be elected, so it does not count as the last one.
    """
    left = tuple(other for other in state.isr if other != replica)
    leader = NO_LEADER if state.leader == replica else state.leader
    is_electable = any(other in state.replicas for other in left)
    return Leadership(leader, left if is_electable else state.isr, state.is_recovering)
