"""New segments take the place of old ones: readers notice nothing, and a crash neither."""

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.records import (
    MarkerType,
    Record,
    build_batch,
    control_batch,
    iter_batches,
    iter_records,
)
from odradek.storage.errors import CorruptLog, DiskFull
from odradek.storage.jobs import run_job
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.txn_index import decode_aborted
from odradek.storage.log.walk import walk_headers
from odradek.storage.recovery.load import LoadHints, load_log
from odradek.storage.upkeep.cleanable import cleanable
from odradek.storage.upkeep.swap import Swap, complete_swaps, remove_cleaned
from tests.seeds import seeds

from ..crash.disk import Fate, RecordingFiles, Sync, crash, kept, lost, mangled
from ..support import (
    WALL_MS,
    UnsyncedFileSystem,
    append,
    clean_hints,
    files_of,
    flush,
    new_log,
    reload,
)

CONFIG: Final = LogConfig(segment_bytes=600, index_interval_bytes=100, compacts=True)
KEYS: Final = 5
Contents = list[tuple[int, bytes | None, bytes | None]]


def records_of(log: Log, offset: int | None = None) -> Contents:
    """(offset, key, value) of every record from an offset on, as a consumer reads them."""
    found: Contents = []
    offset = log.log_start_offset if offset is None else offset
    while offset < log.log_end_offset:
        span = log.read(offset, size_bytes_max=500, offset_end=log.log_end_offset)
        assert span is not None, f"nothing at {offset} of {log}"
        data = memoryview(span.read())
        span.release()
        for position, header in iter_batches(data):
            offset_next = header.next_offset
            if header.is_control:
                continue
            for record in iter_records(data[position:], header, size_bytes_max=1 << 20):
                if record.offset >= offset:
                    key, value = record.key, record.value
                    found.append(
                        (
                            record.offset,
                            None if key is None else bytes(key),
                            None if value is None else bytes(value),
                        )
                    )
        assert offset_next > offset
        offset = offset_next
    return found


def newest(records: Contents) -> dict[bytes | None, bytes | None]:
    """The value of each key, without aborted records."""
    return {key: value for _, key, value in records if key != b"aborted"}


