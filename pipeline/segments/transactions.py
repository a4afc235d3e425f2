"""What read_committed leaves out: open transactions at the end, aborted ones before.

Source: the transaction index that brokers write, and their producer snapshots.
"""

import logging
from collections.abc import Mapping

from odradek.protocol.records import BatchHeader
from odradek.storage.errors import CorruptLog
from odradek.storage.log.producer_snapshot import SUFFIX, decode_snapshot, snapshot_path
from odradek.storage.log.producer_state import ProducerState
from odradek.storage.log.txn_index import decode_aborted

from ..errors import PipelineError
from .batches import pass_over, read_batches
from .log_view import LogView

logger = logging.getLogger(__name__)

Aborted = Mapping[int, list[tuple[int, int]]]
"""Producer id to the first and last offsets of its aborted transactions, both inclusive."""


def first_open_offset(view: LogView, offset_end: int | None) -> int | None:
    """The first offset of the earliest transaction that is open at `offset_end`; None: none is.

    Raises: UnsupportedFormat, LogDirFailed.
    """
    offset, state = _newest_snapshot(view, offset_end)
    for batch in read_batches(view, offset, offset_end, pass_over):
        header = batch.header
        if header.producer_id >= 0 and header.base_offset >= offset:
            state.note(header, batch.data, header.base_offset, header.max_timestamp)
    return state.open_transaction_first_offset()


def aborted_transactions(view: LogView, offset_start: int, offset_end: int | None) -> Aborted:
    """The aborted transactions that touch a range.  Raises: PipelineError, LogDirFailed."""
    found: dict[int, list[tuple[int, int]]] = {}
    for segment in view.from_offset(offset_start):
        path = segment.txn_index_path
        try:
            entries = decode_aborted(view.files.read_bytes(path) or b"")
        except CorruptLog as error:
            raise PipelineError(
                f"{path} does not tell which transactions were aborted ({error}): repair it with "
                "odradek log repair, or read with isolation read_uncommitted"
            ) from error
        for entry in entries:
            if entry.last_offset >= offset_start:
                interval = (entry.first_offset, entry.last_offset)
                found.setdefault(entry.producer_id, []).append(interval)
            if offset_end is not None and entry.last_stable_offset >= offset_end:
                return found
    return found


def is_aborted(header: BatchHeader, aborted: Aborted) -> bool:
    """Whether a batch belongs to an aborted transaction."""
    intervals = aborted.get(header.producer_id)
    if intervals is None or not header.is_transactional:
        return False
    return any(first <= header.base_offset <= last for first, last in intervals)


def _newest_snapshot(view: LogView, offset_end: int | None) -> tuple[int, ProducerState]:
    """The newest readable producer snapshot up to an offset; else the log's start, no producers."""
    stems = (name.removesuffix(SUFFIX) for name in view.names if name.endswith(SUFFIX))
    offsets = sorted(int(stem) for stem in stems if stem.isdigit())
    for offset in reversed(offsets):
        if offset_end is not None and offset > offset_end:
            continue
        path = snapshot_path(view.directory, offset)
        try:
            return offset, decode_snapshot(view.files.read_bytes(path) or b"")
        except ValueError as error:
            logger.warning("producer snapshot unreadable, ignored path=%s: %s", path, error)
    return view.first_offset or 0, ProducerState()
