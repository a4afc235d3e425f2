from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.fetch_session import (
    EPOCH_MAX,
    FetchContext,
    FetchSessions,
    PartitionFetch,
    is_sessionless,
    next_epoch,
)
from odradek.broker.core.waiters import Waiters
from odradek.protocol.errors import ErrorCode

VECTORS = Path(__file__).parents[2] / "vectors" / "fetch_sessions.tsv"
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
Key = tuple[str | bytes, int]


def wants(*keys: Key, offset: int = 0) -> list[PartitionFetch]:
    return [PartitionFetch(key, offset, 1000) for key in keys]


class Fetcher:
    """Sends requests to sessions and answers them from `high_watermarks`."""

    def __init__(self, slots: int = 10, partitions_max: int = 1000, seed: int = 0) -> None:
        self.sessions = FetchSessions(
            slots, partitions_max=partitions_max, randint=Random(seed).randint
        )
        self.high_watermarks: dict[Key, int] = {}
        self.records: set[Key] = set()
        self.now_ms = 0

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[Key] = (),
        forgotten: Sequence[Key] = (),
        *,
        ids: bool = False,
        follower: bool = False,
    ) -> FetchContext:
        return self.sessions.begin(
            session_id,
            epoch,
            wants(*wanted),
            forgotten,
            uses_topic_ids=ids,
            is_follower=follower,
            now_ms=self.now_ms,
        )

    def answer(self, fetch: FetchContext) -> tuple[int, list[Key]]:
        assert not fetch.error
        assert not fetch.superseded
        answered = [
            partition.key
            for partition in fetch.partitions
            if fetch.include(
                partition,
                high_watermark=self.high_watermarks.get(partition.key, 0),
                log_start_offset=0,
                records_size_bytes=100 if partition.key in self.records else 0,
            )
        ]
        return fetch.finish(self.now_ms), answered

    def open(self, *wanted: Key, ids: bool = False, follower: bool = False) -> int:
        session_id, answered = self.answer(self.begin(0, 0, wanted, ids=ids, follower=follower))
        assert answered == list(wanted)
        return session_id


def error_of(fetch: FetchContext) -> ErrorCode:
    assert not fetch.partitions
    assert fetch.session_id == 0
    return fetch.error


def test_a_session_tells_only_news() -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0, A1, B0)
    assert session_id > 0
    fetcher.high_watermarks[A1] = 7
    assert fetcher.answer(fetcher.begin(session_id, 1)) == (session_id, [A1])
    assert fetcher.answer(fetcher.begin(session_id, 2)) == (session_id, [])
    fetcher.records = {B0}
    assert fetcher.answer(fetcher.begin(session_id, 3)) == (session_id, [B0])


