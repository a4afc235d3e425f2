"""The parts of a copy that need no Spark: plans, paces, places, rounds, progress."""

import itertools
import time
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError
from kafka.producer.record_accumulator import RecordAccumulator

from odradek.pipeline.copy_partition import NEVER_MS, REQUEST_BYTES_MAX, _hold
from odradek.pipeline.copy_task import Lane, Lease, Pace, Record, RecordWriter
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Unreachable
from odradek.pipeline.manifest import OffsetRange
from odradek.pipeline.marks import HEADER
from odradek.pipeline.mirror import Mirror, first_offsets
from odradek.pipeline.placing import Route
from odradek.pipeline.replay_plan import (
    Wanted,
    chunk_size,
    chunks,
    offsets_per_record,
    rates,
    shares,
    spans_of,
)
from odradek.pipeline.times import parse_time

RANGES = [OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 40, 50), OffsetRange("t", 1, 60, 90)]


# -- plans


def test_everything_is_what_the_archive_holds() -> None:
    assert spans_of(RANGES, Wanted()) == {0: (0, 100), 1: (40, 90)}


def test_one_offset_is_for_all_partitions_and_pairs_are_for_some() -> None:
    assert spans_of(RANGES, Wanted("50", "95")) == {0: (50, 95), 1: (50, 90)}
    assert spans_of(RANGES, Wanted("1:45", "0:10")) == {0: (0, 10), 1: (45, 90)}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted("x"), "--starting-offsets 'x' is not understood"),
        (Wanted(None, "0:5,"), "--ending-offsets '0:5,' is not understood"),
        (Wanted("1:39"), "offset 39 of partition 1, of which the archive holds offsets 40 to 90"),
        (Wanted("2:1"), "offset 1 of partition 2, of which the archive holds nothing"),
        (Wanted("0:50", "0:40"), "lie behind"),
    ],
)
def test_what_cannot_be_replayed_is_said(wanted: Wanted, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        spans_of(RANGES, wanted)


def test_chunks_cover_what_is_left_once_and_advance_together() -> None:
    spans = {0: (0, 1000), 1: (500, 1500), 2: (7, 7)}
    plan = list(chunks(spans, {0: 300, 1: 100}, 400))
    cuts = [300, 440, 580, 720, 860, 1000]
    assert [chunk[0] for chunk in plan] == list(itertools.pairwise(cuts))
    assert [plan[0][1], plan[-1][1]] == [(500, 700), (1300, 1500)]
    assert all(2 not in chunk for chunk in plan)
    assert list(chunks(spans, {0: 1000, 1: 1500}, 400)) == []


def test_offsets_without_records_make_no_chunks_of_their_own() -> None:
    assert offsets_per_record(RANGES, 140) == 1.0
    assert offsets_per_record(RANGES, 7) == 20.0
    assert offsets_per_record([OffsetRange("t", 0, 0, 10**15)], 0) == 10**15


def test_tasks_get_about_the_same_and_their_rates_add_up() -> None:
    chunk = {0: (0, 60), 1: (0, 30), 2: (0, 20), 3: (0, 10)}
    tasks = shares(chunk, 2)
    assert tasks == [[0], [1, 2, 3]]
    assert rates(chunk, tasks, 100.0) == {0: 50.0, 1: 50.0, 2: 50.0, 3: 50.0}
    assert rates(chunk, tasks, None) == {}
    assert shares(chunk, 8) == [[0], [1], [2], [3]]


def test_a_slow_rate_makes_small_chunks() -> None:
    assert (chunk_size(None), chunk_size(0.01), chunk_size(100)) == (250_000, 1, 2000)


def test_times_are_numbers_or_iso() -> None:
    assert parse_time("1700000000000", "-t") == 1_700_000_000_000
    assert parse_time("2023-11-14T22:13:20", "-t") == 1_700_000_000_000
    assert parse_time("2023-11-14T23:13:20+01:00", "-t") == 1_700_000_000_000
    with pytest.raises(PipelineError, match="'noon' is no time"):
        parse_time("noon", "-t")
    assert parse_time("-5", "-t") == parse_time("1969-12-31T23:59:59.995Z", "-t") == -5
    assert parse_time("9223372036854775", "-t") == 9_223_372_036_854_775
    with pytest.raises(PipelineError, match=r"-t 1700000000000000000 is more .* nanoseconds\?"):
        parse_time("1700000000000000000", "-t")


# -- pace


def test_a_pace_keeps_the_rate_and_makes_nothing_good() -> None:
    now = [0.0]
    flushed = [0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def flush() -> None:
        flushed[0] += 1

    pace = Pace(100, clock=lambda: now[0], sleep=sleep)
    for _ in range(500):
        pace.wait(flush)
    assert now[0] == pytest.approx(5, abs=0.2)
    assert 30 <= flushed[0] <= 100
    now[0] += 60  # a stall
    for _ in range(100):
        pace.wait(flush)
    assert now[0] == pytest.approx(66, abs=0.3)


# -- places


def test_places_follow_keys_or_source_partitions() -> None:
    route = Route("t", "u", 4, keep_partitions=False)
    keys = [b"a", b"key", b"\xff" * 7]
    assert [route.place(9, key) for key in keys] == [route.place(1, key) for key in keys]
    assert [route.place(p, None) for p in range(6)] == [0, 1, 2, 3, 0, 1]
    kept = Route("t", "u", 4, keep_partitions=True)
    assert kept.place(3, b"a") == 3
    with pytest.raises(PipelineError, match="t has a partition 4, and u has only 4"):
        kept.place(4, b"a")


def test_no_two_copies_into_a_topic_share_a_group() -> None:
    one = Route("a.b", "b", 1, keep_partitions=False)
    other = Route("a", "b", 1, keep_partitions=False, name="b")
    assert one.group != other.group


# -- rounds


class Future:
    """What a send returns."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def get(self, timeout: float) -> None:
        if self.error:
            raise self.error


class Producer:
    """Notes what is sent between two flushes."""

    def __init__(self, refused: bytes | None = None) -> None:
        self.rounds: list[list[tuple[int, Any]]] = [[]]
        self.refused = refused

    def send(
        self, topic: str, value: Any, key: Any, headers: Any, partition: int, timestamp_ms: int
    ) -> Future:
        self.rounds[-1].append((partition, value))
        assert headers[-1][0] == HEADER
        return Future(MessageSizeTooLargeError("too large") if value == self.refused else None)

    def flush(self, timeout: float) -> None:
        self.rounds.append([])


def record(offset: int, value: bytes, partition: int = 0) -> Record:
    return Record("t", partition, offset, 1, None, value, [])


def lane(written: dict[tuple[int, int], int] | None = None, size: int = 10_000) -> Lane:
    return Lane(Route("t", "u", 2, keep_partitions=False), size, written or {})


def test_a_round_has_one_batch_for_each_partition() -> None:
    producer = Producer()
    writer = RecordWriter({"t": lane()}, producer)
    for offset in range(8):
        writer.write(record(offset, b"x" * 3000, partition=offset % 2))
    writer.flush()
    sizes = [[sum(p == 0 for p, _ in r), sum(p == 1 for p, _ in r)] for r in producer.rounds]
    assert sizes == [[3, 3], [1, 1], [0, 0]]


def test_a_large_record_is_a_round_by_itself() -> None:
    producer = Producer()
    writer = RecordWriter({"t": lane()}, producer)
    writer.write(record(0, b"a", partition=1))
    writer.write(record(1, b"x" * 20_000))
    writer.write(record(2, b"b"))
    assert [[len(v) for _, v in r] for r in producer.rounds] == [[1], [20_000], [1]]


def test_what_was_written_is_left_out() -> None:
    producer = Producer()
    writer = RecordWriter({"t": lane({(0, 0): 2})}, producer)
    for offset in range(5):
        writer.write(record(offset, b"v%d" % offset))
    writer.flush()
    assert producer.rounds[0] == [(0, b"v3"), (0, b"v4")]
    tally = writer.tallies["t", 0]
    assert (tally.next_offset, tally.written, tally.skipped) == (5, 2, 3)


def test_what_is_sent_again_is_sent_under_a_lease() -> None:
    looks: list[int] = []

    class SlowProducer(Producer):
        def flush(self, timeout: float) -> None:
            super().flush(timeout)
            if len(self.rounds) < 4:
                raise KafkaTimeoutError("no answer")

    class ShortLease:
        def check(self, topics: Collection[str]) -> None:
            assert topics == {"t"}
            looks.append(len(producer.rounds))
            if len(looks) == 2:
                raise Unreachable("no broker answers")
            if len(looks) == 5:
                raise PipelineError("another job has begun")

    producer = SlowProducer()
    writer = RecordWriter({"t": lane()}, producer, lease=cast(Lease, ShortLease()))
    writer.write(record(0, b"a"))
    writer.flush()
    assert looks == [1, 2, 2, 3]
    writer.write(record(1, b"b"))
    with pytest.raises(PipelineError, match="another job has begun"):
        writer.flush()


@pytest.mark.slow
def test_nothing_is_sent_without_a_lease_not_even_again() -> None:
    here, where = TopicPartition("u", 0), {1}
    cluster = SimpleNamespace(
        leader_for_partition=lambda _: 1, partitions_for_broker=lambda _: [here]
    )
    lease = SimpleNamespace(is_held=True)
    accumulator = RecordAccumulator(
        linger_ms=NEVER_MS, delivery_timeout_ms=2 * NEVER_MS, batch_size=REQUEST_BYTES_MAX
    )
    _hold(accumulator, cast(Lease, lease))
    accumulator.append(here, 1, None, b"x" * (2 << 20), [])
    assert accumulator.ready(cluster)[0] == set()  # it is large, and still its round has no end
    accumulator.begin_flush()
    [batch] = accumulator.drain(cluster, where, REQUEST_BYTES_MAX)[1]
    with pytest.raises(KafkaTimeoutError):
        accumulator.await_flush_completion(timeout=0)
    accumulator.reenqueue(batch)
    later = time.monotonic() + 1  # than the pause behind a failed attempt
    assert accumulator.ready(cluster, now=later)[0] == where  # nobody has to flush
    lease.is_held = False
    assert accumulator.ready(cluster, now=later)[0] == set()


def test_nothing_follows_a_record_that_is_refused() -> None:
    producer = Producer(refused=b"v1")
    writer = RecordWriter({"t": lane()}, producer)
    for offset in range(3):
        writer.write(record(offset, b"v%d" % offset))
    with pytest.raises(PipelineError, match=r"u does not take the record t-0 1: .*too large"):
        writer.flush()


# -- where a mirror goes on


def test_a_mirror_begins_where_asked_and_goes_on_where_it_was() -> None:
    job = Mirror(["t"], starting_offsets="latest")
    assert first_offsets("t", {0: 7}, {0: 5, 1: 5}, {0: 9, 1: 9}, job) == {0: 7, 1: 9}
    assert first_offsets("t", {}, {0: 5}, {0: 9}, Mirror(["t"])) == {0: 5}


def test_what_a_mirror_has_missed_is_said() -> None:
    with pytest.raises(PipelineError, match="the offsets 3 to 4 of t-0 were removed"):
        first_offsets("t", {0: 3}, {0: 5}, {0: 9}, Mirror(["t"]))
    assert first_offsets("t", {0: 3}, {0: 5}, {0: 9}, Mirror(["t"], fail_on_data_loss=False)) == {
        0: 5
    }
    with pytest.raises(PipelineError, match="made anew"):
        first_offsets("t", {0: 10}, {0: 5}, {0: 9}, Mirror(["t"]))
