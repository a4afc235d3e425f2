"""What loading a log has met, for who counts and for who must know what is lost."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class LoadReport:
    """Filled in while a log is loaded; all zero after a clean stop with sound files."""

    is_recovered: bool = False
    scanned_bytes: int = 0
    lost_committed: int = 0
    """Offsets below the checkpointed high watermark that are not in the log any more: its replica
    should not lead before it has caught up with another one."""
    gap_offset: int | None = None
    """The first offset that is missing before others that are there."""
    bad_batches: int = 0
    set_aside_bytes: int = 0
    indexes_rebuilt: int = 0

    def to_json(self) -> dict[str, Any]:
        """For a job's result."""
        return asdict(self)


def report_from_json(data: dict[str, Any]) -> LoadReport:
    """What `to_json` gave."""
    return LoadReport(**data)