def test_sessions_of_followers_that_are_gone_end() -> None:
    fetcher = Fetcher()
    consumer, gone = fetcher.open(A0), fetcher.open(A0, follower=True)
    fetcher.now_ms = 1
    alive = fetcher.open(A0, follower=True)
    sessions = fetcher.sessions.slots
    waiters = Waiters()
    news = sessions.sessions[gone].news
    assert news is not None
    news.watch(A0, sessions, [waiters])
    sessions.end_idle_followers(120_000)
    assert sessions.sessions.keys() == {consumer, gone, alive}
    news.listen(print)
    sessions.end_idle_followers(120_001)
    assert sessions.sessions.keys() == {consumer, gone, alive}, "it waits for an answer"
    news.leave(print)
    sessions.end_idle_followers(120_001)
    assert sessions.sessions.keys() == {consumer, alive}
    assert sessions.partition_count == 2
    assert not waiters, "it would keep what it hears of"
    assert error_of(fetcher.begin(gone, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_log_start_and_other_news_are_told() -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0)

    def include(epoch: int, *, log_start_offset: int, has_news: bool) -> bool:
        fetch = fetcher.begin(session_id, epoch)
        return fetch.include(
            fetch.partitions[0],
            high_watermark=0,
            log_start_offset=log_start_offset,
            records_size_bytes=0,
            has_news=has_news,
        )

    assert include(1, log_start_offset=3, has_news=False)
    assert not include(2, log_start_offset=3, has_news=False)
    assert include(3, log_start_offset=3, has_news=True)
    assert not include(4, log_start_offset=3, has_news=False)


def test_a_partition_is_told_again_when_its_error_goes() -> None:
    fetcher = Fetcher()
    fetcher.high_watermarks[A0] = 5
    session_id = fetcher.open(A0)
    fetch = fetcher.begin(session_id, 1)
    assert fetch.include(
        fetch.partitions[0],
        high_watermark=-1,
        log_start_offset=-1,
        records_size_bytes=0,
        has_news=True,
    )
    assert fetcher.answer(fetcher.begin(session_id, 2)) == (session_id, [A0])


def test_who_asks_in_another_leader_epoch_is_told_all_again() -> None:
    """It may have passed over the last answer, which was about the epoch before."""
    fetcher = Fetcher()
    fetcher.high_watermarks[A0] = 5
    session_id = fetcher.open(A0, A1, follower=True)
    for epoch, leader_epoch, expected in ((1, -1, []), (2, 3, [A0]), (3, 3, [])):
        fetch = fetcher.sessions.begin(
            session_id,
            epoch,
            [PartitionFetch(A0, 0, 1000, leader_epoch)],
            uses_topic_ids=False,
            now_ms=0,
        )
        assert fetcher.answer(fetch) == (session_id, expected)


def test_partitions_are_added_changed_and_forgotten() -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0, A1)
    fetch = fetcher.sessions.begin(
        session_id, 1, wants(A0, B0, offset=9), [A1], uses_topic_ids=False, now_ms=0
    )
    assert [(p.topic, p.partition, p.fetch_offset) for p in fetch.partitions] == [
        ("a", 0, 9),
        ("b", 0, 9),
    ]
    assert fetcher.answer(fetch) == (session_id, [B0])  # new ones are always told
    assert fetcher.sessions.slots.partition_count == 2


def test_what_gave_records_goes_to_the_end() -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0, A1, B0)
    fetcher.records = {A0}
    fetcher.answer(fetcher.begin(session_id, 1))
    assert [p.key for p in fetcher.begin(session_id, 2).partitions] == [A1, B0, A0]


