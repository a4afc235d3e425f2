"""Aborted transactions: noted with their markers, found by readers, rebuilt, cut."""

from pathlib import Path

import pytest

from odradek.protocol.records import MarkerType, Record, build_batch, read_header
from odradek.protocol.records.builder import control_batch
from odradek.storage.errors import CorruptLog, DiskFull
from odradek.storage.log import reader
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.log_file import Bytes, LogFile
from odradek.storage.log.txn_index import (
    TXN_ENTRY,
    AbortedTransaction,
    TransactionIndex,
    decode_aborted,
    encode_aborted,
)

from ..support import (
    SMALL,
    WALL_MS,
    UnsyncedFileSystem,
    append,
    batch_of,
    files_of,
    new_log,
    reload,
)

ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT


class Producers:
    """Transactional producers that write into one log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._sequences: dict[int, int] = {}

    def write(self, producer_id: int, *values: bytes) -> int:
        """Append a batch within the producer's transaction."""
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + len(values)
        batch = build_batch(
            [Record(i, WALL_MS, None, value) for i, value in enumerate(values)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        return append(self.log, memoryview(batch))

    def end(self, producer_id: int, how: MarkerType) -> int:
        """Append the marker that ends the producer's transaction."""
        marker = control_batch(
            how,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=WALL_MS,
        )
        return append(self.log, memoryview(marker))


def a_life(path: Path, config: LogConfig = SMALL) -> Log:
    """Offsets: 0-1 of 1, 2 of 2, 3 of 1, 4 aborts 1, 5 of 1, 6 commits 2, 7 aborts 1, 8 of 3."""
    log = new_log(path, config)
    producers = Producers(log)
    producers.write(1, b"a", b"b")
    producers.write(2, b"c")
    producers.write(1, b"d")
    producers.end(1, ABORT)
    producers.write(1, b"e")
    producers.end(2, COMMIT)
    producers.end(1, ABORT)
    producers.write(3, b"f")
    log.high_watermark = log.log_end_offset
    return log


FIRST = AbortedTransaction(producer_id=1, first_offset=0, last_offset=4, last_stable_offset=2)
SECOND = AbortedTransaction(producer_id=1, first_offset=5, last_offset=7, last_stable_offset=8)


def test_a_reader_is_told_what_was_aborted(tmp_path: Path) -> None:
    log = a_life(tmp_path)
    assert log.last_stable_offset == 8
    assert log.aborted_transactions(0, 8) == [FIRST, SECOND]
    assert log.aborted_transactions(0, 5) == [FIRST]
    assert log.aborted_transactions(5, 8) == [SECOND]
    assert log.aborted_transactions(3, 4) == [FIRST]
    assert log.aborted_transactions(4, 5) == [FIRST], "the marker itself is read"
    assert log.aborted_transactions(8, 9) == []


def test_the_last_stable_offset_is_not_above_the_high_watermark(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for value in (b"a", b"b", b"c"):
        append(log, batch_of([value]))
    for high_watermark in range(4):
        log.high_watermark = high_watermark
        assert log.last_stable_offset == high_watermark, "there is no transaction"
    append(log, batch_of([b"d"]))
    Producers(log).write(1, b"e")
    assert log.last_stable_offset == 3, "the transaction begins above it"
    log.high_watermark = 5
    assert log.last_stable_offset == 4


def test_the_last_stable_offset_is_where_the_first_unstable_one_begins(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    producers = Producers(log)
    producers.write(1, b"a")
    producers.end(1, COMMIT)
    producers.write(2, b"b")
    for high_watermark, expected in ((0, 0), (1, 0), (2, 2), (3, 2)):
        log.high_watermark = high_watermark
        assert log.last_stable_offset == expected
    log.advance_log_start(3)
    assert log.last_stable_offset == 3, "nor below the log start"
    producers.end(2, COMMIT)
    assert (log.log_end_offset, log.last_stable_offset) == (4, 3), "the marker is above it"


def test_over_many_segments(tmp_path: Path) -> None:
    log = a_life(tmp_path, LogConfig(segment_bytes=100))
    assert len(log.segments) > 5
    assert log.aborted_transactions(0, 8) == [FIRST, SECOND]
    assert log.aborted_transactions(2, 4) == [FIRST]


@pytest.mark.parametrize("segment_bytes", [100, 300, 100_000])
def test_recovery_makes_the_same_index(tmp_path: Path, segment_bytes: int) -> None:
    log = a_life(tmp_path, LogConfig(segment_bytes=segment_bytes))
    log.close()
    before = files_of(log.directory)
    for path in Path(log.directory).glob("*.txnindex"):
        path.write_bytes(b"rubbish")
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    again = reload(log)
    assert again.aborted_transactions(0, 8) == [FIRST, SECOND]
    again.close()
    after = files_of(log.directory)
    assert {n: d for n, d in after.items() if n.endswith(".txnindex") and d} == {
        n: d for n, d in before.items() if n.endswith(".txnindex")
    }


def test_entries_are_decoded_once_and_only_so_many_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(tmp_path, LogConfig(segment_bytes=100))
    producers = Producers(log)
    for _ in range(20):
        producers.write(1, b"a")
        producers.end(1, ABORT)
    log.close()
    log = reload(log)
    indexes = [segment.txn_index for segment in log.segments if not segment.txn_index.is_empty]
    assert len(indexes) == 20
    assert not any(index.is_decoded for index in indexes)
    with monkeypatch.context() as patches:
        patches.setattr(reader, "DECODED_BYTES_MAX", 5 * TXN_ENTRY.size)
        for offset in (0, 4, 8, 12, 30):
            assert len(log.aborted_transactions(offset, offset + 4)) == 2
            assert sum(index.is_decoded for index in indexes) <= 5
        assert indexes[15].is_decoded

        def read(*_: object) -> bytes:
            raise AssertionError("it was decoded before")

        patches.setattr(LogFile, "pread", read)
        assert len(log.aborted_transactions(30, 34)) == 2
    log.reader.forget()
    assert not any(index.is_decoded for index in indexes)


def test_a_truncation_takes_the_aborts_with_it(tmp_path: Path) -> None:
    log = a_life(tmp_path)
    log.truncate(7)
    assert log.aborted_transactions(0, 100) == [FIRST]
    log.truncate(4)
    assert log.aborted_transactions(0, 100) == []
    assert log.last_stable_offset == 0  # both transactions are open again
    Producers(log).end(1, ABORT)
    assert log.aborted_transactions(0, 100) == [FIRST]


@pytest.mark.parametrize("full", [".txnindex", ".log"])
def test_an_abort_that_a_full_disk_fails_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """The log and the index have it both, or neither."""
    log = new_log(tmp_path)
    producers = Producers(log)
    producers.write(1, b"a")
    append_to_file = LogFile.append

    def append_if_there_is_room(file: LogFile, data: Bytes) -> int:
        if file.path.endswith(full):
            raise DiskFull("no space", file.path)
        return append_to_file(file, data)

    monkeypatch.setattr(LogFile, "append", append_if_there_is_room)
    with pytest.raises(DiskFull):
        producers.end(1, ABORT)
    monkeypatch.undo()
    assert log.log_end_offset == 1
    assert log.aborted_transactions(0, 10) == []
    assert log.producers.transactions.first_open_offset() == 0
    assert producers.end(1, ABORT) == 1
    assert log.aborted_transactions(0, 10) == [AbortedTransaction(1, 0, 1, 2)]


def test_an_entry_is_34_bytes() -> None:
    data = encode_aborted(FIRST) + encode_aborted(SECOND)
    assert len(data) == 68
    assert decode_aborted(data) == [FIRST, SECOND]


@pytest.mark.parametrize(
    "data",
    [
        encode_aborted(FIRST)[:-1],
        b"\0\1" + encode_aborted(FIRST)[2:],
        encode_aborted(SECOND) + encode_aborted(FIRST),
        encode_aborted(FIRST._replace(first_offset=9)),
    ],
)
def test_what_is_no_index(data: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_aborted(data)


def test_without_an_abort_there_is_no_file(tmp_path: Path) -> None:
    index = TransactionIndex(UnsyncedFileSystem(), str(tmp_path / "i.txnindex"), None)
    assert index.entries() == []
    index.truncate(0)
    assert not list(tmp_path.iterdir())
    index.append(FIRST)
    assert (tmp_path / "i.txnindex").read_bytes() == encode_aborted(FIRST)
    index.truncate(4)
    assert (tmp_path / "i.txnindex").read_bytes() == b""


def test_the_marker_is_what_counts(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    Producers(log).end(7, ABORT)  # of a transaction that wrote nothing here
    assert log.aborted_transactions(0, 10) == []
    header = read_header(log.segments.active.file.pread(61, 0))
    assert header.is_control
