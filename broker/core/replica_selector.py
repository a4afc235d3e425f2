"""Which replica a consumer should read from (KIP-392).

The leader offers the in-sync replicas that hold the offset; a selector picks one of them, or the
leader.

Source: ReplicaManager.findPreferredReadReplica and RackAwareReplicaSelector of Kafka 3.9.2.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ..settings.replication import RACK_AWARE_SELECTOR
from .partition import Partition


class ReplicaView(NamedTuple):
    """A replica that could be read from."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    lag_ms: int
    """The time since it was last known to have everything that the leader had."""


Selector = Callable[[str, ReplicaView, Sequence[ReplicaView]], ReplicaView]
"""Picks for a client's rack: the leader, or one of its followers."""

Racks = Mapping[int, str | None]
"""The racks of the brokers that the client can reach now."""


def select_in_rack(rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> ReplicaView:
    """A replica in the client's rack: the leader if it is there, else the most caught-up one."""
    near = [follower for follower in followers if follower.rack == rack]
    if not rack or not near or leader.rack == rack:
        return leader
    return max(near, key=_caught_up)


def _caught_up(view: ReplicaView) -> tuple[int, int, int]:
    return view.log_end_offset, -view.lag_ms, view.broker_id


SELECTORS: Final[Mapping[str, Selector]] = {RACK_AWARE_SELECTOR: select_in_rack}
"""The selectors by value of replica.selector.class."""


def preferred_replica(
    partition: Partition, offset: int, selector: Selector, rack: str, racks: Racks, *, now_ms: int
) -> int | None:
    """The follower that a client should read from at `offset`, if there is one."""
    if not partition.is_leader:
        return None
    leader_id, log_end_offset = partition.node_id, partition.log.log_end_offset
    leader = ReplicaView(leader_id, racks.get(leader_id), log_end_offset, 0)
    isr = partition.state.isr
    followers = [
        ReplicaView(
            replica, racks[replica], follower.log_end_offset, now_ms - follower.caught_up_ms
        )
        for replica, follower in partition.followers.items()
        if replica in racks
        and replica in isr
        and follower.log_start_offset <= offset <= follower.log_end_offset
    ]
    chosen = selector(rack, leader, followers)
    return None if chosen is leader else chosen.broker_id
