"""What loading a log found, for metrics and for reporting lost records."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class LoadReport:
    """Filled in while a log is loaded; all zero after a clean shutdown with intact files."""

    is_recovered: bool = False
    scanned_bytes: int = 0
    lost_committed: int = 0
    """Offsets below the checkpointed high watermark that are no longer in the log. This replica
    should not lead before it has caught up with another one."""
    gap_offset: int | None = None
    """The first missing offset that has others after it."""
    bad_batches: int = 0
    set_aside_bytes: int = 0
    indexes_rebuilt: int = 0

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, for a job's result."""
        return asdict(self)


def report_from_json(data: dict[str, Any]) -> LoadReport:
    """The inverse of `to_json`."""
    return LoadReport(**data)
