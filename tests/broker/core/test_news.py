"""What a reader of many partitions hears of, and what a follower's session therefore reads."""

from random import Random

from odradek.broker.core.fetch_session import FetchContext, FetchSessions, PartitionFetch
from odradek.broker.core.fetch_session_slots import LOOK_MS
from odradek.broker.core.news import News
from odradek.broker.core.waiters import Waiters


class Watched:
    """Some partitions, by letters, and who waits for each."""

    def __init__(self) -> None:
        self.waiters: dict[str, Waiters] = {name: Waiters() for name in "abc"}
        self.news: News[str] = News()
        for name, waiters in self.waiters.items():
            self.news.watch(name, self, [waiters])
        self.heard: list[None] = []

    def hear(self) -> None:
        self.heard.append(None)

    def happens(self, *names: str) -> None:
        for name in names:
            self.waiters[name].wake()


def test_news_are_noted_in_their_order_and_go_on_coming() -> None:
    watched = Watched()
    watched.happens("b", "a", "b")
    assert list(watched.news.noted) == ["b", "a"]
    watched.news.put_off("b")
    watched.news.put_off("c")
    assert list(watched.news.noted) == ["a", "b"]
    watched.news.keep("a", to_be_looked_at=False)
    watched.news.keep("c", to_be_looked_at=True)
    assert list(watched.news.noted) == ["b", "c"]
    watched.happens("a")
    assert list(watched.news.noted) == ["b", "c", "a"]


def test_who_listens_is_told_what_came_since_the_look() -> None:
    watched = Watched()
    watched.happens("a")
    watched.news.begin()
    watched.news.listen(watched.hear)
    assert not watched.heard, "that is being looked at"
    watched.happens("b")
    assert len(watched.heard) == 1
    watched.news.listen(watched.hear)
    assert len(watched.heard) == 2, "at once"


def test_another_who_listens_is_not_cut_off() -> None:
    watched, other = Watched(), Watched()
    watched.news.listen(watched.hear)
    watched.news.listen(other.hear)
    watched.news.leave(watched.hear)
    watched.happens("a")
    assert (len(watched.heard), len(other.heard)) == (0, 1)
    watched.news.leave(other.hear)
    watched.happens("a")
    assert len(other.heard) == 1


def test_another_partition_of_the_same_name_is_heard_instead() -> None:
    watched = Watched()
    anew: Waiters = Waiters()
    watched.news.watch("a", anew, [anew])
    assert not watched.waiters["a"]
    anew.wake()
    assert "a" in watched.news.noted
    watched.news.watch("a", anew, [anew])
    assert len(anew) == 1


def test_at_the_end_nothing_is_left_behind() -> None:
    watched = Watched()
    watched.news.forget("a")
    watched.news.forget("unheard of")
    assert [len(waiters) for waiters in watched.waiters.values()] == [0, 1, 1]
    watched.news.end()
    watched.news.watch("a", watched, [watched.waiters["a"]])  # by a Fetch that is still parked
    assert not any(watched.waiters.values())


class Session:
    """Three partitions of a fetcher, and what it asks for next."""

    def __init__(self, *, is_follower: bool = True) -> None:
        self.sessions = FetchSessions(1, partitions_max=10, randint=Random(0).randint)
        self.now_ms = self._epoch = 0
        self._id = 0
        self._id = self.ask("a", "b", "c", is_follower=is_follower).finish(0)

    def ask(self, *names: str, is_follower: bool = True) -> FetchContext:
        fetch = self.sessions.begin(
            self._id,
            self._epoch,
            [PartitionFetch((name, 0), 0, 1) for name in names],
            uses_topic_ids=False,
            is_follower=is_follower,
            now_ms=self.now_ms,
        )
        self._epoch += 1
        return fetch

    def due(self, fetch: FetchContext) -> list[str | bytes]:
        return [partition.topic for partition in fetch.due(self.now_ms)]

    def quieten(self, fetch: FetchContext) -> None:
        """Nothing is new in any of them."""
        assert fetch.news is not None
        for partition in fetch.partitions:
            fetch.news.keep(partition.key, to_be_looked_at=False)


def test_a_follower_reads_what_it_names_and_what_has_news() -> None:
    session = Session()
    first = session.ask()
    assert session.due(first) == ["a", "b", "c"]
    session.quieten(first)
    again = session.ask("b")
    assert again.news is not None
    assert session.due(again) == ["b"]
    again.news.note(("a", 0))
    again.include(again.partitions[1], high_watermark=0, log_start_offset=0, records_size_bytes=1)
    assert session.due(again) == ["a", "b"], "who gave records comes last"


def test_now_and_then_it_reads_all() -> None:
    session = Session()
    first = session.ask()
    session.due(first)
    session.quieten(first)
    session.now_ms = LOOK_MS - 1
    assert session.due(session.ask()) == []
    session.now_ms = LOOK_MS
    assert session.due(session.ask()) == ["a", "b", "c"]


def test_a_consumer_reads_all_of_it() -> None:
    session = Session(is_follower=False)
    for _ in range(2):
        fetch = session.ask(is_follower=False)
        assert fetch.news is None
        assert session.due(fetch) == ["a", "b", "c"]


def test_a_session_that_is_closed_waits_for_nothing() -> None:
    session = Session()
    news = session.ask().news
    assert news is not None
    waiters: Waiters = Waiters()
    news.watch(("a", 0), waiters, [waiters])
    session.sessions.slots.close(session._id)
    assert not waiters
