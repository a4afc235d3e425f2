"""The files that a cleaning writes."""

from pathlib import Path

import pytest

from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import Record, build_batch, read_header
from odradek.storage.cleaner.output import CleanedSegment
from odradek.storage.errors import BatchTooLarge
from odradek.storage.log.index import TIME_ENTRY
from tests.storage.support import WALL_MS, UnsyncedFileSystem


def append(segment: CleanedSegment, offset: int) -> int:
    batch = memoryview(build_batch([Record(offset, WALL_MS, b"k", b"v")], base_offset=offset))
    return segment.append([(read_header(batch), batch)])


def test_the_time_index_names_the_first_batch_of_a_time(tmp_path: Path) -> None:
    segment = CleanedSegment(UnsyncedFileSystem(), str(tmp_path), 0, 1 << 20)
    for offset in range(3):
        append(segment, offset)
    segment.finish()
    index = (tmp_path / f"{0:020d}.timeindex.cleaned").read_bytes()
    assert list(TIME_ENTRY.iter_unpack(index)) == [(WALL_MS, 0)]


@pytest.mark.parametrize("too_many", [0, 1])
def test_a_segment_takes_two_gibibytes_less_a_byte(tmp_path: Path, too_many: int) -> None:
    """As far as positions in its index reach; the file has a hole."""
    segment = CleanedSegment(UnsyncedFileSystem(), str(tmp_path), 0, 1 << 20)
    size_bytes = append(segment, 0)
    segment.file.size_bytes = INT32_MAX - size_bytes + too_many
    if too_many:
        with pytest.raises(BatchTooLarge):
            append(segment, 1)
    else:
        assert append(segment, 1) == size_bytes
    segment.close()