def fill(log: Log, chance: random.Random, batches: int = 40) -> None:
    """Batches with few keys, and transactions of which some are aborted."""
    producer = log.producers.entry(7)
    sequence = 0 if producer is None else producer.last_sequence + 1
    for _ in range(batches):
        count = chance.randint(1, 4)
        keys = [b"k%d" % chance.randrange(KEYS) for _ in range(count)]
        kind = chance.choice((None, None, MarkerType.COMMIT, MarkerType.ABORT))
        if kind is None:
            append(log, memoryview(build_batch(records_with(log, keys))))
            continue
        if kind == MarkerType.ABORT:
            keys = [b"aborted"] * count
        batch = build_batch(
            records_with(log, keys),
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        sequence += count
        append(log, memoryview(batch))
        marker = control_batch(
            kind, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=WALL_MS
        )
        append(log, memoryview(marker))
    log.roll(log.log_end_offset, WALL_MS)
    append(log, memoryview(build_batch(records_with(log, [b"last"]))))
    log.high_watermark = log.log_end_offset
    flush(log)


def records_with(log: Log, keys: Sequence[bytes]) -> list[Record]:
    """A record for each key, whose value is its offset."""
    offset = log.log_end_offset
    return [Record(i, WALL_MS, key, b"v%d" % (offset + i)) for i, key in enumerate(keys)]


def clean(log: Log, wall_ms: int = WALL_MS) -> dict[str, Any]:
    """Run the job; its files lie beside the log's."""
    found = cleanable(log, wall_ms)
    return run_job(
        "clean",
        {
            "directory": log.directory,
            "segments": [
                {"base_offset": s.base_offset, "size_bytes": s.size_bytes, "next_offset": end}
                for s, end in found.segments()
            ],
            "first_dirty_offset": found.first_dirty_offset,
            "end_offset": found.end_offset,
            "wall_ms": wall_ms,
            "delete_retention_ms": 0,
            "segment_bytes": 2500,
            "segment_index_bytes": 1 << 20,
            "index_interval_bytes": 100,
            "record_bytes_max": 1 << 20,
            "map_bytes": 1 << 20,
            "load_factor": 0.9,
            "io_buffer_bytes": 1 << 16,
            "producers": found.producers(),
        },
        log.files,
        lambda _: None,
    )


def swaps(log: Log, result: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """The steps, in order."""
    for segment in result["segments"]:
        swap = Swap(log, segment["base_offset"], segment["replaces"])
        yield swap.begin
        assert swap.can_switch()
        yield swap.switch
        yield swap.retire
        yield swap.settle
        yield swap.sync


def swap_all(log: Log, result: dict[str, Any]) -> None:
    for step in swaps(log, result):
        step()


def filled(path: Path) -> Log:
    log = new_log(path, CONFIG)
    fill(log, random.Random(1))
    return log


def test_a_reader_notices_nothing_at_any_step(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before = records_of(log)
    result = clean(log)
    assert len(result["segments"]) > 2
    assert records_of(log) == before
    span = log.read(0, size_bytes_max=1 << 20, offset_end=log.log_end_offset)
    assert span is not None
    data = span.read()
    for step in swaps(log, result):
        step()
        for offset in (0, before[len(before) // 2][0], log.log_end_offset - 1):
            found = records_of(log, offset)
            assert set(found) <= set(before)
            assert newest(found).items() <= newest(before).items()
            assert found[-1] == before[-1]
    assert span.read() == data
    span.release()
    after = records_of(log)
    assert newest(after) == newest(before)
    assert len(after) < len(before) / 3
    assert not [n for n in files_of(log.directory) if n.endswith((".swap", ".cleaned"))]


@pytest.mark.parametrize("clean_stop", [False, True])
def test_what_was_swapped_is_loaded(tmp_path: Path, clean_stop: bool) -> None:
    log = filled(tmp_path)
    swap_all(log, clean(log))
    fill(log, random.Random(2))
    swap_all(log, clean(log))
    expected, producers = records_of(log), log.producers.entry(7)
    assert producers is not None
    hints = clean_hints(log) if clean_stop else LoadHints(clean=False)
    if clean_stop:
        log.close()
    again = reload(log, hints)
    assert records_of(again) == expected
    found = again.producers.entry(7)
    assert found is not None
    assert found.last_sequence == producers.last_sequence
    assert not [n for n in files_of(log.directory) if n.endswith(".deleted")]


def load(directory: Path, config: LogConfig = CONFIG, recovery_point: int = 0) -> Log:
    hints = LoadHints(clean=False, recovery_point=recovery_point)
    files = UnsyncedFileSystem()
    return load_log(files, str(directory), "t", 0, config=config, hints=hints, wall_ms=WALL_MS)


def check_reloaded(again: Log, old: Contents, new: Contents) -> None:
    """What was loaded lies between the two, and can be compacted again."""
    found = records_of(again)
    assert set(new) <= set(found) <= set(old)
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert again.log_end_offset == old[-1][0] + 1
    left = (".swap", ".cleaned", ".deleted")
    assert not [name for name in files_of(again.directory) if name.endswith(left)]
    again.high_watermark = again.log_end_offset
    swap_all(again, clean(again))
    assert newest(records_of(again)) == newest(old)
    assert set(records_of(again)) <= set(new)


def swapped_on_record(
    path: Path, *, seed: int = 1, batches: int = 40
) -> tuple[RecordingFiles, int, Contents, Contents]:
    """A compaction, operation by operation, from the one with the number on; before and after."""
    files = RecordingFiles(path)
    log = new_log(path, CONFIG, files)
    fill(log, random.Random(seed), batches)
    flush_directory(log)
    old, first = records_of(log), len(files.operations)
    swap_all(log, clean(log))
    new = records_of(log)
    log.abandon()
    return files, first, old, new


def flush_directory(log: Log) -> None:
    """The parent of the partition's directory, too."""
    log.files.sync_path(log.directory)
    log.files.sync_path(log.directory.rpartition("/")[0])


def crash_at(
    files: RecordingFiles,
    counts: Iterable[int],
    fate: Fate,
    contents: tuple[Contents, Contents],
    directory: Path,
) -> None:
    """Stop after so many operations each, and load what is left."""
    chance = random.Random(1)
    for count in counts:
        directory.mkdir()
        crash(files.operations[:count], fate, chance, directory)
        again = load(directory / "t-0", recovery_point=contents[0][-1][0] + 1)
        check_reloaded(again, *contents)
        again.abandon()
        shutil.rmtree(directory)


@pytest.mark.slow
@pytest.mark.parametrize("fate", [kept, lost, mangled])
def test_a_crash_leaves_the_old_or_the_new(tmp_path: Path, fate: Fate) -> None:
    (tmp_path / "life").mkdir()
    files, first, *contents = swapped_on_record(tmp_path / "life", batches=12)
    end = len(files.operations) + 1
    counts = random.Random(2).sample(range(first, end), min(25, end - first))
    crash_at(files, counts, fate, (contents[0], contents[1]), tmp_path / "left")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("fate", [kept, lost, mangled, mangled])
def test_a_crash_at_any_call(tmp_path: Path, fate: Fate, seed: int) -> None:
    (tmp_path / "life").mkdir()
    files, first, *contents = swapped_on_record(tmp_path / "life", seed=seed, batches=20)
    counts = range(first, len(files.operations) + 1)
    crash_at(files, counts, fate, (contents[0], contents[1]), tmp_path / "left")


@pytest.mark.soak
def test_power_cuts(tmp_path: Path) -> None:
    for seed in range(40):
        (tmp_path / str(seed)).mkdir()
        files, first, *contents = swapped_on_record(tmp_path / str(seed), seed=seed)
        counts = range(first, len(files.operations) + 1)
        crash_at(files, counts, mangled, (contents[0], contents[1]), tmp_path / "left")


# -- what Apache Kafka leaves behind


def as_kafka_leaves(log: Log, names: Mapping[str, str]) -> Path:
    """Rename files in the log's directory, from a name to another; it is closed before."""
    log.abandon()
    directory = Path(log.directory)
    for name, new_name in names.items():
        (directory / name).rename(directory / new_name)
    return directory


def test_a_cleaned_file_takes_back_the_swap_of_its_segment(tmp_path: Path) -> None:
    log = filled(tmp_path)
    old = records_of(log)
    clean(log)
    first = f"{0:020d}"
    directory = as_kafka_leaves(log, {f"{first}.log.cleaned": f"{first}.log.swap"})
    again = load(directory)
    assert records_of(again) == old
    assert not [n for n in files_of(again.directory) if n.endswith((".swap", ".cleaned"))]


def test_a_swap_below_all_cleaned_files_is_completed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    old = records_of(log)
    segments = clean(log)["segments"]
    first, second = segments[0], segments[1]["base_offset"]
    stem = f"{first['base_offset']:020d}"
    there = [name for name in files_of(log.directory) if name.startswith(stem)]
    names = {n: n.replace(".cleaned", ".swap") for n in there if n.endswith(".cleaned")}
    again = load(as_kafka_leaves(log, names))
    found = records_of(again)
    assert len([r for r in found if r[0] < second]) < len([r for r in old if r[0] < second]) / 2
    assert [r for r in found if r[0] >= second] == [r for r in old if r[0] >= second]
    assert [s.base_offset for s in again.segments][:2] == [0, second]


def test_index_files_alone_are_renamed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    swap_all(log, clean(log))
    expected = records_of(log)
    stem = f"{0:020d}"
    names = {f"{stem}{suffix}": f"{stem}{suffix}.swap" for suffix in (".index", ".timeindex")}
    indexes = [files_of(log.directory)[name] for name in names]
    directory = as_kafka_leaves(log, names)
    again = load(directory, recovery_point=log.log_end_offset)
    assert records_of(again) == expected
    again.abandon()
    assert [files_of(str(directory))[name] for name in names] == indexes


def test_the_transaction_index_keeps_no_entry_whose_marker_is_gone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    swap_all(log, clean(log))  # the markers are dated
    assert log.segments[0].txn_index.entries(), "nothing was aborted in the first segment"
    stem = f"{0:020d}"
    clean(log, wall_ms=WALL_MS + 1)  # and go
    there = [name for name in files_of(log.directory) if name.startswith(stem)]
    names = {n: n.replace(".cleaned", ".swap") for n in there if n.endswith(".cleaned")}
    assert f"{stem}.txnindex.cleaned" not in names
    again = load(as_kafka_leaves(log, names))
    first = again.segments[0]
    assert f"{stem}.txnindex" in files_of(again.directory)
    markers = {
        header.last_offset
        for _, header in walk_headers(first.file, 0, first.size_bytes)
        if header.is_control
    }
    assert {entry.last_offset for entry in first.txn_index.entries()} <= markers


def test_the_transaction_index_keeps_entries_whose_markers_are_there(tmp_path: Path) -> None:
    """It got its final name before the crash, and the log did not."""
    log = filled(tmp_path)
    clean(log)
    stem = f"{0:020d}"
    there = [name for name in files_of(log.directory) if name.startswith(stem)]
    names = {n: n.replace(".cleaned", ".swap") for n in there if n.endswith(".cleaned")}
    index = f"{stem}.txnindex"
    names[f"{index}.cleaned"] = index
    directory = as_kafka_leaves(log, names)
    before = (directory / index).read_bytes()
    assert decode_aborted(before)
    infos = {info.name: info for info in log.files.list_directory(log.directory)}
    complete_swaps(log.files, log.directory, infos)
    assert (directory / index).read_bytes() == before
    assert infos[index].size_bytes == len(before)


def test_a_damaged_swap_is_not_completed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    clean(log)
    stem = f"{0:020d}"
    there = [name for name in files_of(log.directory) if name.startswith(stem)]
    names = {n: n.replace(".cleaned", ".swap") for n in there if n.endswith(".cleaned")}
    directory = as_kafka_leaves(log, names)
    damaged = directory / f"{stem}.log.swap"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    before = files_of(str(directory))
    with pytest.raises(CorruptLog, match=r"log\.swap"):
        load(directory)
    left = files_of(str(directory))
    assert {n for n in before if not n.endswith(".cleaned")} <= set(left)


def test_leftovers_of_a_cleaning_are_removed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before = files_of(log.directory)
    clean(log)
    assert files_of(log.directory) != before
    remove_cleaned(log.files, log.directory)
    assert files_of(log.directory) == before


def test_undo_leaves_the_old(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before, records = files_of(log.directory), records_of(log)
    segment = clean(log)["segments"][0]
    swap = Swap(log, segment["base_offset"], segment["replaces"])
    swap.begin()
    swap.undo()
    remove_cleaned(log.files, log.directory)
    assert files_of(log.directory) == before
    assert records_of(log) == records


def test_an_undo_is_safe_on_disk(tmp_path: Path) -> None:
    """Else the new files were there again after a power cut, beside what the log got meanwhile."""
    files = RecordingFiles(tmp_path)
    log = new_log(tmp_path, CONFIG, files)
    fill(log, random.Random(1))
    segment = clean(log)["segments"][0]
    swap = Swap(log, segment["base_offset"], segment["replaces"])
    swap.begin()
    swap.undo()
    assert files.operations[-1] == Sync(files.inode(log.directory))


def test_a_swap_that_cannot_begin_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path)
    before = files_of(log.directory)
    segment = clean(log)["segments"][0]

    def rename(files: UnsyncedFileSystem, path: str, new_path: str) -> None:
        raise DiskFull("no space", path)

    monkeypatch.setattr(UnsyncedFileSystem, "rename", rename)
    with pytest.raises(DiskFull):
        Swap(log, segment["base_offset"], segment["replaces"]).begin()
    remove_cleaned(log.files, log.directory)
    assert files_of(log.directory) == before


def test_nothing_is_replaced_if_an_old_segment_is_gone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    segment = next(s for s in clean(log)["segments"] if len(s["replaces"]) > 1)
    log.segments.cut_before(segment["replaces"][1])
    assert not Swap(log, segment["base_offset"], segment["replaces"]).can_switch()


def test_a_cut_log_gets_no_new_names(tmp_path: Path) -> None:
    log = filled(tmp_path)
    segment = clean(log)["segments"][-1]
    swap = Swap(log, segment["base_offset"], segment["replaces"])
    swap.begin()
    swap.switch()
    swap.retire()
    log.truncate(segment["base_offset"] - 1)
    before = files_of(log.directory)
    swap.settle()
    assert files_of(log.directory) == before


def test_a_file_may_be_unlinked_while_a_directory_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"1")
    scandir = os.scandir

    @contextlib.contextmanager
    def scan_and_unlink(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            found = list(entries)
        (tmp_path / "b").unlink()
        yield found

    monkeypatch.setattr(os, "scandir", scan_and_unlink)
    infos = UnsyncedFileSystem().list_directory(str(tmp_path))
    assert sorted(info.name for info in infos) == ["a", "c"]
