"""What a copy leaves at its target for the next start, without Spark and without a cluster."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from kafka.errors import CoordinatorLoadInProgressError, NoError, NotCoordinatorError

from odradek.pipeline import copy_progress, writing
from odradek.pipeline.copy_partition import _check_first_attempt
from odradek.pipeline.copy_progress import Progress, ProgressStore, Written
from odradek.pipeline.copy_task import CopyTask, Lane, Lease
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.files import Files
from odradek.pipeline.kafka import Kafka, Unreachable
from odradek.pipeline.manifest import Archive
from odradek.pipeline.mirror import Mirror, check_mirror
from odradek.pipeline.placing import Route
from odradek.pipeline.replay import Replay, _asked
from odradek.pipeline.replay_plan import Wanted
from odradek.pipeline.session import SparkOptions
from odradek.pipeline.writing import Copy, careful

ROUTE = Route("t", "u", 2, keep_partitions=True)
OTHER = Route("v", "w", 2, keep_partitions=True)


class Store(ProgressStore):
    """A target in memory: its progress, and the marks of its topics' partitions."""

    def __init__(self) -> None:
        super().__init__("there:9092")
        self.saved: dict[str, Progress] = {}
        self.marks: dict[int, list[int]] = {0: [], 1: []}
        self.before_save: Callable[[], None] = lambda: None

    @property
    def ends(self) -> dict[int, int]:
        return {partition: len(offsets) for partition, offsets in self.marks.items()}

    def load(self, route: Route) -> Progress | None:
        return self.saved.get(route.group)

    def save(self, route: Route, progress: Progress) -> None:
        before, self.before_save = self.before_save, lambda: None
        before()
        self.saved[route.group] = progress

    def setting(self, topic: str, name: str) -> str:
        return {"message.timestamp.type": "CreateTime"}.get(name, "1000000")

    def earliest(self, topic: str) -> dict[int, int]:
        return self.ends

    def latest(self, topic: str) -> dict[int, int]:
        return self.ends


class Conf(dict[str, str]):
    """A session's conf."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


class Spark(NamedTuple):
    """A session and its context."""

    conf: Conf
    master: str = "local[2]"

    @property
    def sparkContext(self) -> "Spark":
        return self


class Row(NamedTuple):
    """One of RESULT_SCHEMA."""

    topic: str
    partition: int
    next_offset: int
    written: int
    skipped: int = 0
    oldest_ms: int = 0
    error: str | None = None


class Records:
    """A DataFrame of which only the writing matters."""

    task: CopyTask

    def __init__(self, write: Callable[[], list[Row]]) -> None:
        self.collect = write

    def mapInArrow(self, function: Any, schema: str) -> "Records":
        (self.task,) = (cell.cell_contents for cell in function.__closure__)
        return self


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_in_columns", lambda records: records)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still unless a test moves it: who sleeps for a second looks again."""
    now = [100.0]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr(writing, "time", clock)
    return now


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(store: Store, route: Route, begins: Mapping[int, int], claimed_at_s: float) -> Written:
        tails = {p: store.marks[p][begin:] for p, begin in begins.items()}
        return {(p, p): max(tail) for p, tail in tails.items() if tail}

    monkeypatch.setattr(writing, "written_since", read)


def new_copy(store: Store, asked: object = "all") -> Copy:
    copy = Copy(Spark(Conf({writing.ARROW_RECORDS: "10000"})), Kafka("there:9092"), asked=asked)
    copy.store = store
    return copy


def write(copy: Copy, store: Store, rows: list[Row], *, broken: bool = False) -> CopyTask:
    """Have rows written; what the tasks were told."""

    def collect() -> list[Row]:
        for row in rows:
            store.marks[row.partition] += range(row.next_offset - row.written, row.next_offset)
        if broken:
            raise KeyboardInterrupt  # or whatever ends it
        return rows

    records = Records(collect)
    copy.write(records)
    return records.task


def progress_of(store: Store, route: Route) -> Progress:
    found = store.load(route)
    assert found is not None
    return found


