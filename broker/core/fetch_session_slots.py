"""What a fetch session remembers, and which sessions keep a slot when there are too few.

When all slots are taken, a new session may evict the least recently used one if that has been idle
for more than two minutes. Otherwise it may evict the least worthy one (consumers before followers,
then by partition count) if that is both less worthy and older than two minutes.  A follower may
evict a consumer's session of any age.  Otherwise the session is declined, and the fetcher continues
with full requests.

Source: KIP-227, and traces of Kafka 3.9.2's session cache.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from .news import News

SESSION_ID_NONE: Final = 0
SESSION_ID_MAX: Final = (1 << 31) - 1
EVICTION_MS: Final = 120_000
DECLINE_MS: Final = 1_000
LOOK_MS: Final = 100
"""How often a follower's whole session is read; in between, only what has news is read."""

Key = tuple[str | bytes, int]
"""Topic (its name, or its id of 16 bytes) and partition."""

Worth = tuple[bool, int, int]


class PartitionFetch:
    """What a fetcher wants of one partition, and what the last answer told it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "quiet",
        "settled_in",
        "told_high_watermark",
        "told_log_start_offset",
    )

    def __init__(
        self,
        key: Key,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        """The last epoch of the fetcher's own log, if it is a follower."""
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.settled_in: object = None
        """The partition's state when it had nothing to return beyond what is recorded here."""
        self.quiet: object = None
        """The read that found no news; it refers back to this object, so it must be released."""

    @property
    def topic(self) -> str | bytes:
        """The topic's name, or its id of 16 bytes."""
        return self.key[0]

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.key[1]


