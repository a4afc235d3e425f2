"""After a kill: torn tails, zeroes, flipped bits, bad side files.

Whatever was damaged, the log ends with its last whole batch.
"""

import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.storage.errors import UnsupportedFormat
from odradek.storage.log import segment_scan
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.segment_scan import ScanStart, scan_segment
from odradek.storage.recovery.load import LoadHints

from ..support import (
    UNCLEAN,
    WALL_MS,
    append,
    append_values,
    batch_of,
    clean_hints,
    contents,
    files_of,
    flush,
    new_log,
    read_bytes,
    reload,
)

ONE_SEGMENT = LogConfig(index_interval_bytes=200)


def killed(tmp_path: Path, count: int = 20, config: LogConfig = ONE_SEGMENT) -> Log:
    """A log of `count` batches of two records whose process is gone."""
    log = new_log(tmp_path, config)
    for number in range(count):
        batch = batch_of(
            [b"%d" % number, b"x" * 100],
            timestamp=WALL_MS + number,
            producer_id=number % 3,
            base_sequence=number // 3 * 2,
        )
        append(log, batch, leader_epoch=number // 8)
    log.abandon()
    return log


def active_path(log: Log, suffix: str = ".log") -> Path:
    return Path(log.segments.active.file.path).with_suffix(suffix)


def boundaries(log: Log) -> list[int]:
    """Where each batch of the active segment begins, and the end."""
    data = active_path(log).read_bytes()
    positions = [0]
    while positions[-1] < len(data):
        (length,) = struct.unpack_from(">i", data, positions[-1] + 8)
        positions.append(positions[-1] + length + 12)
    return positions


def assert_whole(log: Log, batch_count: int) -> None:
    """The log holds the first batches, goes on and can be read again."""
    found = contents(log)
    assert [offset for offset, _ in found] == list(range(2 * batch_count))
    assert [value for _, value in found[::2]] == [b"%d" % number for number in range(batch_count)]
    assert log.log_end_offset == 2 * batch_count
    assert append_values(log, b"next", leader_epoch=9) == 2 * batch_count
    assert contents(log)[-1] == (2 * batch_count, b"next")


@pytest.mark.slow
def test_every_cut_of_the_last_three_batches_ends_at_a_whole_batch(tmp_path: Path) -> None:
    log = killed(tmp_path)
    path = active_path(log)
    data = path.read_bytes()
    ends = boundaries(log)
    for size_bytes in range(ends[-4], len(data) + 1):
        path.write_bytes(data[:size_bytes])
        again = reload(log, LoadHints(clean=False, recovery_point=20))
        assert_whole(again, sum(end <= size_bytes for end in ends[1:]))
        again.abandon()
        assert files_of(log.directory)[path.name].startswith(data[: ends[-4]])


@pytest.mark.parametrize(("high_watermark", "is_kept"), [(38, False), (39, True)])
def test_a_torn_batch_that_was_committed_is_set_aside(
    tmp_path: Path, high_watermark: int, is_kept: bool
) -> None:
    """What is left of committed records is kept, however little it is."""
    log = killed(tmp_path)
    path = active_path(log)
    start = boundaries(log)[-2]
    tail = path.read_bytes()[start:-1]
    path.write_bytes(path.read_bytes()[:-1])
    again = reload(log, LoadHints(clean=False, high_watermark=high_watermark))
    assert_whole(again, 19)
    damaged = {name: data for name, data in files_of(log.directory).items() if "damaged" in name}
    assert damaged == ({f"{path.name}.{start}.damaged": tail} if is_kept else {})
    assert again.loaded is not None
    assert again.loaded.bad_batches == 1
    assert again.loaded.set_aside_bytes == (len(tail) if is_kept else 0)


@pytest.mark.slow
def test_zeroes_and_garbage_after_the_last_batch_are_cut(tmp_path: Path) -> None:
    log = killed(tmp_path)
    path = active_path(log)
    data = path.read_bytes()
    ends = boundaries(log)
    chance = random.Random(7)
    for number in range(100):
        keep = chance.randrange(ends[-4], len(data) + 1)
        zeroes = number % 2 == 0
        size_bytes = chance.choice((1, 11, 12, 61, 4096, 10_000))
        tail = bytes(size_bytes) if zeroes else chance.randbytes(size_bytes)
        path.write_bytes(data[:keep] + tail)
        again = reload(log)
        # The bytes that a zero stands for may be zero: then the batch is whole after all.
        whole = (data[:keep] + tail)[: len(data)]
        count = sum(whole[:end] == data[:end] for end in ends[1:])
        assert_whole(again, count)
        again.abandon()


def test_a_flipped_bit_ends_the_log_and_removes_later_segments(tmp_path: Path) -> None:
    log = killed(tmp_path, 60, LogConfig(segment_bytes=2000, index_interval_bytes=200))
    segments = list(log.segments)
    assert len(segments) > 4
    path = Path(segments[2].file.path)
    data = bytearray(path.read_bytes())
    data[700] ^= 4
    path.write_bytes(data)
    again = reload(log)
    assert segments[2].base_offset < again.log_end_offset < segments[3].base_offset
    assert again.segments.active.base_offset == segments[2].base_offset
    later = f"{segments[3].base_offset:020d}"
    assert {n for n in files_of(log.directory) if n.startswith(later)} == {later + ".log.damaged"}
    assert_whole(again, again.log_end_offset // 2)


def test_a_stale_batch_after_the_end_is_cut(tmp_path: Path) -> None:
    log = killed(tmp_path)
    path = active_path(log)
    data = path.read_bytes()
    path.write_bytes(data + data[boundaries(log)[-4] :])  # whole and valid, but its offsets are old
    assert_whole(reload(log), 20)


def test_an_index_entry_that_names_another_batch_is_not_relied_on(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(index_interval_bytes=60))
    for number in range(20):
        append_values(log, b"%02d" % number, b"")  # all of one size
    log.segments.active.write_indexes()
    log.abandon()
    path = active_path(log, ".index")
    good = path.read_bytes()
    assert len(good) == 19 * 8
    moved = struct.pack(">ii", 13, boundaries(log)[7])  # a batch too far
    path.write_bytes(good[: 5 * 8] + moved)
    again = reload(log, LoadHints(clean=False, recovery_point=30))
    assert [offset for offset, _ in contents(again)] == list(range(40))
    assert again.segments.active.offset_index.read_all()[: len(good)] == good


def test_below_the_recovery_point_nothing_is_scanned(tmp_path: Path) -> None:
    log = killed(tmp_path, 60, LogConfig(segment_bytes=2000, index_interval_bytes=200))
    path = Path(log.segments[0].file.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again = reload(log, LoadHints(clean=False, recovery_point=log.segments[2].base_offset))
    assert again.log_end_offset == 120


def test_the_scan_begins_near_the_recovery_point_of_the_active_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path, ONE_SEGMENT)
    for number in range(50):
        append_values(log, b"%d" % number)
    flush(log)
    for number in range(50, 60):
        append_values(log, b"%d" % number)
    log.abandon()
    path = active_path(log)
    data = bytearray(path.read_bytes())
    data[30 * 70 + 65] ^= 1  # would be found by a scan from the beginning
    path.write_bytes(data)
    again = reload(log, LoadHints(clean=False, recovery_point=50))
    assert again.log_end_offset == 60
    assert again.unflushed_bytes < 20 * 70
    entry = again.segments.active.offset_index.last()
    assert entry is not None
    assert entry.offset > 55


def test_indexes_are_rebuilt_as_appends_had_made_them(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_bytes=2000, index_interval_bytes=300))
    for number in range(80):
        append(log, batch_of([b"%d" % number], timestamp=WALL_MS + number % 7), leader_epoch=3)
    log.close()
    expected = files_of(log.directory)
    assert sum(len(data) for name, data in expected.items() if name.endswith(".index")) > 100
    for name in expected:
        if name.endswith(("index", ".snapshot", "checkpoint")):
            (Path(log.directory) / name).unlink()
    again = reload(log)
    again.close()
    found = files_of(log.directory)
    for name, data in expected.items():
        if not name.endswith(".snapshot"):  # only the one at the end is written anew
            assert found[name] == data, name
    assert found[f"{80:020d}.snapshot"] == expected[f"{80:020d}.snapshot"]


def corruptions(data: bytes, chance: random.Random) -> bytes:
    """Some damage to a side file."""
    kind = chance.randrange(5)
    if kind == 0:
        return data[: chance.randrange(len(data) + 1)]
    if kind == 1:
        return data + bytes(chance.randrange(1, 5000))
    if kind == 2:
        return chance.randbytes(len(data))
    if kind == 3 and data:
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        return bytes(damaged)
    return b""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "checkpoint", "metadata"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_side_files_change_no_answer(tmp_path: Path, suffix: str, clean: bool) -> None:
    log = killed(tmp_path, 60, LogConfig(segment_bytes=3000, index_interval_bytes=200))
    good = reload(log)
    expected = contents(good)
    good.high_watermark = good.log_end_offset
    good.close()
    originals = files_of(log.directory)
    chance = random.Random(suffix + str(clean))
    names = [name for name in originals if name.endswith(suffix)]
    assert names
    for _ in range(40):
        name = chance.choice(names)
        path = Path(log.directory) / name
        if chance.randrange(6) == 0:
            path.unlink()
        else:
            path.write_bytes(corruptions(originals[name], chance))
        again = reload(log, clean_hints(good) if clean else UNCLEAN)
        assert contents(again) == expected
        if not clean or suffix not in ("snapshot", "checkpoint"):
            assert again.epochs.entries() == good.epochs.entries()
        for offset in (0, 1, 33, 77, 119):
            assert read_bytes(again, offset) == read_bytes(good_copy(again), offset)
        again.abandon()
        for other in Path(log.directory).iterdir():
            if other.name not in originals:
                other.unlink()
        for other_name, data in originals.items():
            (Path(log.directory) / other_name).write_bytes(data)


def good_copy(log: Log) -> Log:
    """The same log without any memory of places."""
    log.reader.forget()
    return log


def test_epochs_are_rebuilt_from_batches(tmp_path: Path) -> None:
    log = killed(tmp_path)
    path = Path(log.directory) / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n3\n0 0\n1 16\n2 32\n"
    for text in ("", "0\n2\n0 0\n0 16\n", "1\n0\n", "0\n1\n0 0\n1 1\n", "0\n1\n3 0\n", "\xff"):
        path.write_text(text, encoding="latin-1")
        again = reload(log)
        assert again.epochs.entries() == [(0, 0), (1, 16), (2, 32)]
        again.abandon()


def producers_of(log: Log) -> dict[int, tuple[int, int]]:
    found = {}
    for entry in log.producers.entries():
        offsets = [batch.last_offset for batch in entry.batches]
        assert offsets == sorted(set(offsets))
        found[entry.producer_id] = (entry.last_sequence, offsets[-1])
    return found


@pytest.mark.parametrize("recovery_point", [0, 20, 40])
def test_producers_are_known_after_recovery(tmp_path: Path, recovery_point: int) -> None:
    config = LogConfig(segment_bytes=1500, index_interval_bytes=200)
    log = killed(tmp_path, 20, config)
    again = reload(log, LoadHints(clean=False, recovery_point=recovery_point))
    assert producers_of(again) == producers_of(log)
    again.close()
    final = reload(again, clean_hints(again))
    assert producers_of(final) == producers_of(log)


def test_batches_that_a_snapshot_knows_are_not_noted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.storage.log.flush.SNAPSHOT_INTERVAL_BYTES", 1)
    log = new_log(tmp_path, LogConfig(index_interval_bytes=10))
    for number in range(10):
        append(log, batch_of([b"v"], producer_id=1, base_sequence=number))
        if number == 8:
            plan = log.flush_plan()
            assert plan is not None
            plan.release()
    log.abandon()
    again = reload(log, LoadHints(clean=False, recovery_point=9))
    assert again.unflushed_bytes < log.size_bytes // 2  # the scan began near the snapshot
    assert producers_of(again) == {1: (9, 9)}
    entry = again.producers.entry(1)
    assert entry is not None
    assert [batch.last_offset for batch in entry.batches] == [8, 9]


def test_a_corrupt_snapshot_falls_back_to_an_older_one(tmp_path: Path) -> None:
    log = killed(tmp_path, 20, LogConfig(segment_bytes=1500, index_interval_bytes=200))
    again = reload(log)
    again.close()
    path = Path(log.directory) / f"{40:020d}.snapshot"
    path.write_bytes(path.read_bytes()[:-1])
    final = reload(log, clean_hints(again))
    assert producers_of(final) == producers_of(log)
    assert not path.exists()


def test_a_snapshot_above_the_recovery_point_is_not_believed(tmp_path: Path) -> None:
    log = killed(tmp_path, 20, LogConfig(segment_bytes=1500, index_interval_bytes=200))
    stray = Path(log.directory) / f"{38:020d}.snapshot"
    stray.write_bytes(bytes(10))
    later = Path(log.directory) / f"{999:020d}.snapshot"
    later.write_bytes(bytes(10))
    again = reload(log)
    assert producers_of(again) == producers_of(log)
    assert not stray.exists()
    assert not later.exists()


def test_old_message_formats_are_refused_and_not_cut(tmp_path: Path) -> None:
    log = killed(tmp_path, 2)
    path = active_path(log)
    body = struct.pack(">bbqii", 1, 0, WALL_MS, -1, -1)
    message = struct.pack(">qiI", 4, len(body) + 4, zlib.crc32(body)) + body
    path.write_bytes(path.read_bytes() + message)
    with pytest.raises(UnsupportedFormat, match="format 1"):
        reload(log)
    assert path.read_bytes().endswith(message)


def test_leftovers_are_removed(tmp_path: Path) -> None:
    log = killed(tmp_path, 2)
    leftovers = [f"{0:020d}.log.deleted", f"{9:020d}.index", "x.log.cleaned", "a.tmp"]
    for name in leftovers:
        (Path(log.directory) / name).write_bytes(b"?")
    again = reload(log)
    assert not set(leftovers) & set(files_of(log.directory))
    assert again.log_end_offset == 4


def test_a_log_below_its_checkpointed_start_is_emptied(tmp_path: Path) -> None:
    log = killed(tmp_path, 2)
    again = reload(log, LoadHints(clean=False, log_start_offset=100))
    assert (again.log_start_offset, again.log_end_offset) == (100, 100)
    assert append_values(again, b"a") == 100


def test_a_log_that_ends_before_its_recovery_point_is_scanned_as_a_whole(tmp_path: Path) -> None:
    log = killed(tmp_path, 20, LogConfig(segment_bytes=1500, index_interval_bytes=200))
    path = Path(log.segments[1].file.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    active_path(log).unlink()
    again = reload(log, LoadHints(clean=False, recovery_point=40))
    assert again.segments.active.base_offset == log.segments[1].base_offset
    assert_whole(again, again.log_end_offset // 2)
    assert again.recovery_point == 0


def zero_padded(data: bytes) -> bytes:
    return data + bytes(10_485_760 - len(data))


def cut(data: bytes) -> bytes:
    return data[:-5]


@pytest.mark.parametrize("damage", [zero_padded, cut])
def test_indexes_as_kafka_leaves_them_are_accepted(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    log = new_log(tmp_path, ONE_SEGMENT)
    for number in range(40):
        append_values(log, b"%d" % number, b"x" * 100)
    log.segments.active.write_indexes()
    log.abandon()
    for suffix in (".index", ".timeindex"):
        path = active_path(log, suffix)
        path.write_bytes(damage(path.read_bytes()))
    again = reload(log, LoadHints(clean=False, recovery_point=60))
    assert_whole(again, 40)
    assert active_path(log, ".index").stat().st_size % 8 == 0
    assert active_path(log, ".index").stat().st_size < 1000


def test_what_was_cut_is_not_damaged_any_more(tmp_path: Path) -> None:
    """A look at the indexes met it first; then the scan cut it, and the log went on."""
    log = new_log(tmp_path, ONE_SEGMENT)
    for _ in range(6):
        append_values(log, b"a" * 100)
    log.close()
    size_bytes = log.segments.active.size_bytes
    path = Path(log.segments.active.file.path)
    path.write_bytes(path.read_bytes()[: size_bytes - 40] + bytes(40))
    path.with_suffix(".index").unlink()
    again = reload(log, clean_hints(log))
    assert again.log_end_offset == 5
    append_values(again, b"b")
    assert [offset for offset, _ in contents(again)] == list(range(6))


def test_a_last_batch_with_a_gap_before_it_is_cut(tmp_path: Path) -> None:
    """Appends leave none: a bit is flipped in its offset, which no checksum covers."""
    log = killed(tmp_path)
    path = active_path(log)
    data = bytearray(path.read_bytes())
    data[boundaries(log)[-2] + 6] ^= 1
    path.write_bytes(data)
    again = reload(log)
    assert again.loaded is not None
    assert again.loaded.bad_batches == 1
    assert_whole(again, 19)


def test_a_batch_that_reaches_into_the_next_segment_is_cut(tmp_path: Path) -> None:
    log = killed(tmp_path, 2)
    file = log.files.open_log(str(active_path(log)), active_path(log).stat().st_size)
    scan = scan_segment(file, 0, ScanStart(), index_interval_bytes=200, offset_end=3)
    assert (scan.next_offset, scan.problem) == (2, "offset 2 where 2 was expected")
    file.close()


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_large_batch_is_read_only_if_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    monkeypatch.setattr(segment_scan, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(segment_scan, "LARGE_BYTES", 2000)
    log = new_log(tmp_path, ONE_SEGMENT)
    append_values(log, b"x" * 5000)
    log.abandon()
    path = active_path(log)
    if not is_whole:
        path.write_bytes(path.read_bytes()[:-1] + b"y")
    again = reload(log)
    assert again.log_end_offset == is_whole
    again.abandon()


def test_a_start_beyond_a_log_that_is_all_there_is_ignored(tmp_path: Path) -> None:
    log = killed(tmp_path, 2)
    again = reload(log, LoadHints(clean=False, recovery_point=4, log_start_offset=100))
    assert again.log_start_offset == 0
    assert_whole(again, 2)


@pytest.mark.parametrize("times", ["rising", "falling"])
@pytest.mark.parametrize("left", [40, 30])
def test_indexes_from_the_recovery_point_on_are_as_if_all_was_scanned(
    tmp_path: Path, times: str, left: int
) -> None:
    """The entries before it stay; none is left of what a power cut took."""
    log = new_log(tmp_path, ONE_SEGMENT)
    for number in range(40):
        timestamp = WALL_MS + (number if times == "rising" else -number)
        append(log, batch_of([b"%02d" % number], timestamp=timestamp))
    log.segments.active.write_indexes()
    log.abandon()
    active_path(log).write_bytes(active_path(log).read_bytes()[: boundaries(log)[left]])
    found = []
    for recovery_point in (20, 0):
        again = reload(log, LoadHints(clean=False, recovery_point=recovery_point))
        active = again.segments.active
        indexes = [active_path(log, suffix).read_bytes() for suffix in (".index", ".timeindex")]
        found.append((active.max_timestamp, active.max_timestamp_offset, indexes))
        again.abandon()
    assert found[0] == found[1]
    assert found[0][1] == (left - 1 if times == "rising" else 0)


@pytest.mark.parametrize("zeroes", [True, False])
def test_an_index_that_is_not_relied_on_is_made_anew(tmp_path: Path, zeroes: bool) -> None:
    """All zeroes, as Kafka preallocates one, or an entry that reaches into the next batch."""
    log = new_log(tmp_path, LogConfig(index_interval_bytes=1))
    for number in range(10):
        append_values(log, b"%02d" % number, b"")
    log.segments.active.write_indexes()
    log.abandon()
    path = active_path(log, ".index")
    good = path.read_bytes()
    assert len(good) == 9 * 8
    damaged = bytearray(good)
    damaged[7 * 8 + 3] += 1
    path.write_bytes(bytes(80) if zeroes else damaged)
    reload(log, LoadHints(clean=False, recovery_point=20)).abandon()
    assert path.read_bytes() == good
