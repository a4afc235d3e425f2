"""Settings of background work on logs: retention, compaction, flushes, checks."""

from .declaration import BOOLEAN, DOUBLE, INT, INT64_MAX, LIST, LONG, Setting

_MIB = 1 << 20


class RetentionSettings:
    """Retention of segments."""

    log_retention_bytes = Setting(
        "log.retention.bytes",
        LONG,
        -1,
        "Delete the oldest segments of a partition above this size; -1 sets no limit.",
    )
    log_retention_ms = Setting(
        "log.retention.ms",
        LONG.or_none,
        None,
        "Delete segments whose records are older than this; -1: never.",
    )
    log_retention_minutes = Setting(
        "log.retention.minutes",
        INT.or_none,
        None,
        "The same in minutes, if log.retention.ms is not set.",
    )
    log_retention_hours = Setting(
        "log.retention.hours",
        INT,
        168,
        "The same in hours, if neither log.retention.ms nor .minutes is set.",
    )
    log_retention_check_interval_ms = Setting(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often to look for segments to delete.",
        at_least=1,
    )
    log_segment_delete_delay_ms = Setting(
        "log.segment.delete.delay.ms",
        LONG,
        60_000,
        "Keep the files of a deleted segment or partition under another name for this long.",
        at_least=0,
    )
    log_cleanup_policy = Setting(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "Delete old segments, or keep the last record of each key, or both.",
        choices=("compact", "delete"),
    )


class CleanerSettings:
    """Compaction, which keeps the last record of each key."""

    log_cleaner_enable = Setting(
        "log.cleaner.enable",
        BOOLEAN,
        True,
        "Compact topics whose cleanup.policy includes `compact`.",
    )
    log_cleaner_threads = Setting(
        "log.cleaner.threads",
        INT,
        1,
        "How many compactions may run at a time, each in a process of its own; at least 1.",
        at_least=0,
    )
    log_cleaner_backoff_ms = Setting(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long to wait if no log needs compaction.",
        at_least=0,
    )
    log_cleaner_dedupe_buffer_size = Setting(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 * _MIB,
        "Memory for the keys of all compactions together.",
    )
    log_cleaner_io_buffer_load_factor = Setting(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the table of keys may get before a round of compaction ends.",
    )
    log_cleaner_io_buffer_size = Setting(
        "log.cleaner.io.buffer.size",
        INT,
        524_288,
        "Memory for reading and writing during compaction.",
        at_least=0,
    )
    log_cleaner_io_max_bytes_per_second = Setting(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "The most bytes that compaction reads and writes in a second.",
    )
    log_cleaner_delete_retention_ms = Setting(
        "log.cleaner.delete.retention.ms",
        LONG,
        86_400_000,
        "Keep tombstones for this long after compaction.",
        at_least=0,
    )
    log_cleaner_min_compaction_lag_ms = Setting(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "The shortest time before a record is compacted.",
        at_least=0,
    )
    log_cleaner_max_compaction_lag_ms = Setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        INT64_MAX,
        "The longest time before a record is compacted.",
        at_least=1,
    )
    log_cleaner_min_cleanable_ratio = Setting(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Compact a log once this fraction of it is dirty.",
        at_least=0,
        at_most=1,
    )


class FlushSettings:
    """When acknowledged records survive a power failure, and how a broker recovers from one."""

    log_flush_interval_messages = Setting(
        "log.flush.interval.messages",
        LONG,
        INT64_MAX,
        "Once this many records of a partition are not durable, answer the write only after an "
        "fsync; 1: every write.",
        at_least=1,
    )
    log_flush_interval_ms = Setting(
        "log.flush.interval.ms",
        LONG.or_none,
        None,
        "Make records durable at the latest after this long; unset: as "
        "log.flush.scheduler.interval.ms.",
    )
    log_flush_scheduler_interval_ms = Setting(
        "log.flush.scheduler.interval.ms",
        LONG,
        INT64_MAX,
        "How often to look for logs whose log.flush.interval.ms has passed.",
    )
    num_recovery_threads_per_data_dir = Setting(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "How many logs of a directory are recovered at a time after an unclean stop, each in a "
        "process of its own.",
        at_least=1,
        kafka_default="1",
    )
    num_replica_alter_log_dirs_threads = Setting(
        "num.replica.alter.log.dirs.threads",
        INT.or_none,
        None,
        "How many replicas are moved between log directories at a time; unset: as many as there "
        "are directories.",
    )
    odradek_scrub_interval_ms = Setting(
        "odradek.scrub.interval.ms",
        LONG,
        7 * 86_400_000,
        "Read every finished segment again this often and verify its checksums; -1: never.",
        at_least=-1,
    )
    odradek_scrub_max_bytes_per_second = Setting(
        "odradek.scrub.max.bytes.per.second",
        LONG,
        8 * _MIB,
        "The most bytes that the scrubber reads in a second.",
        at_least=1,
    )
