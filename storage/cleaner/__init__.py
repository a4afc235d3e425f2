"""Compaction: of the records with one key only the newest stays.  Source: kafka.log.Cleaner, 3.9.

Two passes. The first reads the dirty part of the log, what no pass has read before, and notes the
last offset of every key (`build.py`, `offset_map.py`). The second copies all segments from the
log's first on and leaves out what the map knows a newer record for (`retain.py`); small neighbours
become one segment (`groups.py`). Offsets never change: a batch keeps its ends, whatever it loses.

A tombstone, a record without a value, outlives what it deletes: the first pass that keeps it
writes a date into its batch, the delete horizon (KIP-534), and the first pass after the date drops
it. The marker that ends a transaction is dated when the last record of its transaction has gone;
records of aborted transactions go at once (`transactions.py`). The last batch of a producer stays
at least as an empty one, since it is all that tells its sequence number.

Nothing here changes a file of the log: the result lies beside it, in files that end in `.cleaned`.
"""

from .clean import CleanRequest, CleanResult, NewSegment, clean
from .progress import CleanStatistics
from .source import CleanSegment

__all__ = [
    "CleanRequest",
    "CleanResult",
    "CleanSegment",
    "CleanStatistics",
    "NewSegment",
    "clean",
]
