"""Compaction: only the newest record of each key is kept.  Source: kafka.log.Cleaner, 3.9.

A cleaning has two passes. The first reads the dirty part of the log, which no cleaning has read
before, and notes the last offset of every key (`build.py`, `offset_map.py`). The second copies all
segments from the log's first on, without the records for which the map has a newer one
(`retain.py`); small adjacent segments are merged (`groups.py`). Offsets never change: a batch keeps
its first and last offset, whatever records it loses.

A tombstone, a record without a value, is kept for a while: the first cleaning that keeps it writes
a time into its batch, the delete horizon (KIP-534), and the first cleaning after that time drops
it. A transaction marker gets its delete horizon when the last record of its transaction is gone.
Records of aborted transactions are dropped at once (`transactions.py`). The last batch of a
producer is kept, if necessary as an empty one, since only it has the producer's sequence number.

Nothing here changes a file of the log: the result is beside it, in files that end in `.cleaned`.
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