def test_a_session_that_forgets_everything_is_closed() -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0)
    fetch = fetcher.begin(session_id, 1, [], [A0])
    assert fetcher.answer(fetch) == (0, [])
    assert error_of(fetcher.begin(session_id, 2)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetcher.sessions.slots.partition_count == 0


@pytest.mark.parametrize("epoch", [2, 7, -2, -(2**31), 2**31 - 1])
def test_an_unexpected_epoch(epoch: int) -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0)
    fetch = fetcher.begin(session_id, epoch)
    assert error_of(fetch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetcher.answer(fetcher.begin(session_id, 1))[0] == session_id  # it still exists


@pytest.mark.parametrize("session_id", [0, 12345, -1])
def test_an_unknown_session(session_id: int) -> None:
    assert error_of(Fetcher().begin(session_id, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("ids", [False, True])
def test_a_session_cannot_change_between_names_and_ids(ids: bool) -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0, ids=ids)
    fetch = fetcher.begin(session_id, 1, ids=not ids)
    assert error_of(fetch) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert fetcher.answer(fetcher.begin(session_id, 1, ids=ids))[0] == session_id


def test_a_full_request_closes_the_old_session() -> None:
    fetcher = Fetcher()
    first = fetcher.open(A0)
    second, _ = fetcher.answer(fetcher.begin(first, 0, [A1]))
    assert second not in (0, first)
    assert fetcher.answer(fetcher.begin(second, -1, [B0])) == (0, [B0])
    for session_id in (first, second):
        assert error_of(fetcher.begin(session_id, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not fetcher.sessions.slots.sessions


def test_a_parked_request_is_superseded() -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0)
    parked = fetcher.begin(session_id, 1)
    later = fetcher.begin(session_id, 2)
    assert parked.superseded
    assert parked.session_id == session_id
    assert not later.superseded


def test_epochs_wrap_past_zero() -> None:
    fetcher = Fetcher()
    session_id = fetcher.open(A0)
    fetcher.sessions.slots.sessions[session_id].epoch = EPOCH_MAX
    fetcher.answer(fetcher.begin(session_id, EPOCH_MAX))
    fetcher.answer(fetcher.begin(session_id, 1))
    assert (next_epoch(0), next_epoch(EPOCH_MAX)) == (1, 1)


def test_sessionless_requests() -> None:
    assert is_sessionless(0, -1)
    assert not is_sessionless(5, -1)
    assert not is_sessionless(0, 0)
    fetcher = Fetcher(slots=0)
    assert fetcher.open(A0) == 0


def test_a_partition_named_twice_counts_once_as_named_last() -> None:
    fetcher = Fetcher()
    wanted = [PartitionFetch(A0, 1, 10), PartitionFetch(A0, 2, 10)]
    fetch = fetcher.sessions.begin(0, 0, wanted, uses_topic_ids=False, now_ms=0)
    assert [p.fetch_offset for p in fetch.partitions] == [2]


class TestEviction:
    def test_nobody_in_use_makes_room_for_the_equally_worthy(self) -> None:
        fetcher = Fetcher(slots=1)
        session_id = fetcher.open(A0)
        fetcher.now_ms = 120_001
        fetcher.answer(fetcher.begin(session_id, 1))
        assert fetcher.open(A1) == 0
        assert fetcher.sessions.slots.evictions == 0

    def test_the_longest_unused_goes_after_two_minutes(self) -> None:
        fetcher = Fetcher(slots=2)
        used = fetcher.open(A0, A1)
        idle = fetcher.open(A0, A1)
        fetcher.now_ms = 120_000
        fetcher.answer(fetcher.begin(used, 1))
        assert fetcher.open(A0) == 0  # idle for exactly two minutes is not more than that
        fetcher.now_ms = 120_001
        assert fetcher.open(A0) != 0
        assert set(fetcher.sessions.slots.sessions) & {used, idle} == {used}

    def test_the_larger_evicts_an_old_smaller_one(self) -> None:
        fetcher = Fetcher(slots=1)
        session_id = fetcher.open(A0)
        assert fetcher.open(A0, A1) == 0  # too young
        fetcher.now_ms = 120_001
        fetcher.answer(fetcher.begin(session_id, 1))
        assert fetcher.open(A0, A1) != 0
        assert fetcher.sessions.slots.evictions == 1
        assert fetcher.sessions.slots.partition_count == 2

    def test_a_follower_evicts_a_young_consumer_but_no_young_follower(self) -> None:
        fetcher = Fetcher(slots=1)
        fetcher.open(A0, A1, B0)
        assert fetcher.open(A0, follower=True) != 0
        assert fetcher.open(A0, A1, follower=True) == 0
        assert fetcher.open(A0, A1, B0) == 0

    def test_a_decline_is_remembered_for_a_second_or_until_a_slot_is_free(self) -> None:
        fetcher = Fetcher(slots=1)
        session_id = fetcher.open(A0)
        assert fetcher.open(A0) == 0
        assert fetcher.open(A0) == 0
        fetcher.answer(fetcher.begin(session_id, -1))
        assert fetcher.open(A0) != 0


def test_all_sessions_together_hold_a_bounded_number_of_partitions() -> None:
    fetcher = Fetcher(partitions_max=3)
    session_id = fetcher.open(A0, A1)
    assert fetcher.open(A0, A1) == 0
    assert fetcher.open(A0) != 0
    fetch = fetcher.begin(session_id, 1, [A0, B0])
    assert error_of(fetch) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetcher.sessions.slots.partition_count == 1


def test_session_ids_are_not_given_twice() -> None:
    drawn = iter([5, 5, 5, 6])
    sessions = FetchSessions(9, partitions_max=9, randint=lambda low, high: next(drawn))
    ids = [sessions.begin(0, 0, wants(A0), uses_topic_ids=False, now_ms=0).finish(0) for _ in "ab"]
    assert ids == [5, 6]


def test_as_kafka_answers() -> None:
    """160 requests of six fetchers, in Kafka's words: see the head of the vector."""
    lines = [x for x in VECTORS.read_text().splitlines() if not x.startswith("#")]
    fetcher = Fetcher(slots=int(lines[0]), seed=3)
    given_ids: list[int] = []

    def keys(text: str, ids: bool) -> list[Key]:
        pairs = (item.split(":") for item in text.split())
        return [(topic.encode() if ids else topic, int(number)) for topic, number in pairs]

    def text(key: Key) -> str:
        return f"{key[0].decode() if isinstance(key[0], bytes) else key[0]}:{key[1]}"

    for line in lines[1:]:
        column = line.split("\t")
        fetcher.now_ms += int(column[0])
        session_id = given_ids[int(column[1])] if int(column[1]) >= 0 else 0
        ids = column[3] == "1"
        states = dict(item.split("=") for item in column[7].split())
        fetch = fetcher.begin(
            session_id,
            int(column[2]),
            keys(column[5], ids),
            keys(column[6], ids),
            ids=ids,
            follower=column[4] == "1",
        )
        asked, answered = fetch.partitions, []
        for partition in asked:
            high_watermark, log_start, size, error = map(
                int, states[text(partition.key)].split(",")
            )
            if fetch.include(
                partition,
                high_watermark=high_watermark,
                log_start_offset=log_start,
                records_size_bytes=size,
                has_news=error != 0,
            ):
                answered.append(text(partition.key))
        given_ids.append(0 if fetch.error else fetch.finish(fetcher.now_ms))
        kind = "same" if given_ids[-1] == session_id else "new"
        assert column[8:] == [
            str(int(fetch.error)),
            kind if given_ids[-1] else "none",
            " ".join(text(partition.key) for partition in asked),
            " ".join(answered),
            str(len(fetcher.sessions.slots.sessions)),
            str(fetcher.sessions.slots.partition_count),
        ], line


KEYS: list[Key] = [(topic, number) for topic in "ab" for number in range(3)]


@pytest.mark.slow
@given(st.integers(1, 3), st.data())
def test_the_slots_always_add_up(slots: int, data: st.DataObject) -> None:
    fetcher = Fetcher(slots=slots, partitions_max=10)
    known: list[tuple[int, int]] = [(0, 0)]
    for _ in range(data.draw(st.integers(1, 25))):
        fetcher.now_ms += data.draw(st.sampled_from([0, 10, 130_000]))
        session_id, epoch = data.draw(st.sampled_from(known))
        epoch = data.draw(st.sampled_from([epoch, 0, -1]))
        wanted = data.draw(st.lists(st.sampled_from(KEYS), max_size=6))
        forgotten = data.draw(st.lists(st.sampled_from(KEYS), max_size=2))
        fetch = fetcher.begin(
            session_id, epoch, wanted, forgotten, follower=data.draw(st.booleans())
        )
        if not fetch.error:
            session_id, _ = fetcher.answer(fetch)
            known.append((session_id, next_epoch(max(epoch, 0)) if session_id else 0))
        state = fetcher.sessions.slots
        assert len(state.sessions) <= slots
        assert state.partition_count == sum(len(s.partitions) for s in state.sessions.values())
        assert state.partition_count <= 10
        order = [session.used_ms for session in state.sessions.values()]
        assert order == sorted(order)
