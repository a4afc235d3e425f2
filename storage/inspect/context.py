"""What is known of a partition before its files are read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Context:
    """The marker and the checkpoints of the data directory, as far as they are there, and what the
    caller wants to know."""

    clean: bool = False
    """Whether the last stop was a clean one, so that every side file must be complete."""
    running: bool = False
    """Whether a broker writes meanwhile."""
    recovery_point: int = 0
    high_watermark: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None
    allow_gaps: bool = False
    """Whether offsets may be missing between batches, as after a compaction."""
    deep: bool = False
    """Whether every record is decoded."""
    record_bytes_max: int = 1 << 30
    """Bound of a batch's records after decompression."""
