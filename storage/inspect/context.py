"""What is known about a partition before its files are read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Context:
    """The marker and the checkpointed offsets of the data directory, as far as they exist, and the
    caller's options."""

    clean: bool = False
    """Whether the last shutdown was clean, so that every side file must be complete."""
    running: bool = False
    """Whether a broker is running on the directory."""
    recovery_point: int = 0
    high_watermark: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None
    allow_gaps: bool = False
    """Whether offsets may be missing between batches, as after a compaction."""
    deep: bool = False
    """Whether to decode every record."""
    record_bytes_max: int = 1 << 30
    """Limit of a batch's decompressed records."""
