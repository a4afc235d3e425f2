"""Throttled replication on this broker: what a leader holds back, what a follower leaves out.

Topics say which replicas are throttled, and the broker's settings say how fast. Both are read on
use, so that a change applies to the next fetch.  In-sync replicas are never slowed, but what they
copy of throttled partitions counts.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.replication_quota import (
    ReplicationQuota,
    follower_is_throttled,
    leader_is_throttled,
)
from ..core.sampled_rate import SampledRate

if TYPE_CHECKING:
    from odradek.protocol.messages.k01_fetch import FetchResponse

    from ..config import Config
    from ..core.fetch_reads import Read
    from ..core.fetch_session import Key
    from ..core.partition import Partition
    from ..runtime import Clock

LENGTH_BYTES = 4
"""The length that precedes every answer."""


class Throttles:
    """The quotas for what is sent to followers, and for what is fetched as a follower."""

    def __init__(self, config: "Config", clock: "Clock") -> None:
        self._clock = clock

        def rate() -> SampledRate:
            window_ms = 1000 * config.replication_quota_window_size_seconds
            return SampledRate(config.replication_quota_window_num, window_ms)

        self._leader = ReplicationQuota(rate(), lambda: config.leader_replication_throttled_rate)
        self._follower = ReplicationQuota(
            rate(), lambda: config.follower_replication_throttled_rate
        )

    # Leading.

    def holding_back(self, replica_id: int) -> "Callable[[Partition], bool]":
        """A function that says whether a partition must be held back from a follower now."""

        def holds_back(partition: "Partition") -> bool:
            return (
                leader_is_throttled(partition)
                and replica_id not in partition.state.isr
                and self._leader.is_exceeded(self._clock.now_ms())
            )

        return holds_back

    def sent(self, reads: "list[Read]", answer: "FetchResponse", version: int) -> None:
        """Count the throttled partitions in an answer to a follower."""
        throttled: set[Key] = {
            read.fetch.key
            for read in reads
            if read.partition is not None and leader_is_throttled(read.partition)
        }
        if throttled:
            size_bytes = _encoded_bytes(answer, throttled, version)
            self._leader.record(size_bytes, self._clock.now_ms())

    # Following.

    def leaves_out(self, partition: "Partition", lag: int | None) -> bool:
        """Whether a partition must be left out of fetches now; `lag` is its known lag."""
        return (
            lag != 0
            and follower_is_throttled(partition)
            and self._follower.is_exceeded(self._clock.now_ms())
        )

    def fetched(self, partition: "Partition", size_bytes: int) -> bool:
        """Count bytes that were fetched of a partition; whether they count."""
        is_throttled = follower_is_throttled(partition)
        if is_throttled:
            self._follower.record(size_bytes, self._clock.now_ms())
        return is_throttled


def _encoded_bytes(answer: "FetchResponse", keys: "set[Key]", version: int) -> int:
    """The size of an answer that contains only these partitions."""
    from odradek.protocol.messages.k01_fetch import FetchableTopicResponse, FetchResponse

    topics = []
    for topic in answer.responses:
        name = topic.topic or topic.topic_id
        chosen = [data for data in topic.partitions if (name, data.partition_index) in keys]
        if chosen:
            topics.append(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=chosen
                )
            )
    alone = FetchResponse(responses=topics).encode(version)
    return LENGTH_BYTES + len(alone) + alone.spliced_bytes
