"""The settings of a topic that its logs need; names and defaults are those of Kafka's topics."""

from dataclasses import dataclass

from odradek.protocol.primitives import INT32_MAX, INT64_MAX


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One topic's settings; shared by its partitions, replaced as a whole when they change."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    message_timestamp_log_append: bool = False  # message.timestamp.type = LogAppendTime
    record_bytes_max: int = INT32_MAX  # limit of a decompressed batch in a timestamp look-up
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    deletes: bool = True  # cleanup.policy
    compacts: bool = False  # cleanup.policy
    retention_ms: int = 7 * 24 * 3600 * 1000  # -1: no limit
    retention_bytes: int = -1  # -1: no limit
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
