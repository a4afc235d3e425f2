"""Fetch sessions (KIP-227): the broker remembers what a fetcher reads. The fetcher need not
repeat it with every request, and gets no answer about partitions where nothing has happened.

    session id  epoch   the request
    0           0       full: names all its partitions and asks for a session
    s           0       full: the same, and session s is closed
    s           n > 0   incremental: names what is new, changed or forgotten; n counts requests
    0           -1      full, without a session
    s           -1      the same, and session s is closed

An unexpected epoch means that an answer was lost or that two requests crossed: the fetcher gets
INVALID_FETCH_SESSION_EPOCH and starts over.  A fetcher also starts over if its session is gone
(FETCH_SESSION_ID_NOT_FOUND) or if it switches between topic names and topic ids
(FETCH_SESSION_TOPIC_ID_ERROR).

An incremental answer contains the partitions that have records, an error, a diverging epoch, a
preferred replica, or a high watermark or log start that differs from the last answer.  A partition
that returned records moves to the end of the session's order, so that each gets its turn even with
a small limit.

How the Fetch handler uses it:

    if is_sessionless(session_id, epoch): read the request's partitions, answer session id 0
    else:
        fetch = sessions.begin(session_id, epoch, wanted, forgotten, ..., now_ms=...)
        if fetch.error: answer it, with session id 0 and no partition
        read each of fetch.due(now_ms); park the request and read again if need be
        if fetch.superseded: answer INVALID_FETCH_SESSION_EPOCH, with fetch.session_id
        or answer nothing, if the client is throttled: then the session stays as it was
        answer those partitions for which fetch.include(...) is true
        with the session id fetch.finish(now_ms)

Nothing may await between `superseded` and `finish`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from odradek.protocol.errors import ErrorCode

from .fetch_session_slots import SESSION_ID_NONE, FetchSession, Key, PartitionFetch, SessionSlots
from .news import News

__all__ = ["SESSION_ID_NONE", "FetchSessions", "Key", "PartitionFetch", "is_sessionless"]

EPOCH_INITIAL: Final = 0
EPOCH_FINAL: Final = -1
EPOCH_MAX: Final = (1 << 31) - 1


def is_sessionless(session_id: int, epoch: int) -> bool:
    """Whether a request neither uses nor requests nor closes a session, as in versions < 7."""
    return epoch == EPOCH_FINAL and session_id == SESSION_ID_NONE


def next_epoch(epoch: int) -> int:
    """The epoch of the request after this one; only a first request has epoch 0."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


class FetchContext:
    """One Fetch request; this class itself is one without a session."""

    __slots__ = ("_partitions", "error")

    def __init__(self, partitions: list[PartitionFetch], error: ErrorCode = ErrorCode.NONE) -> None:
        self._partitions = partitions
        self.error = error
        """If not NONE, it is the whole answer, with session id 0."""

    @property
    def partitions(self) -> list[PartitionFetch]:
        """All requested partitions, in their current order."""
        return self._partitions

    @property
    def is_empty(self) -> bool:
        """Whether no partition is requested."""
        return not self._partitions

    def due(self, now_ms: int) -> list[PartitionFetch]:
        """The partitions to read now, in this order: all of them, unless it is known which have
        news."""
        return self._partitions

    @property
    def news(self) -> News[Key] | None:
        """The news of a follower's session.

        It watches the partitions that are read, and drops those without news.
        """
        return None

    @property
    def session_id(self) -> int:
        """The session that this request continues, or 0."""
        return SESSION_ID_NONE

    @property
    def superseded(self) -> bool:
        """Whether a later request of the same session has come while this one was parked."""
        return False

    def would_include(
        self,
        partition: PartitionFetch,
        *,
        high_watermark: int,
        log_start_offset: int,
        records_size_bytes: int,
        has_news: bool = False,
    ) -> bool:
        """What `include` will return; asking changes nothing."""
        return True

    def include(
        self,
        partition: PartitionFetch,
        *,
        high_watermark: int,
        log_start_offset: int,
        records_size_bytes: int,
        has_news: bool = False,
    ) -> bool:
        """Whether the answer must contain this partition; call it once for each, in answer order.

        `has_news`: it has an error code, a diverging epoch or a preferred read replica.  With one
        of the first two, pass -1 as the high watermark: the partition is then answered again once
        the error or the divergence is gone.
        """
        return True

    def finish(self, now_ms: int) -> int:
        """The session id of the answer; a full request creates its session here."""
        return SESSION_ID_NONE


