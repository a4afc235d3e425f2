"""Settings of topics and of the logs that hold them."""

from .declaration import BOOLEAN, INT, INT64_MAX, LONG, STRING, Setting

_MIB = 1 << 20


class TopicDefaultSettings:
    """Creation and deletion of topics, and the defaults of their settings."""

    auto_create_topics_enable = Setting(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Create a topic when a client requests the metadata of one that does not exist.",
    )
    delete_topic_enable = Setting(
        "delete.topic.enable", BOOLEAN, True, "Allow clients to delete topics."
    )
    num_partitions = Setting(
        "num.partitions",
        INT,
        1,
        "Partitions of a topic if the request that creates it does not say how many.",
        at_least=1,
    )
    default_replication_factor = Setting(
        "default.replication.factor",
        INT,
        1,
        "Replicas of a topic if the request that creates it does not say how many.",
        at_least=1,
    )
    min_insync_replicas = Setting(
        "min.insync.replicas",
        INT,
        1,
        "Replicas, including the leader, that must be in sync for a write with acks=all. A topic "
        "with fewer replicas needs all of them.",
        at_least=1,
    )
    message_max_bytes = Setting(
        "message.max.bytes",
        INT,
        _MIB + 12,
        "The largest record batch that is accepted, as it was sent: compressed, with its header.",
        at_least=0,
    )
    compression_type = Setting(
        "compression.type",
        STRING,
        "producer",
        "The codec in which batches are stored; `producer` keeps what the producer chose.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        built=("producer",),
    )
    log_message_downconversion_enable = Setting(
        "log.message.downconversion.enable",
        BOOLEAN,
        False,
        "Whether to convert batches for clients that know only older formats. Such clients are "
        "refused.",
        built=(False,),
        kafka_default="true",
    )
    log_message_timestamp_type = Setting(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Keep the producer's timestamps, or replace them with the time of the append.",
        choices=("CreateTime", "LogAppendTime"),
    )
    log_message_timestamp_before_max_ms = Setting(
        "log.message.timestamp.before.max.ms",
        LONG,
        INT64_MAX,
        "How far a record's timestamp may be in the past; older records are refused.",
        at_least=0,
    )
    log_message_timestamp_after_max_ms = Setting(
        "log.message.timestamp.after.max.ms",
        LONG,
        INT64_MAX,
        "How far a record's timestamp may be in the future; later records are refused.",
        at_least=0,
    )
    log_message_timestamp_difference_max_ms = Setting(
        "log.message.timestamp.difference.max.ms",
        LONG,
        INT64_MAX,
        "The older name for both limits of a timestamp; a limit that is set by its own name "
        "overrides it.",
        at_least=0,
    )


class LogSettings:
    """The data directory, its segments, and when they are made durable."""

    log_dir = Setting(
        "log.dir",
        STRING,
        "odradek-data",
        "The data directory, if log.dirs is not set.",
        kafka_default="/tmp/kafka-logs",
    )
    log_dirs = Setting(
        "log.dirs",
        STRING.or_none,
        None,
        "The data directories, separated by commas. A new partition is created in the one with "
        "the fewest partitions.",
    )
    log_segment_bytes = Setting(
        "log.segment.bytes",
        INT,
        1 << 30,
        "Roll before a segment grows past this many bytes.",
        at_least=14,
    )
    log_roll_ms = Setting(
        "log.roll.ms",
        LONG.or_none,
        None,
        "Roll a segment whose first record is this old, even if it is not full.",
        at_least=1,
    )
    log_roll_hours = Setting(
        "log.roll.hours",
        INT,
        168,
        "The same in hours, if log.roll.ms is not set.",
        at_least=1,
    )
    log_roll_jitter_ms = Setting(
        "log.roll.jitter.ms",
        LONG.or_none,
        None,
        "Roll by age up to this much earlier, so that partitions do not roll all at once.",
        at_least=0,
    )
    log_roll_jitter_hours = Setting(
        "log.roll.jitter.hours",
        INT,
        0,
        "The same in hours, if log.roll.jitter.ms is not set.",
        at_least=0,
    )
    log_index_interval_bytes = Setting(
        "log.index.interval.bytes",
        INT,
        4096,
        "Add an entry to a segment's indexes after this many bytes.",
        at_least=0,
    )
    log_index_size_max_bytes = Setting(
        "log.index.size.max.bytes",
        INT,
        10 * _MIB,
        "Roll before a segment's index grows past this many bytes.",
        at_least=4,
    )
    log_flush_offset_checkpoint_interval_ms = Setting(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often to checkpoint the recovery point of each log.",
        at_least=0,
    )
    log_flush_start_offset_checkpoint_interval_ms = Setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often to checkpoint the log start offsets.",
        at_least=0,
    )
    replica_high_watermark_checkpoint_interval_ms = Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        "How often to checkpoint the high watermarks.",
    )
    producer_id_expiration_ms = Setting(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "Forget the sequence numbers of an idempotent producer after this long without a write.",
        at_least=1,
    )
