"""How fast replicas may be copied: whether the bound of a sampled rate is exceeded.

Source: ReplicationQuotaManager of Kafka 3.9.2.  A copy of any size is allowed while the rate is at
or below its bound; its size is counted afterwards. So a burst is allowed first, and the average
holds over the samples.
"""

from collections.abc import Callable

from .partition import Partition
from .sampled_rate import SampledRate


class ReplicationQuota:
    """A rate and its bound, which may change at any time; None: there is no bound."""

    __slots__ = ("_bound", "_rate")

    def __init__(self, rate: SampledRate, bound: Callable[[], int | None]) -> None:
        self._rate = rate
        self._bound = bound

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that were copied."""
        self._rate.record(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether nothing more may be copied now."""
        bound = self._bound()
        return bound is not None and self._rate.measure(now_ms) > bound


def leader_is_throttled(partition: Partition) -> bool:
    """Whether what this broker, as the leader, sends of a partition counts against the quota."""
    key = partition.log.partition, partition.node_id
    return key in partition.config.throttled_leaders


def follower_is_throttled(partition: Partition) -> bool:
    """Whether what this broker, as a follower, fetches of a partition counts against the quota."""
    key = partition.log.partition, partition.node_id
    return key in partition.config.throttled_followers