class FetchSession:
    """The partitions of one fetcher, in the order in which to read them."""

    __slots__ = (
        "_look_at_ms",
        "created_ms",
        "epoch",
        "is_follower",
        "news",
        "partitions",
        "session_id",
        "size",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: Sequence[PartitionFetch],
        *,
        uses_topic_ids: bool,
        is_follower: bool,
        epoch: int,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.partitions = {partition.key: partition for partition in partitions}
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.epoch = epoch
        """The epoch of the next request."""
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.size = len(self.partitions)
        """The partition count that the slots have counted for this session."""
        self.news: News[Key] | None = News() if is_follower else None
        """The news of its partitions; those without news are read only now and then."""
        self._look_at_ms = now_ms

    def due(self, now_ms: int) -> list[PartitionFetch]:
        """The partitions to read now, in this order."""
        if self.news is not None:
            self.news.begin()
            if now_ms < self._look_at_ms:
                return [self.partitions[key] for key in self.news.noted]
            self._look_at_ms = now_ms + LOOK_MS
        return list(self.partitions.values())

    def end(self) -> None:
        """Close the session."""
        if self.news is not None:
            self.news.end()
        for partition in self.partitions.values():
            partition.quiet = None

    def update(self, wanted: Iterable[PartitionFetch], forgotten: Iterable[Key]) -> None:
        """Apply a request; a partition that was already known keeps its place.

        A fetcher that uses another leader epoch may have ignored the last answer, so it is sent
        everything again.
        """
        partitions = self.partitions
        for partition in wanted:
            known = partitions.get(partition.key)
            if known is not None:
                known.quiet = None
                if known.current_leader_epoch == partition.current_leader_epoch:
                    partition.told_high_watermark = known.told_high_watermark
                    partition.told_log_start_offset = known.told_log_start_offset
            partitions[partition.key] = partition
            if self.news is not None:
                self.news.keep(partition.key, to_be_looked_at=True)
        for key in forgotten:
            gone = partitions.pop(key, None)
            if gone is not None:
                gone.quiet = None
            if self.news is not None:
                self.news.forget(key)

    def move_to_end(self, partition: PartitionFetch) -> None:
        """Move a partition that had its turn to the end."""
        if len(self.partitions) > 1:
            self.partitions[partition.key] = self.partitions.pop(partition.key)
            if self.news is not None:
                self.news.put_off(partition.key)

    def worth(self) -> Worth:
        """The key by which sessions are compared; the id only makes the order total."""
        return (self.is_follower, self.size, self.session_id)

    def is_evictable(self, *, by_follower: bool) -> bool:
        """Whether a new session may evict it although it is in use."""
        if by_follower and not self.is_follower:
            return True
        return self.used_ms - self.created_ms > EVICTION_MS


class SessionSlots:
    """The existing sessions: at most `slots`, with at most `partitions_max` partitions."""

    __slots__ = (
        "_declined_until_ms",
        "_declined_worth",
        "_partitions_max",
        "_randint",
        "_slots",
        "evictions",
        "partition_count",
        "sessions",
    )

    def __init__(
        self, slots: int, *, partitions_max: int, randint: Callable[[int, int], int]
    ) -> None:
        self.sessions: dict[int, FetchSession] = {}  # least recently used first
        self.partition_count = 0
        self.evictions = 0
        self._slots = slots
        self._partitions_max = partitions_max
        self._randint = randint
        self._declined_until_ms = 0
        self._declined_worth: Worth = (False, -1, 0)

    def open(
        self,
        partitions: Sequence[PartitionFetch],
        *,
        uses_topic_ids: bool,
        is_follower: bool,
        epoch: int,
        now_ms: int,
    ) -> FetchSession | None:
        """A new session, or None if it is declined."""
        worth = (is_follower, len(partitions), SESSION_ID_NONE)
        if self.partition_count + len(partitions) > self._partitions_max:
            return None
        if len(self.sessions) >= self._slots and not self._evict(worth, now_ms):
            return None
        session = FetchSession(
            self._new_id(),
            partitions,
            uses_topic_ids=uses_topic_ids,
            is_follower=is_follower,
            epoch=epoch,
            now_ms=now_ms,
        )
        self.sessions[session.session_id] = session
        self.partition_count += session.size
        return session

    def used(self, session: FetchSession, now_ms: int) -> bool:
        """Note a use and the new size; False if it grew too large and was therefore closed."""
        session.used_ms = now_ms
        sessions = self.sessions
        if len(sessions) > 1:
            sessions[session.session_id] = sessions.pop(session.session_id)
        size = len(session.partitions)
        if size != session.size:
            self.partition_count += size - session.size
            session.size = size
            if self.partition_count > self._partitions_max:
                self.close(session.session_id)
                return False
        return True

    def end_idle_followers(self, now_ms: int) -> None:
        """Close the sessions of followers that are gone: a live follower fetches or waits.

        Such a session is notified about all its partitions, so it would keep them after their
        deletion. In Kafka it stays until its slot is needed.
        """
        for session in list(self.sessions.values()):
            if now_ms - session.used_ms <= EVICTION_MS:
                return  # all that follow were used more recently
            if session.news is not None and not session.news.is_listened_to:
                self.close(session.session_id)

    def close(self, session_id: int) -> None:
        """Forget a session, if it exists."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.end()
            self.partition_count -= session.size
            self._declined_until_ms = 0

    def _new_id(self) -> int:
        while True:
            session_id = self._randint(1, SESSION_ID_MAX)
            if session_id not in self.sessions:
                return session_id

    def _evict(self, worth: Worth, now_ms: int) -> bool:
        longest_unused = next(iter(self.sessions.values()), None)
        if longest_unused is None:
            return False
        if now_ms - longest_unused.used_ms > EVICTION_MS:
            return self._push_out(longest_unused)
        # Searching all sessions is expensive, and a declined fetcher tries again with each request.
        if now_ms < self._declined_until_ms and worth <= self._declined_worth:
            return False
        evictable = [s for s in self.sessions.values() if s.is_evictable(by_follower=worth[0])]
        least_worthy = min(evictable, key=FetchSession.worth, default=None)
        if least_worthy is None or worth < least_worthy.worth():
            self._declined_until_ms = now_ms + DECLINE_MS
            self._declined_worth = worth
            return False
        return self._push_out(least_worthy)

    def _push_out(self, session: FetchSession) -> bool:
        self.close(session.session_id)
        self.evictions += 1
        return True
