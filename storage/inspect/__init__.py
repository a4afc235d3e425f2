"""Checks, dumps and repairs the files of a data directory.

`pieces.py` reads a segment past damage. `check_*.py` report what is wrong with the files of a
segment, a partition or a directory. `repair*.py` turn that into steps, which change files only when
they are applied. `lines.py` and `batch_lines.py` dump every file as JSON objects. All except repair
use `ReadOnlyFileSystem`.
"""

from .findings import Finding, Grade
from .pieces import Piece, SegmentReader
from .read_only import ReadOnlyFileSystem

__all__ = ["Finding", "Grade", "Piece", "ReadOnlyFileSystem", "SegmentReader"]
