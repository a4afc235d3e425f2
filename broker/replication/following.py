"""What a fetcher remembers about a partition that it follows."""

from typing import Final

from odradek.protocol.primitives import ZERO_UUID

from ..core.partition import Partition
from ..core.partition_state import TopicPartition

INT32: Final = 1 << 32
REMIND_MS: Final = 60_000


class Following:
    """A partition in one leader epoch; the next epoch gets a new object."""

    __slots__ = (
        "_said",
        "_said_at_ms",
        "delayed_until_ms",
        "is_prepared",
        "key",
        "lag",
        "leader_epoch",
        "partition",
        "refusal_count",
        "topic_id",
    )

    def __init__(self, key: TopicPartition, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.state.leader_epoch
        self.topic_id = partition.state.topic_id
        self.is_prepared = False
        """Whether the log is known to end at an offset where fetching can begin."""
        self.delayed_until_ms = 0
        """After a failure, it is not tried again before this (monotonic) time."""
        self.refusal_count = 0
        """How many times in a row the received batches were refused."""
        self._said = ""
        self._said_at_ms = 0
        self.lag: int | None = None
        """The lag behind the high watermark when records last came; None: none have come yet."""

    @property
    def has_id(self) -> bool:
        """Whether the topic has an id."""
        return self.topic_id != ZERO_UUID

    def note_lag(self, high_watermark: int, *, has_records: bool) -> None:
        """Note that an answer has been applied."""
        if has_records or self.lag is None:
            self.lag = max(0, high_watermark - self.partition.log.log_end_offset)

    def is_news(self, trouble: str, now_ms: int) -> bool:
        """Whether to report a problem: the same one is not reported again for a while."""
        if trouble == self._said and now_ms < self._said_at_ms + REMIND_MS:
            return False
        self._said, self._said_at_ms = trouble, now_ms
        return True

    @property
    def is_current(self) -> bool:
        """Whether the partition still has the role in which it is followed."""
        partition = self.partition
        return not partition.is_leader and partition.state.leader_epoch == self.leader_epoch


def fetcher_index(topic: str, partition: int, fetchers: int) -> int:
    """The index of the connection over which a partition is fetched from its leader.

    Source: getFetcherId of Kafka's AbstractFetcherManager.
    """
    mixed = (31 * java_hash(topic) + partition) % INT32
    if mixed >= INT32 // 2:
        mixed = INT32 - mixed
    return 0 if mixed == INT32 // 2 else mixed % fetchers


def java_hash(text: str) -> int:
    """Java's String.hashCode as an unsigned number: modulo 2^32."""
    hashed = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        hashed = (31 * hashed + unit) % INT32
    return hashed