def test_a_copy_that_has_ended_is_closed() -> None:
    store = Store()
    copy = new_copy(store)
    copy.open(ROUTE)
    write(copy, store, [Row("t", 0, 7, 7)])
    assert not progress_of(store, ROUTE).closed
    copy.advance("t", {0: 7})
    copy.close()
    found = progress_of(store, ROUTE)
    assert (found.closed, found.begins, found.done) == (True, {0: 7, 1: 0}, {0: 7})


def test_a_chunk_that_was_broken_off_is_not_forgotten_by_a_graceful_end() -> None:
    """A query that is stopped ends its batch in the middle, and the job then as if all was well."""
    store = Store()
    copy = new_copy(store)
    copy.open(ROUTE)
    copy.open(OTHER)
    write(copy, store, [Row("t", 0, 7, 7)])
    copy.advance("t", {0: 7})
    with pytest.raises(KeyboardInterrupt):
        write(copy, store, [Row("t", 0, 12, 5)], broken=True)
    copy.close()
    found = progress_of(store, ROUTE)
    assert (found.closed, found.begins, found.done) == (False, {0: 7, 1: 0}, {0: 7})
    assert not progress_of(store, OTHER).closed


def test_a_topic_without_records_in_a_chunk_is_closed() -> None:
    store = Store()
    copy = new_copy(store)
    copy.open(ROUTE)
    copy.open(OTHER)
    write(copy, store, [Row("t", 0, 7, 7)])
    copy.close()
    assert not progress_of(store, ROUTE).closed
    assert progress_of(store, OTHER).closed


def test_of_two_that_start_together_one_goes_on_behind_the_other() -> None:
    """The first has read the progress, and commits its claim when the second is at work."""
    store = Store()
    first, second = new_copy(store), new_copy(store)

    def meanwhile() -> None:
        second.open(ROUTE)
        write(second, store, [Row("t", 0, 7, 7)])

    store.before_save = meanwhile
    first.open(ROUTE)
    task = write(first, store, [Row("t", 0, 9, 2, skipped=7)])
    assert task.lanes["t"].written == {(0, 0): 6}
    with pytest.raises(PipelineError, match="another job has begun"):
        second.advance("t", {0: 7})
    first.advance("t", {0: 9})
    first.close()
    found = progress_of(store, ROUTE)
    assert (found.closed, found.begins, found.done) == (True, {0: 9, 1: 0}, {0: 9})


def test_a_job_that_was_asleep_between_look_and_commit_looks_again(now: list[float]) -> None:
    """Meanwhile another one has claimed the copy and written; the commit takes it back."""
    store = Store()
    sleeper, other = new_copy(store), new_copy(store)
    sleeper.open(ROUTE)
    write(sleeper, store, [Row("t", 0, 7, 7)])

    def asleep() -> None:
        now[0] += 5
        other.open(ROUTE)
        write(other, store, [Row("t", 0, 10, 3, skipped=7)])

    store.before_save = asleep
    sleeper.advance("t", {0: 7})
    task = write(sleeper, store, [Row("t", 0, 12, 2, skipped=3)])
    assert task.lanes["t"].written == {(0, 0): 9}
    with pytest.raises(PipelineError, match="another job has begun"):
        other.advance("t", {0: 10})


def test_a_restart_does_not_count_what_others_were_still_writing() -> None:
    store = Store()
    old, new = new_copy(store), new_copy(store)
    old.open(ROUTE)
    write(old, store, [Row("t", 0, 7, 7)])
    new.open(ROUTE, restart=True)
    store.marks[0] += [7, 8]
    task = write(new, store, [])
    assert task.lanes["t"].written == {}
    assert progress_of(store, ROUTE).begins == {0: 9, 1: 0}


