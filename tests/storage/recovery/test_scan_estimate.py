"""How much a start would have to scan, by names, sizes and the index."""

from pathlib import Path

from odradek.storage.log.index import OffsetIndex
from odradek.storage.recovery.scan_estimate import bytes_to_scan
from tests.support.descriptors import open_below

from ..support import WALL_MS, UnsyncedFileSystem, append_values, batch_of, new_log

SIZE_BYTES = len(batch_of([b"v"]))


def partition(path: Path) -> str:
    """Segments at 0 and 4, of four batches each."""
    log = new_log(path)
    for _ in range(2):
        log.roll(log.log_end_offset, WALL_MS)
        for _ in range(4):
            append_values(log, b"v")
    log.close()
    return log.directory


def test_nothing_below_a_segment_that_begins_at_the_recovery_point(tmp_path: Path) -> None:
    directory = partition(tmp_path)
    assert bytes_to_scan(UnsyncedFileSystem(), directory, 4) == 4 * SIZE_BYTES
    assert bytes_to_scan(UnsyncedFileSystem(), directory, 0) == 8 * SIZE_BYTES


def test_an_entry_past_the_end_counts_as_none(tmp_path: Path) -> None:
    directory = partition(tmp_path)
    index = Path(directory) / f"{4:020d}.index"
    index.write_bytes(OffsetIndex.ENTRY.pack(1, 2 * SIZE_BYTES))
    assert bytes_to_scan(UnsyncedFileSystem(), directory, 7) == 2 * SIZE_BYTES
    index.write_bytes(OffsetIndex.ENTRY.pack(1, 4 * SIZE_BYTES))
    assert bytes_to_scan(UnsyncedFileSystem(), directory, 7) == 4 * SIZE_BYTES


def test_no_file_stays_open(tmp_path: Path) -> None:
    directory = partition(tmp_path)
    index = f"{directory}/{4:020d}.index"
    Path(index).write_bytes(OffsetIndex.ENTRY.pack(1, 2 * SIZE_BYTES))
    files = UnsyncedFileSystem()
    bytes_to_scan(files, directory, 7)
    assert open_below(tmp_path) == []
