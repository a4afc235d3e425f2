"""Looking at the files of a data directory without changing them, and mending what is broken.

`pieces.py` reads a segment over damage; `check_*.py` say what is wrong with the files of a segment,
a partition, a directory; `repair*.py` turns that into changes, done only when they are applied;
`lines*.py` shows every file as JSON objects. `ReadOnlyFileSystem` holds all but the repair to
reading.
"""

from .findings import Finding, Grade
from .pieces import Piece, SegmentReader
from .read_only import ReadOnlyFileSystem

__all__ = ["Finding", "Grade", "Piece", "ReadOnlyFileSystem", "SegmentReader"]
