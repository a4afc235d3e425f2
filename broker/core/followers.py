"""What a leader knows of a follower: its position, and since when it has not been caught up.

A follower fetches from the end of its own log, so each fetch says that it has everything before.
Source: Replica of Kafka 3.9.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .partition import Partition

UNKNOWN: Final = -1
NEVER_MS: Final = -(1 << 62)
GIVEN_MAX: Final = 2
"""How often a follower may get the same records: an answer may be lost, or damaged in transit."""


class FetchingReplica:
    """The broker that a Fetch comes from, and the time; all partitions of the request share it."""

    __slots__ = ("is_alive", "lag_max_ms", "now_ms", "proposed", "replica_id")

    def __init__(self, replica_id: int, *, is_alive: bool, now_ms: int, lag_max_ms: int) -> None:
        """`is_alive`: it may join in-sync sets; `lag_max_ms`: replica.lag.time.max.ms."""
        self.replica_id = replica_id
        self.is_alive = is_alive
        self.now_ms = now_ms
        self.lag_max_ms = lag_max_ms
        self.proposed: list[Partition] = []
        """Partitions for which this fetch has produced a new in-sync set to propose."""


class Follower:
    """The state of one follower, on the partition's leader."""

    __slots__ = (
        "_fetch_end_offset",
        "_fetched_ms",
        "_given_count",
        "_given_offset",
        "caught_up_ms",
        "is_joining",
        "log_end_offset",
        "log_start_offset",
        "told_high_watermark",
    )

    def __init__(self) -> None:
        self._fetch_end_offset = UNKNOWN  # the leader's log end at the last fetch
        self._fetched_ms = NEVER_MS
        self._given_offset = UNKNOWN
        self._given_count = 0
        self.caught_up_ms = NEVER_MS
        """When it was last known to have everything that the leader had."""
        self.is_joining = False
        """It is not in sync yet, but is caught up and will be: the high watermark waits for it."""
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.told_high_watermark = UNKNOWN
        """The high watermark of the last answer."""

    def reset(
        self, *, now_ms: int, leader_end_offset: int, is_new_leader: bool, is_in_sync: bool
    ) -> None:
        """A leader epoch begins: an in-sync follower counts as caught up now."""
        self._given_offset = UNKNOWN
        self.caught_up_ms = now_ms if is_in_sync else NEVER_MS
        self.is_joining = False
        self.told_high_watermark = UNKNOWN
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = self._fetch_end_offset = UNKNOWN
            self._fetched_ms = NEVER_MS
        else:
            self._fetch_end_offset = leader_end_offset
            self._fetched_ms = now_ms if is_in_sync else NEVER_MS

    def fetched(
        self, by: FetchingReplica, offset: int, log_start_offset: int, leader_end_offset: int
    ) -> None:
        """Note that it fetches from `offset`: its log ends there."""
        now_ms = by.now_ms
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif offset >= self._fetch_end_offset and self._fetched_ms > self.caught_up_ms:
            self.caught_up_ms = self._fetched_ms
        if leader_end_offset > self._fetch_end_offset:
            self._fetch_end_offset = leader_end_offset
        self._fetched_ms = now_ms
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset

    def lacks(self, high_watermark: int) -> bool:
        """Whether its own readers could see more if it knew this high watermark."""
        return self.told_high_watermark < min(high_watermark, self.log_end_offset)

    def can_take(self, offset: int) -> bool:
        """Note that it gets records from this offset; False: it got the same ones too often."""
        if offset != self._given_offset:
            self._given_offset, self._given_count = offset, 0
        self._given_count += 1
        return self._given_count <= GIVEN_MAX

    def is_caught_up(self, leader_end_offset: int, *, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it is at the log end, or was recently."""
        at_end = self.log_end_offset == leader_end_offset
        return at_end or now_ms - self.caught_up_ms <= lag_max_ms
