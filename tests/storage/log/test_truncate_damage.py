"""Truncation of a log with damage: all or nothing, and the log goes on."""

from pathlib import Path

import pytest

from odradek.storage.errors import DamagedRecords
from odradek.storage.log.log import Log

from ..support import append_values, clean_hints, contents, new_log, reload

RECORDS = 40


def damaged(tmp_path: Path, position: int) -> Log:
    """A log after a clean stop, in whose second segment a header is found to be bad."""
    log = new_log(tmp_path)
    for number in range(RECORDS):
        append_values(log, b"%d" % number)
    log.high_watermark = RECORDS
    log.close()
    path = Path(log.segments[1].file.path)
    data = bytearray(path.read_bytes())
    data[position + 16] = 9  # the format
    path.write_bytes(data)
    again = reload(log, clean_hints(log))
    with pytest.raises(DamagedRecords):
        contents(again)
    return again


def test_a_truncation_that_fails_changes_nothing(tmp_path: Path) -> None:
    log = damaged(tmp_path, 0)
    before = [segment.base_offset for segment in log.segments]
    with pytest.raises(DamagedRecords):
        log.truncate(before[1])
    assert [segment.base_offset for segment in log.segments] == before
    assert log.log_end_offset == RECORDS
    assert append_values(log, b"new") == RECORDS
    log.close()


def test_the_log_goes_on_in_a_segment_whose_first_batch_is_damaged(tmp_path: Path) -> None:
    log = damaged(tmp_path, 0)
    end = log.segments[2].base_offset - 1
    assert log.truncate(end) == end
    assert append_values(log, b"new") == end
    log.log_start_offset = end
    assert contents(log) == [(end, b"new")]
    log.close()