class SlowReader:
    """Takes 5 s to read what was there at its beginning; a record comes at 101 s."""

    def __init__(self, now: list[float]) -> None:
        self.written: Written = {}
        self._now = now

    def __enter__(self) -> "SlowReader":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def seek(self, begins: Mapping[int, int]) -> None:
        """Anywhere."""

    def read_to_end(self) -> int:
        is_new = self._now[0] >= 101 and not self.written
        if is_new:
            self.written[0, 0] = 7
        self._now[0] += 5
        return int(is_new)


def test_what_comes_while_a_broken_chunk_is_read_is_read_too(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    """The reading alone takes longer than a replaced job goes on writing."""
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None)
    monkeypatch.setattr(copy_progress, "time", clock)
    monkeypatch.setattr(copy_progress, "_Reader", lambda *_: SlowReader(now))
    assert copy_progress.written_since(Store(), ROUTE, {0: 0, 1: 0}, now[0]) == {(0, 0): 7}


def test_a_restart_that_was_asleep_while_it_settled_looks_again(now: list[float]) -> None:
    store = Store()
    old, new, other = new_copy(store), new_copy(store), new_copy(store)
    old.open(ROUTE)
    new.open(ROUTE, restart=True)
    store.marks[0] += [0, 1]

    def asleep() -> None:
        now[0] += 5
        other.open(ROUTE)
        write(other, store, [Row("t", 0, 5, 3, skipped=2)])

    store.before_save = asleep
    task = write(new, store, [])
    assert task.lanes["t"].written == {(0, 0): 4}


def test_a_start_without_anything_to_do_leaves_all_as_it_was() -> None:
    store = Store()
    broken = new_copy(store)
    broken.open(ROUTE)
    for closed in (False, True):
        idle = new_copy(store)
        idle.open(ROUTE)
        idle.close()
        assert progress_of(store, ROUTE).closed == closed
        store.saved[ROUTE.group] = replace(progress_of(store, ROUTE), closed=True)


def test_a_task_that_is_tried_again_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = SimpleNamespace(attemptNumber=lambda: 1)
    pyspark = SimpleNamespace(TaskContext=SimpleNamespace(get=lambda: attempt))
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    with pytest.raises(PipelineError, match="was lost with its executor, and is not tried again"):
        _check_first_attempt()
    attempt.attemptNumber = lambda: 0
    _check_first_attempt()


def test_what_was_asked_for_and_the_target_must_be_as_before() -> None:
    store = Store()
    first = new_copy(store, {"from": "a"})
    first.open(ROUTE)
    write(first, store, [Row("t", 0, 7, 7), Row("t", 1, 3, 3)])
    first.advance("t", {0: 7, 1: 3})
    first.close()
    with pytest.raises(PipelineError, match="was asked for something else"):
        new_copy(store, {"from": "b"}).open(ROUTE)
    del store.marks[1]
    with pytest.raises(PipelineError, match="u ends before what was copied into it"):
        new_copy(store, {"from": "a"}).open(ROUTE)


def test_a_source_that_was_made_anew_is_not_gone_on_with() -> None:
    store = Store()
    for source_id in ("one", "one", None):
        copy = new_copy(store)
        copy.open(ROUTE, source_id=source_id)
        copy.close()
    with pytest.raises(PipelineError, match=r"t was made anew .* was one and is two\)"):
        new_copy(store).open(ROUTE, source_id="two")
    new_copy(store).open(ROUTE, source_id="two", restart=True)
    assert progress_of(store, ROUTE).source_id == "two"


