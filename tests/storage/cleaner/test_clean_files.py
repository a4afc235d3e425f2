"""The files around the rules: groups, indexes, bad input, failures, and the child process."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.jobs import ChildJobs
from odradek.broker.runtime import DaemonOffload
from odradek.protocol.records import Codec, MarkerType, build_batch
from odradek.storage.cleaner.groups import group_segments
from odradek.storage.cleaner.source import CleanSegment
from odradek.storage.errors import CorruptLog, DiskFull, LogDirFailed, StorageError
from odradek.storage.errors import UnsupportedFormat as OldFormat
from odradek.storage.files import RealFileSystem
from odradek.storage.jobs.throttle import throttled
from odradek.storage.log.log_file import LogFile
from odradek.storage.log.segment_scan import ScanStart, scan_segment
from tests.storage.cleaner.cleanable import Cleanable, keyed, marker, record
from tests.storage.support import WALL_MS

INT32_MAX: Final = (1 << 31) - 1


def segments(*sizes: int, base_offsets: list[int] | None = None) -> list[CleanSegment]:
    bases = base_offsets or [index * 10 for index in range(len(sizes))]
    return [CleanSegment(base, size, base + 10) for base, size in zip(bases, sizes, strict=True)]


def grouped(
    cleanable: list[CleanSegment], sizes: dict[str, int] | None = None, end_offset: int = 1000
) -> list[list[int]]:
    groups = group_segments(
        cleanable, sizes or {}, segment_bytes=100, segment_index_bytes=80, end_offset=end_offset
    )
    return [[segment.base_offset for segment in group] for group in groups]


def test_groups_are_as_large_as_a_segment_may_be() -> None:
    assert grouped(segments(50, 50, 1, 99, 200, 0, 0)) == [[0, 10], [20, 30], [40], [50, 60]]
    assert grouped([]) == []


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_groups_are_bounded_by_their_indexes(suffix: str) -> None:
    sizes = {f"{base:020d}.{suffix}": size for base, size in ((0, 40), (10, 40), (20, 8))}
    assert grouped(segments(1, 1, 1), sizes) == [[0, 10], [20]]


def test_groups_are_bounded_by_their_offsets() -> None:
    far = [0, 10, INT32_MAX + 1, INT32_MAX + 2]
    assert grouped(segments(1, 1, 1, 1, base_offsets=far), end_offset=INT32_MAX + 9) == [
        [0, 10],
        far[2:],
    ]
    assert grouped(segments(1, 0, base_offsets=[0, 10]), end_offset=1 << 40) == [[0, 10]]


def test_index_entries_are_those_of_a_scan(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    for base in range(0, 300, 30):
        # the newest record of each batch goes, and with it the greatest timestamp
        log.segment(
            *(
                build_batch(
                    [
                        record(base + at, b"%d" % (base + at), timestamp=WALL_MS + base + at),
                        record(base + at + 1, b"%d" % at, timestamp=WALL_MS + 2 * (base + at)),
                    ]
                )
                for at in range(0, 30, 2)
            )
        )
    result = log.clean_and_swap(segment_bytes=2000)
    assert len(result["segments"]) > 1
    for base in log.bases():
        path = log.file(base, "log")
        file = log.files.open_log(str(path), path.stat().st_size)
        scan = scan_segment(file, base, ScanStart(), index_interval_bytes=200)
        file.close()
        assert scan.problem is None
        assert log.file(base, "index").read_bytes() == scan.offset_entries
        assert log.file(base, "timeindex").read_bytes().startswith(scan.time_entries)


def test_a_batch_larger_than_the_buffer(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(keyed(0, "a"), build_batch([record(1, b"b", b"x" * 200_000)]), keyed(2, "a"))
    log.clean_and_swap(io_buffer_bytes=1)
    assert log.offsets() == [1, 2]


def test_reports_rise_to_all_that_was_read_and_written(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    for base in range(3):
        log.segment(build_batch([record(base, b"%d" % base, b"x" * 150_000)]))
    statistics = log.clean()["statistics"]
    assert log.reports == sorted(log.reports)
    assert log.reports[-1] == (
        statistics["map_bytes_read"] + statistics["bytes_read"] + statistics["bytes_written"]
    )
    assert max(b - a for a, b in zip(log.reports, log.reports[1:], strict=False)) < 200_000


def test_nothing_dirty(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(keyed(0, "a"))
    log.first_dirty_offset = 1
    assert log.clean()["segments"] == []
    assert log.clean()["end_offset"] == 1


def bad_logs() -> dict[str, tuple[bytes, type[StorageError], str]]:
    good = bytes(keyed(1, "a", "b"))
    bomb = build_batch([record(1, b"a", b"\0" * (2 << 20))], codec=Codec.ZSTD)
    lying = bytearray(build_batch([record(1, b"a")], base_offset=1, last_offset=1))
    unruly = build_batch([record(1, b"a"), record(2, b"b")], last_offset=2)
    unruly[23:27] = (0).to_bytes(4, "big")
    for batch in (lying, unruly):
        batch[57:61] = (3 if batch is lying else 2).to_bytes(4, "big")
        _seal(batch)
    return {
        "a flipped bit": (good[:70] + bytes([good[70] ^ 1]) + good[71:], CorruptLog, "CRC"),
        "a torn end": (good[:-1], CorruptLog, "ends inside"),
        "a torn header": (good + good[:30], CorruptLog, "ends inside"),
        "an offset again": (bytes(keyed(0, "z")), CorruptLog, "do not rise"),
        "a length of nothing": (good[:8] + bytes(4) + good[12:], CorruptLog, "length"),
        "an unknown format": (good[:16] + b"\x09" + good[17:], CorruptLog, "magic"),
        "an old format": (good[:16] + b"\x01" + good[17:], OldFormat, "magic"),
        "too much when decompressed": (bytes(bomb), CorruptLog, "decompressed"),
        "fewer records than announced": (bytes(lying), CorruptLog, "inside a record"),
        "a record behind its batch": (bytes(unruly), CorruptLog, "behind"),
    }


def _seal(batch: bytearray) -> None:
    from odradek.protocol.records.batch import seal

    seal(batch)


@pytest.mark.parametrize("name", list(bad_logs()))
@pytest.mark.parametrize("dirty", [True, False])
def test_a_bad_batch_ends_it_with_file_and_position(tmp_path: Path, name: str, dirty: bool) -> None:
    data, error, words = bad_logs()[name]
    log = Cleanable(tmp_path)
    first = keyed(0, "a")
    log.segment(first)
    log.file(0, "log").write_bytes(bytes(first) + data)
    log.end_offset = 4
    if not dirty:
        log.segment(keyed(4, "b"))
        log.first_dirty_offset = 4
    before = log.names()
    with pytest.raises(error, match=words) as raised:
        log.clean()
    assert f"{log.file(0, 'log')}" in str(raised.value)
    assert any(f"{word} {len(first)}" in str(raised.value) for word in ("position", "at")) or (
        name == "a torn header"
    )
    assert log.names() == before


def test_times_that_cannot_be_written_again(tmp_path: Path) -> None:
    timeless, early = keyed(1, "a", "a"), keyed(1, "a", "a")
    record_bytes = len(timeless) - 61 >> 1
    timeless[61 + record_bytes :] = (
        bytes([(record_bytes + 9) << 1, 0]) + b"\x80" * 10 + b"\x01" + timeless[64 + record_bytes :]
    )
    timeless[8:12] = (len(timeless) - 12).to_bytes(4, "big")
    early[27:35] = (1 << 63).to_bytes(8, "big")
    early[63 + record_bytes] = 1
    for batch in (timeless, early):
        _seal(batch)
        log = Cleanable(tmp_path / str(len(batch)))
        log.segment(keyed(0, "z"), batch)
        with pytest.raises(CorruptLog, match=f"log: position {len(keyed(0, 'z'))}: "):
            log.clean()


class _Failing(RealFileSystem):
    """A disk whose call number `failing_call`, of those that change something, fails."""

    def __init__(self) -> None:
        super().__init__()
        self.failing_call = -1
        self.calls = 0

    def _count(self, path: str) -> None:
        self.calls += 1
        if self.calls == self.failing_call:
            raise DiskFull(f"{path}: no space", path)

    def create(self, path: str) -> None:
        self._count(path)
        super().create(path)

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        return _FailingFile(self, path, size_bytes)


class _FailingFile(LogFile):
    def append(self, data: bytes | bytearray | memoryview) -> int:
        assert isinstance(self._files, _Failing)
        self._files._count(self.path)
        return super().append(data)

    def pread(self, size_bytes: int, position: int) -> bytes:
        assert isinstance(self._files, _Failing)
        self._files._count(self.path)
        return super().pread(size_bytes, position)

    def sync(self) -> None:
        assert isinstance(self._files, _Failing)
        self._files._count(self.path)


def test_whatever_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    files = _Failing()
    log = Cleanable(tmp_path, files)
    for base in range(0, 90, 30):
        log.segment(*(keyed(base + at, f"{base + at}", f"{at}") for at in range(0, 28, 2)))
    log.segment(
        keyed(90, "t", producer_id=7, base_sequence=0, is_transactional=True),
        marker(MarkerType.ABORT, 91, 7),
    )
    log.aborted(88, (7, 90, 91, 92))
    before = log.names()
    log.clean(segment_bytes=2000)
    calls = files.calls
    assert calls > 20
    for path in tmp_path.glob("*.cleaned"):
        path.unlink()
    for failing_call in range(1, calls + 1):
        files.calls, files.failing_call = 0, failing_call
        with pytest.raises(LogDirFailed):
            log.clean(segment_bytes=2000)
        assert log.names() == before


def test_what_an_earlier_try_left_is_replaced(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(keyed(0, "a", "a"))
    for suffix in ("log", "index", "timeindex", "txnindex"):
        log.file(0, f"{suffix}.cleaned").write_bytes(b"left over " * 100)
    log.clean_and_swap()
    assert log.offsets() == [1]
    assert not log.file(0, "txnindex").exists()


@pytest.mark.slow
def test_in_a_child_process_slowed_down(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(keyed(0, "a", "b", "a"))
    arguments = {**log.arguments(), "io_bytes_per_second": 1e9}
    reports: list[int] = []
    result = asyncio.run(ChildJobs(DaemonOffload("jobs"))("clean", arguments, reports.append))
    assert result == log.clean()
    assert reports == log.reports


def test_a_throttle_sleeps_what_was_too_fast() -> None:
    now_s, slept, reported = [50.0], list[float](), list[int]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now_s[0] += seconds

    report = throttled(reported.append, 100.0, lambda: now_s[0], sleep)
    report(50)
    now_s[0] += 10
    report(100)
    report(1100)
    assert reported == [50, 100, 1100]
    assert slept == [0.5, 0.5]
    assert throttled(reported.append, None, lambda: 0.0, sleep) == reported.append
