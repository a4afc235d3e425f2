"""Where the next whole batch begins after a bad one, found by looks at every byte."""

from pathlib import Path

import pytest

from odradek.protocol.records.batch import HEADER, HEADER_SIZE_BYTES, MAGIC
from odradek.storage.log import resync
from odradek.storage.log.log_file import LogFile
from odradek.storage.log.resync import Doubtful, FoundBatch, find_valid_batch
from tests.broker.batches import altered

from ..support import UnsyncedFileSystem, batch_of


def file_of(tmp_path: Path, data: bytes) -> LogFile:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    return UnsyncedFileSystem().open_log(str(path), len(data))


def test_a_batch_with_an_offset_of_more_than_32_bits(tmp_path: Path) -> None:
    offset = 5 << 32
    data = b"torn" + altered(bytes(batch_of([b"a"])), base_offset=offset)
    found = find_valid_batch(file_of(tmp_path, data), 0, offset_first=offset)
    assert found == FoundBatch(4, offset)


def test_too_many_headers_without_a_batch_are_not_all_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says that it goes on to the end of the file, so that the checksums cost its square."""
    monkeypatch.setattr(resync, "_SPARE_BYTES", 0)
    count = 100
    headers = [
        HEADER.pack(0, left * HEADER_SIZE_BYTES - 12, 0, MAGIC, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        for left in range(count, 0, -1)
    ]
    with pytest.raises(Doubtful):
        find_valid_batch(file_of(tmp_path, b"".join(headers)), 0, offset_first=0)
