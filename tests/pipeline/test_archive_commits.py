"""An archive whose writer is killed at any step, or overtaken at any step by a second one."""

import itertools
import json
import random
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.manifest import SNAPSHOT, OffsetRange, commit_path, read_commits
from tests.pipeline.disk import (
    Crash,
    Disk,
    Process,
    archive_batch,
    committed,
    compact_all,
    open_writer,
    visible,
)
from tests.pipeline.power import PoweredDisk, PoweredProcess

BATCH = 2
BATCHES = 4
ALL = list(range(BATCH * BATCHES))
SNAPSHOT_EVERY = 2
STEP_LIMIT = 300


@pytest.fixture(autouse=True)
def snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.pipeline.archive_commits.SNAPSHOT_EVERY", SNAPSHOT_EVERY)


Job = Callable[[Process, str], None]


def archive(process: Process, name: str) -> None:
    """Every batch from the beginning, as from a checkpoint that was never written."""
    writer = open_writer(process, name)
    for start in range(0, BATCH * BATCHES, BATCH):
        archive_batch(process, writer, start, start + BATCH)


def compact(process: Process, name: str) -> None:
    compact_all(process, open_writer(process, name))


def markers(process: Process, name: str) -> None:
    """A batch of a topic that held nothing but markers: offsets, and no record."""
    writer = open_writer(process, name)
    if ("m", 0) not in writer.ends:
        writer.commit(writer.stage(), [], [OffsetRange("m", 0, 0, 10)])


def recover(process: Process, name: str) -> None:
    open_writer(process, name)


def full() -> Disk:
    disk = Disk()
    archive(Process(disk), "first")
    return disk


def raises_at(killed: int) -> Callable[[int], None]:
    def before(step: int) -> None:
        if step == killed:
            raise Crash

    return before


def copy(disk: Disk) -> Disk:
    other = Disk()
    other.content.update(disk.content)
    return other


def assert_whole(disk: Disk) -> None:
    assert visible(disk) == ALL
    assert committed(disk) == ALL
    assert not [name for name in disk.content if "/staging/" in name or "/intents/" in name]


def test_nothing_is_left_over() -> None:
    disk = full()
    assert_whole(disk)
    compact(Process(disk), "second")
    assert_whole(disk)
    assert len([name for name in disk.content if name.endswith(".parquet")]) == 1


@pytest.mark.slow
def test_a_kill_at_any_step_of_archiving() -> None:
    for killed in range(STEP_LIMIT):
        disk = Disk()
        try:
            archive(Process(disk, raises_at(killed)), "first")
        except Crash:
            seen = visible(disk)
            assert len(seen) == len(set(seen)), killed
            assert committed(disk) == ALL[: len(committed(disk)) // BATCH * BATCH], killed
            archive(Process(disk), "second")
            assert_whole(disk)
        else:
            assert killed > 50
            return
    pytest.fail("it never ended")


@pytest.mark.slow
def test_a_kill_at_any_step_of_recovery() -> None:
    torn = [torn_at(killed) for killed in range(20, 45)]
    for disk, killed in itertools.product(torn, range(1, 40)):
        again = copy(disk)
        with suppress(Crash):
            archive(Process(again, raises_at(killed)), "second")
        archive(Process(again), "third")
        assert_whole(again)


def torn_at(killed: int) -> Disk:
    disk = Disk()
    with suppress(Crash):
        archive(Process(disk, raises_at(killed)), "first")
    return disk


def test_a_kill_at_any_step_of_a_compaction() -> None:
    before = full()
    for killed in range(STEP_LIMIT):
        disk = copy(before)
        try:
            compact(Process(disk, raises_at(killed)), "second")
        except Crash:
            assert committed(disk) == ALL, killed
            assert set(visible(disk)) == set(ALL), killed
            open_writer(Process(disk), "third")
            assert_whole(disk)
        else:
            assert killed > 20
            return
    pytest.fail("it never ended")


@pytest.mark.slow
def test_a_power_cut_at_any_step_takes_no_commit_back() -> None:
    """What a batch's end promised to Spark's checkpoint is there, whatever no sync has reached."""
    for cut in range(STEP_LIMIT):
        for seed in range(8):
            disk, done = PoweredDisk(), 0
            process = PoweredProcess(disk, raises_at(cut))
            try:
                writer = open_writer(process, "first")
                for start in range(0, BATCH * BATCHES, BATCH):
                    archive_batch(process, writer, start, start + BATCH)
                    done = start + BATCH
            except Crash:
                left = disk.cut(random.Random(seed))
                assert committed(left) in (ALL[:done], ALL[: done + BATCH]), (cut, seed)
                archive(Process(left), "second")
                assert_whole(left)
        if process.steps <= cut:
            assert cut > 50
            return
    pytest.fail("it never ended")


@pytest.mark.slow
def test_a_power_cut_during_a_compaction() -> None:
    for cut in range(STEP_LIMIT):
        for seed in range(8):
            disk = PoweredDisk()
            disk.content.update(full().content)
            process = PoweredProcess(disk, raises_at(cut))
            with suppress(Crash):
                compact(process, "second")
            left = disk.cut(random.Random(seed))
            assert committed(left) == ALL, (cut, seed)
            open_writer(Process(left), "third")
            assert_whole(left)
        if process.steps <= cut:
            assert cut > 20
            return
    pytest.fail("it never ended")


@pytest.mark.slow
@pytest.mark.parametrize("zombie", [archive, compact, markers])
def test_a_second_job_at_any_step_of_the_first(zombie: Job) -> None:
    """The first sleeps at a step while the second does all it wants, then goes on."""
    start = full() if zombie is compact else Disk()
    for asleep in range(STEP_LIMIT):
        disk = copy(start)

        def before(step: int, disk: Disk = disk, asleep: int = asleep) -> None:
            if step == asleep:
                archive(Process(disk), "second")

        process = Process(disk, before)
        with suppress(PipelineError):
            zombie(process, "first")
        if process.steps <= asleep:
            assert asleep > 15
            return
        settled(disk)
    pytest.fail("it never ended")


@pytest.mark.slow
@pytest.mark.parametrize("zombie", [archive, compact, markers])
def test_a_job_that_wakes_at_any_step_of_the_second(zombie: Job) -> None:
    """The first sleeps at a step, and goes on while the second recovers from it."""
    start = full() if zombie is compact else Disk()
    for asleep in range(5, 40):
        for awake in range(asleep % 2, 36, 2):
            disk = copy(start)
            by_turns(disk, zombie, asleep, awake)
            settled(disk)


@pytest.mark.slow
def test_two_that_recover_from_a_third_by_turns() -> None:
    start = next(
        disk
        for disk in map(torn_at, itertools.count())
        if any("/intents/" in name for name in disk.content)
    )
    for asleep in range(3, 25):
        for awake in range(3, 25):
            disk = copy(start)
            by_turns(disk, recover, asleep, awake)
            settled(disk)


def by_turns(disk: Disk, zombie: Job, asleep: int, awake: int) -> None:
    """The zombie up to `asleep`, the second up to `awake`, the rest of the zombie, the second."""
    goes_on = threading.Event()
    sleeps = threading.Event()
    failures: list[BaseException] = []

    def first() -> None:
        def before(step: int) -> None:
            if step == asleep:
                sleeps.set()
                goes_on.wait()

        try:
            with suppress(PipelineError):
                zombie(Process(disk, before), "first")
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)
        sleeps.set()

    def wake(step: int) -> None:
        if step == awake:
            goes_on.set()
            thread.join()

    thread = threading.Thread(target=first)
    thread.start()
    sleeps.wait()
    try:
        archive(Process(disk, wake), "second")
    finally:
        goes_on.set()
        thread.join()
    assert not failures, failures


