"""Producers and transaction indexes at a load: what is believed, what is made anew."""

from pathlib import Path

import pytest

from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.producer_rebuild import transaction_index_problem
from odradek.storage.log.producer_snapshot import encode_snapshot, snapshot_path

from ..support import UNCLEAN, append, batch_of, clean_hints, new_log, reload
from .test_txn_index import ABORT, FIRST, SECOND, Producers, a_life


def index_problems(log: Log) -> list[str | None]:
    return [transaction_index_problem(segment, log.segments) for segment in log.segments]


@pytest.mark.parametrize("clean", [True, False])
def test_right_transaction_indexes_are_left_alone(tmp_path: Path, clean: bool) -> None:
    log = a_life(tmp_path)
    assert set(index_problems(log)) == {None}
    log.close()
    again = reload(log, clean_hints(log) if clean else UNCLEAN)
    assert again.aborted_transactions(0, 8) == [FIRST, SECOND]
    assert again.loaded is None or again.loaded.indexes_rebuilt == 0
    again.abandon()


def test_one_wrong_transaction_index_is_rebuilt(tmp_path: Path) -> None:
    """Of the producer with the smallest id."""
    log = new_log(tmp_path)
    producers = Producers(log)
    producers.write(0, b"a")
    producers.end(0, ABORT)
    log.high_watermark = log.log_end_offset
    expected = log.aborted_transactions(0, 2)
    assert len(expected) == 1
    log.close()
    Path(log.segments.active.txn_index.file.path).write_bytes(b"rubbish")
    again = reload(log, clean_hints(log))
    assert again.aborted_transactions(0, 2) == expected
    assert again.loaded is not None
    assert again.loaded.indexes_rebuilt == 1
    again.abandon()


def test_batches_without_a_producer_make_none_known(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig())
    append(log, batch_of([b"a"], producer_id=3))
    append(log, batch_of([b"a"]))
    log.close()
    Path(snapshot_path(log.directory, 2)).unlink()
    again = reload(log, clean_hints(log))
    assert [entry.producer_id for entry in again.producers.entries()] == [3]
    again.abandon()


def test_a_snapshot_that_knows_later_batches_is_not_believed(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig())
    for number in range(3):
        append(log, batch_of([b"a"], producer_id=3, base_sequence=number))
    log.close()
    Path(snapshot_path(log.directory, 3)).unlink()
    Path(snapshot_path(log.directory, 2)).write_bytes(encode_snapshot(log.producers))
    again = reload(log, clean_hints(log))
    entry = again.producers.entry(3)
    assert entry is not None
    assert [batch.last_offset for batch in entry.batches] == [0, 1, 2]
    again.abandon()