def test_a_target_that_is_not_ready_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a coordinator is that reads its log after a restart."""
    now = [0.0]

    class Admin:
        asked = 0

        def list_group_offsets(self, groups: object) -> dict[str, Any]:
            self.asked += 1
            if self.asked < 4 or now[0] > 100:
                raise CoordinatorLoadInProgressError("loading")
            return {}

        def alter_group_offsets(self, group: str, wanted: dict[Any, Any]) -> dict[Any, Any]:
            self.asked += 1
            return dict.fromkeys(wanted, NoError if self.asked > 2 else NotCoordinatorError)

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 1)

    monkeypatch.setattr("odradek.pipeline.copy_progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr("odradek.pipeline.copy_progress.time.sleep", sleep)
    store = ProgressStore("there:9092")
    store._admin = Admin()
    assert store.load(ROUTE) is None
    assert (store._admin.asked, now) == (4, [3.0])
    store._admin.asked = 0
    store.save(ROUTE, Progress("asked", "owner", {0: 0}))
    assert (store._admin.asked, now) == (3, [5.0])
    now[0] = 101.0
    with pytest.raises(Unreachable, match="loading"):
        store.load(ROUTE)
    assert now[0] > 400


@pytest.mark.slow
def test_a_target_that_has_gone_is_named_by_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.pipeline.kafka.CONNECT_TIMEOUT_MS", 100)
    monkeypatch.setattr("odradek.pipeline.copy_progress.AWAY_S_MAX", 0.0)
    target = Kafka("127.0.0.1:1", option="--to")
    copy = Copy(Spark(Conf({writing.ARROW_RECORDS: "10000"})), target, asked="all")
    with pytest.raises(Unreachable, match=r"no broker answers at .* check --to, and"):
        copy.store.load(ROUTE)
    records = Records(list)
    copy.write(cast(Any, records))
    told = replace(records.task, lanes={"t": Lane(ROUTE, 1 << 20)})
    with pytest.raises(Unreachable, match=r"no broker answers at .* check --to, and"):
        Lease(told).check({"t"})


@pytest.mark.parametrize("yes", ["true", "True"])
def test_tasks_that_could_run_twice_are_refused(yes: str) -> None:
    conf = Conf({writing.ARROW_RECORDS: "10000", "spark.speculation": yes})
    with pytest.raises(PipelineError, match=r"--conf spark\.speculation=false"):
        Copy(Spark(conf), Kafka("there:9092"), asked="all")


@pytest.mark.parametrize("master", ["spark://there:7077", "yarn", "local-cluster[2,1,1024]"])
def test_a_stage_that_could_run_twice_is_refused(master: str) -> None:
    def begin(conf: Mapping[str, str]) -> None:
        Copy(Spark(Conf(conf), master), Kafka("there:9092"), asked="all")

    with pytest.raises(PipelineError, match=r"--conf spark\.stage\.maxConsecutiveAttempts=1"):
        begin({writing.ARROW_RECORDS: "10000"})
    begin({writing.ARROW_RECORDS: "10000", **careful(SparkOptions()).conf})
    told = SparkOptions(conf={writing.STAGE_ATTEMPTS: "4"})
    assert careful(told).conf == told.conf


def test_more_of_an_archive_is_the_same_question_and_another_archive_is_not() -> None:
    def asked(uri: str, job: Replay) -> object:
        return _asked(job, Archive(cast(Files, SimpleNamespace(uri=uri))))

    some = Replay("t", "u", Wanted(starting_offsets="5", ending_offsets="10"))
    more = replace(some, wanted=replace(some.wanted, ending_offsets="20"))
    assert asked("file:/a", some) == asked("file:/a", more)
    assert asked("file:/a", some) != asked("file:/b", some)
    assert asked("file:/a", some) != asked("file:/a", Replay("t", "u"))


class Cluster(Kafka):
    """A cluster that has nothing but an id."""

    def cluster_id(self) -> str:
        return self.bootstrap_servers.partition(":")[0]


def test_a_mirror_in_one_cluster_makes_no_copies_of_copies() -> None:
    here, also_here, there = Cluster("one:1"), Cluster("one:2"), Cluster("two:1")
    twice = Mirror(["copy.t", "t"], prefix="copy.")
    assert check_mirror(here, there, twice) == "one"
    assert check_mirror(here, also_here, Mirror(["t"], prefix="copy.")) == "one"
    with pytest.raises(PipelineError, match=r"copy\.t would be copied, too"):
        check_mirror(here, also_here, twice)
    with pytest.raises(PipelineError, match="cannot be copied into themselves"):
        check_mirror(here, also_here, Mirror(["t"]))