def settled(disk: Disk) -> None:
    """What a reader may see at once, and what the next start makes of it."""
    assert committed(disk) == ALL
    assert visible(disk) == ALL
    open_writer(Process(disk), "last")
    assert_whole(disk)


def test_the_one_who_has_lost_says_to_whom() -> None:
    disk = Disk()
    first, process = open_writer(Process(disk), "first"), Process(disk)
    open_writer(Process(disk), "second")
    with pytest.raises(PipelineError, match=r"taken over .*host second"):
        archive_batch(process, first, 0, BATCH)
    assert committed(disk) == []


def test_orphans_go_and_strangers_stay() -> None:
    disk = full()
    disk.content["topic=t/date=2026-01-01/0000000009-00000001-first-part-0-x.parquet"] = b"[1]"
    disk.content["topic=t/notes.parquet"] = b"[]"
    open_writer(Process(disk), "second")
    assert_whole(disk)
    assert "topic=t/notes.parquet" in disk.content


def test_an_archive_is_begun_in_an_empty_folder_only() -> None:
    disk = Disk()
    disk.content["topic=t/part-0.parquet"] = b"[1]"
    with pytest.raises(PipelineError, match=r"is no archive and holds topic=t: give an empty"):
        open_writer(Process(disk), "first")


def test_a_start_that_was_killed_before_the_archive_began_is_repeated() -> None:
    disk = Disk()
    disk.content[".odradek-0c9d-.odradek-check-77aa"] = b""
    disk.content["_odradek/.odradek-31fe-archive.json"] = b"{"
    archive(Process(disk), "a")
    assert visible(disk) == committed(disk) == ALL


def test_snapshots_spare_readers_the_commits_before() -> None:
    disk = Disk()
    process = Process(disk)
    writer = open_writer(process, "first")
    for start in range(0, 41 * BATCH, BATCH):
        archive_batch(process, writer, start, start + BATCH)
    reader = Process(disk)
    commits = read_commits(reader)
    assert reader.steps < 10
    assert [commit.number for commit in commits] == [39, 40]
    assert commits[0].ranges == (OffsetRange("t", 0, 0, 40 * BATCH),)
    assert committed(disk) == visible(disk) == list(range(41 * BATCH))
    files = [file for commit in commits for file in commit.files]
    assert all([*range(*file.spans[0])] == json.loads(disk.content[file.path]) for file in files)
    retired = [name for name in disk.content if "/history/" in name and ".snap" not in name]
    assert len(retired) == 38


@pytest.mark.slow
def test_a_snapshot_comes_after_its_commit() -> None:
    assert commit_path(7) < commit_path(7, SNAPSHOT) < commit_path(8)
