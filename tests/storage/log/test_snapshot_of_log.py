"""Which producer snapshot is believed: one that intact batches contradict is of another log."""

from pathlib import Path

import pytest

from odradek.protocol.records.batch import ATTRIBUTES_POSITION, crc32c
from odradek.storage.log.log_config import LogConfig

from ..support import append, batch_of, clean_hints, new_log, reload

RECORDS = 20
PRODUCER_ID_POSITION = 43


@pytest.mark.parametrize("is_intact", [True, False])
def test_a_torn_batch_before_the_log_start_proves_nothing(tmp_path: Path, is_intact: bool) -> None:
    """Retention may take what was never synced; then the snapshot is all that is known."""
    log = new_log(tmp_path, LogConfig())
    for number in range(RECORDS):
        append(log, batch_of([b"x"], producer_id=3, base_sequence=number))
    path = Path(log.segments.active.file.path)
    size_bytes = path.stat().st_size // RECORDS
    log.roll(RECORDS, 0)
    log.high_watermark = RECORDS
    log.advance_log_start(RECORDS)
    log.close()
    data = bytearray(path.read_bytes())
    last = len(data) - size_bytes
    data[last + PRODUCER_ID_POSITION + 7] = 9
    if is_intact:
        crc = crc32c(data[last + ATTRIBUTES_POSITION :])
        data[last + 17 : last + 21] = crc.to_bytes(4, "big")
    path.write_bytes(data)
    again = reload(log, clean_hints(log))
    known = {entry.producer_id: entry.last_sequence for entry in again.producers.entries()}
    assert known == ({3: RECORDS - 2, 9: RECORDS - 1} if is_intact else {3: RECORDS - 1})
    again.abandon()
