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
        "log.cleaner.enable", BOOLEAN, True, "Compact topics that ask for it."
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
        "Wait this long when no log needs compaction.",
        at_least=0,
    )
    log_cleaner_dedupe_buffer_size = Setting(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 * _MIB,
        "Memory for the keys that are seen during compaction, for all compactions together.",
    )
    log_cleaner_io_buffer_load_factor = Setting(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the table of keys may get before compaction stops for a round.",
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
        "Limit of what compaction reads and writes.",
    )
    log_cleaner_delete_retention_ms = Setting(
        "log.cleaner.delete.retention.ms",
        LONG,
        86_400_000,
        "Keep the mark of a deleted key for this long after compaction.",
        at_least=0,
    )
    log_cleaner_min_compaction_lag_ms = Setting(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "Leave a record uncompacted for at least this long.",
        at_least=0,
    )
    log_cleaner_max_compaction_lag_ms = Setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        INT64_MAX,
        "Compact a record at the latest after this long.",
        at_least=1,
    )
    log_cleaner_min_cleanable_ratio = Setting(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Compact a log once this part of it is uncompacted.",
        at_least=0,
        at_most=1,
    )


class FlushSettings:
    """When acknowledged records survive a power failure, and how a broker recovers from one."""

    log_flush_interval_messages = Setting(
        "log.flush.interval.messages",
        LONG,
        INT64_MAX,
        "Answer a write only after an fsync when this many records of the partition are not "
        "durable; 1: every write.",
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
        "How often to look for logs whose log.flush.interval.ms is over.",
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
        "Limit of what that reads.",
        at_least=1,
    )
