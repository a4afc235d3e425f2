"""Who leads a partition: the controller's choices, as pure functions.

Source: how Kafka 3.9's controller in ZooKeeper mode brings a new partition online.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from .partition_state import NO_LEADER


class Leadership(NamedTuple):
    """A leader and its in-sync replicas."""

    leader: int
    isr: tuple[int, ...]


def first_leader(replicas: Sequence[int], live: Collection[int]) -> Leadership:
    """Of a new partition: the first live replica; all live ones are in sync, nothing is written.

    Without a live replica there is no leader, and the partition waits for one.
    """
    isr = tuple(replica for replica in replicas if replica in live)
    return Leadership(isr[0] if isr else NO_LEADER, isr)
