"""Which indexes are made anew at a start, and that sound ones are not."""

from pathlib import Path

import pytest

from odradek.storage.files import FileInfo
from odradek.storage.log.index import OffsetIndex
from odradek.storage.log.load_report import LoadReport
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.segment import Segment
from odradek.storage.recovery import index_check
from odradek.storage.recovery.index_check import check_indexes

from ..support import WALL_MS, UnsyncedFileSystem, append, batch_of, new_log

CONFIG = LogConfig(index_interval_bytes=1)  # every batch but the first has an entry
BATCHES = 10
INDEX = f"{0:020d}.index"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition of one segment that was closed; its batches are of one offset each."""
    log = new_log(tmp_path, CONFIG)
    for number in range(BATCHES):
        append(log, batch_of([b"v"], timestamp=WALL_MS + number))
    log.close()
    return Path(log.directory)


def check(directory: Path) -> tuple[int | None, int]:
    """Where the segment ends, and how many times its indexes were made anew."""
    files = UnsyncedFileSystem()
    infos: dict[str, FileInfo] = {i.name: i for i in files.list_directory(str(directory))}
    sizes = {name: info.size_bytes for name, info in infos.items()}
    segment = Segment(files, str(directory), 0, sizes)
    report = LoadReport()
    end = check_indexes(files, segment, infos, CONFIG, report, offset_end=None)
    return end, report.indexes_rebuilt


def test_sound_indexes_stay(directory: Path) -> None:
    assert check(directory) == (BATCHES, 0)


def test_a_missing_index_is_made_anew(directory: Path) -> None:
    before = (directory / INDEX).read_bytes()
    (directory / INDEX).unlink()
    assert check(directory) == (BATCHES, 1)
    assert (directory / INDEX).read_bytes() == before


@pytest.mark.parametrize("position", [0, 1 << 30])
def test_an_entry_outside_of_the_segment(directory: Path, position: int) -> None:
    before = (directory / INDEX).read_bytes()
    (directory / INDEX).write_bytes(OffsetIndex.ENTRY.pack(1, position))
    assert check(directory) == (BATCHES, 1)
    assert (directory / INDEX).read_bytes() == before


def test_an_index_that_ends_long_before_its_segment(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (directory / INDEX).read_bytes()
    (directory / INDEX).write_bytes(b"")
    assert check(directory) == (BATCHES, 0), "a follower of Kafka's may have left it so"
    monkeypatch.setattr(index_check, "UNINDEXED_BYTES_MAX", 100)
    assert check(directory) == (BATCHES, 1)
    assert (directory / INDEX).read_bytes() == before
