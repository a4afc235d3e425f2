"""Statistics and progress of a cleaning."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class CleanStatistics:
    """The numbers of one cleaning, as Kafka's cleaner logs them."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    map_entries: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    invalid_records: int = 0  # without a key, in the dirty part


class Progress:
    """Counts the bytes read and written, and reports their total."""

    __slots__ = ("_done_bytes", "_report", "statistics")

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._done_bytes = 0
        self.statistics = CleanStatistics()

    def _count(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        self._report(self._done_bytes)

    def mapped(self, size_bytes: int) -> None:
        """Count bytes that the first pass read."""
        self.statistics.map_bytes_read += size_bytes
        self._count(size_bytes)

    def read(self, size_bytes: int) -> None:
        """Count bytes that the second pass read."""
        self.statistics.bytes_read += size_bytes
        self._count(size_bytes)

    def wrote(self, size_bytes: int) -> None:
        """Count bytes that the second pass wrote."""
        self.statistics.bytes_written += size_bytes
        self._count(size_bytes)