class FullFetch(FetchContext):
    """The first request of a new session, which may be declined."""

    __slots__ = ("_is_follower", "_slots", "_uses_topic_ids")

    def __init__(
        self,
        slots: SessionSlots,
        partitions: list[PartitionFetch],
        *,
        uses_topic_ids: bool,
        is_follower: bool,
    ) -> None:
        super().__init__(partitions)
        self._slots = slots
        self._uses_topic_ids = uses_topic_ids
        self._is_follower = is_follower

    def include(
        self,
        partition: PartitionFetch,
        *,
        high_watermark: int,
        log_start_offset: int,
        records_size_bytes: int,
        has_news: bool = False,
    ) -> bool:
        partition.told_high_watermark = high_watermark
        partition.told_log_start_offset = log_start_offset
        return True

    def finish(self, now_ms: int) -> int:
        session = self._slots.open(
            self._partitions,
            uses_topic_ids=self._uses_topic_ids,
            is_follower=self._is_follower,
            epoch=next_epoch(EPOCH_INITIAL),
            now_ms=now_ms,
        )
        return SESSION_ID_NONE if session is None else session.session_id


class IncrementalFetch(FetchContext):
    """A later request of a session."""

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        self.error = ErrorCode.NONE
        self._session = session
        self._epoch = session.epoch

    @property
    def partitions(self) -> list[PartitionFetch]:
        return list(self._session.partitions.values())

    @property
    def is_empty(self) -> bool:
        return False  # an empty answer would close the session

    def due(self, now_ms: int) -> list[PartitionFetch]:
        return self._session.due(now_ms)

    @property
    def news(self) -> News[Key] | None:
        return self._session.news

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def superseded(self) -> bool:
        return self._session.epoch != self._epoch

    def would_include(
        self,
        partition: PartitionFetch,
        *,
        high_watermark: int,
        log_start_offset: int,
        records_size_bytes: int,
        has_news: bool = False,
    ) -> bool:
        return (
            has_news
            or records_size_bytes > 0
            or partition.told_high_watermark != high_watermark
            or partition.told_log_start_offset != log_start_offset
        )

    def include(
        self,
        partition: PartitionFetch,
        *,
        high_watermark: int,
        log_start_offset: int,
        records_size_bytes: int,
        has_news: bool = False,
    ) -> bool:
        answer = has_news
        if records_size_bytes > 0:
            answer = True
            self._session.move_to_end(partition)
        if partition.told_high_watermark != high_watermark:
            partition.told_high_watermark = high_watermark
            answer = True
        if partition.told_log_start_offset != log_start_offset:
            partition.told_log_start_offset = log_start_offset
            answer = True
        return answer

    def finish(self, now_ms: int) -> int:
        return self._session.session_id


class FetchSessions:
    """All fetch sessions of a broker.

    `slots` is max.incremental.fetch.session.cache.slots. `partitions_max` bounds the number of
    partitions in all sessions together, which a peer could otherwise grow without limit.
    `randint(a, b)` draws a whole number, both ends included.
    """

    __slots__ = ("slots",)

    def __init__(
        self, slots: int, *, partitions_max: int, randint: Callable[[int, int], int]
    ) -> None:
        self.slots = SessionSlots(slots, partitions_max=partitions_max, randint=randint)

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[PartitionFetch],
        forgotten: Iterable[Key] = (),
        *,
        uses_topic_ids: bool,
        is_follower: bool = False,
        now_ms: int,
    ) -> FetchContext:
        """Accept a request: its partitions and those it forgets, as (topic, partition).

        The sessions take ownership of the `wanted` objects: pass new ones with every request.
        """
        if epoch in (EPOCH_INITIAL, EPOCH_FINAL):
            self.slots.close(session_id)
            partitions = list({partition.key: partition for partition in wanted}.values())
            if epoch == EPOCH_FINAL:
                return FetchContext(partitions)
            return FullFetch(
                self.slots, partitions, uses_topic_ids=uses_topic_ids, is_follower=is_follower
            )
        session = self.slots.sessions.get(session_id)
        if session is None:
            return FetchContext([], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext([], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids is not uses_topic_ids:
            return FetchContext([], ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(wanted, forgotten)
        if not self.slots.used(session, now_ms):
            return FetchContext([], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self.slots.close(session_id)
            return FetchContext([])
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return IncrementalFetch(session)
