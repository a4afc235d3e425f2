"""The declarations of the topic settings; `topic_declaration.py` explains their form.

When the effect of a setting is built, its `effect=` is removed.
"""

from typing import Final

from .compression import COMPRESSION_TYPES, gzip_level
from .declaration import BOOLEAN, DOUBLE, INT, INT64_MAX, LIST, LONG, STRING
from .topic_declaration import DEFAULT, STORED, TopicSetting, throttled_replicas

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS


class LogTopicSettings:
    """Segments, batches and timestamps."""

    segment_bytes = TopicSetting(
        "segment.bytes",
        INT,
        1 << 30,
        "Roll before a segment grows past this many bytes.",
        synonyms="log.segment.bytes",
        at_least=14,
    )
    segment_ms = TopicSetting(
        "segment.ms",
        LONG,
        7 * _DAY_MS,
        "Roll a segment whose first record is this old, even if it is not full.",
        synonyms=(("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
        at_least=1,
    )
    segment_jitter_ms = TopicSetting(
        "segment.jitter.ms",
        LONG,
        0,
        "Roll by age up to this much earlier, so that partitions do not roll all at once.",
        synonyms=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
        at_least=0,
    )
    segment_index_bytes = TopicSetting(
        "segment.index.bytes",
        INT,
        10 << 20,
        "Roll before a segment's index grows past this many bytes.",
        synonyms="log.index.size.max.bytes",
        at_least=4,
    )
    index_interval_bytes = TopicSetting(
        "index.interval.bytes",
        INT,
        4096,
        "Add an entry to a segment's indexes after this many bytes.",
        synonyms="log.index.interval.bytes",
        at_least=0,
    )
    max_message_bytes = TopicSetting(
        "max.message.bytes",
        INT,
        (1 << 20) + 12,
        "The largest record batch that is accepted: compressed, with its header, as it was sent "
        "and as it is stored.",
        synonyms="message.max.bytes",
        at_least=0,
    )
    min_insync_replicas = TopicSetting(
        "min.insync.replicas",
        INT,
        1,
        "Replicas, including the leader, that must be in sync for a write with acks=all.",
        synonyms="min.insync.replicas",
        at_least=1,
    )
    compression_type = TopicSetting(
        "compression.type",
        STRING,
        "producer",
        "The codec in which batches are stored; `producer` keeps what the producer chose.",
        synonyms="compression.type",
        choices=COMPRESSION_TYPES,
    )
    compression_gzip_level = TopicSetting(
        "compression.gzip.level",
        INT,
        -1,
        "Effort of gzip, 1 to 9, if compression.type is gzip; -1 leaves it to the library.",
        synonyms="compression.gzip.level",
        at_least=-1,
        at_most=9,
        check=gzip_level,
    )
    compression_lz4_level = TopicSetting(
        "compression.lz4.level",
        INT,
        9,
        "Effort of lz4, if compression.type is lz4. 9 is the fast method, as in Kafka; all other "
        "levels search thoroughly.",
        synonyms="compression.lz4.level",
        at_least=1,
        at_most=17,
    )
    compression_zstd_level = TopicSetting(
        "compression.zstd.level",
        INT,
        3,
        "Effort of zstd, if compression.type is zstd.",
        synonyms="compression.zstd.level",
        at_least=-131072,
        at_most=22,
    )
    message_timestamp_type = TopicSetting(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Keep the producer's timestamps, or replace them with the time of the append.",
        synonyms="log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    )
    message_timestamp_before_max_ms = TopicSetting(
        "message.timestamp.before.max.ms",
        LONG,
        INT64_MAX,
        "How far a record's timestamp may be in the past; older records are refused.",
        synonyms="log.message.timestamp.before.max.ms",
        at_least=0,
    )
    message_timestamp_after_max_ms = TopicSetting(
        "message.timestamp.after.max.ms",
        LONG,
        INT64_MAX,
        "How far a record's timestamp may be in the future; later records are refused.",
        synonyms="log.message.timestamp.after.max.ms",
        at_least=0,
    )
    message_timestamp_difference_max_ms = TopicSetting(
        "message.timestamp.difference.max.ms",
        LONG,
        INT64_MAX,
        "The older name for both limits of a timestamp; a limit that is set by its own name "
        "overrides it.",
        synonyms="log.message.timestamp.difference.max.ms",
        at_least=0,
    )
    message_downconversion_enable = TopicSetting(
        "message.downconversion.enable",
        BOOLEAN,
        False,
        "Whether to convert batches for clients that know only older formats. Such clients are "
        "refused.",
        synonyms="log.message.downconversion.enable",
        built=(False,),
    )
    message_format_version = TopicSetting(
        "message.format.version",
        STRING,
        "3.0-IV1",
        "The format of stored batches; version 2 is the only one, here as in Kafka 3.",
        synonyms="log.message.format.version",
        effect=STORED,
    )


class RetentionTopicSettings:
    """Retention, compaction, deletion of files, and flushes."""

    cleanup_policy = TopicSetting(
        "cleanup.policy",
        LIST,
        ("delete",),
        "Delete old segments, or keep the last record of each key, or both. With `compact`, "
        "records without a key are refused.",
        synonyms="log.cleanup.policy",
        choices=("compact", "delete"),
    )
    retention_ms = TopicSetting(
        "retention.ms",
        LONG,
        7 * _DAY_MS,
        "Delete segments whose records are older than this; -1: never.",
        synonyms=(
            ("log.retention.ms", 1),
            ("log.retention.minutes", _MINUTE_MS),
            ("log.retention.hours", _HOUR_MS),
        ),
        at_least=-1,
    )
    retention_bytes = TopicSetting(
        "retention.bytes",
        LONG,
        -1,
        "Delete the oldest segments of a partition above this size; -1 sets no limit.",
        synonyms="log.retention.bytes",
    )
    delete_retention_ms = TopicSetting(
        "delete.retention.ms",
        LONG,
        _DAY_MS,
        "Keep tombstones for this long after compaction.",
        synonyms="log.cleaner.delete.retention.ms",
        at_least=0,
    )
    min_cleanable_dirty_ratio = TopicSetting(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "Compact a log once this fraction of it is dirty.",
        synonyms="log.cleaner.min.cleanable.ratio",
        at_least=0,
        at_most=1,
    )
    min_compaction_lag_ms = TopicSetting(
        "min.compaction.lag.ms",
        LONG,
        0,
        "The shortest time before a record is compacted.",
        synonyms="log.cleaner.min.compaction.lag.ms",
        at_least=0,
    )
    max_compaction_lag_ms = TopicSetting(
        "max.compaction.lag.ms",
        LONG,
        INT64_MAX,
        "The longest time before a record is compacted.",
        synonyms="log.cleaner.max.compaction.lag.ms",
        at_least=1,
    )
    file_delete_delay_ms = TopicSetting(
        "file.delete.delay.ms",
        LONG,
        _MINUTE_MS,
        "Keep the files of a deleted segment under another name for this long.",
        synonyms="log.segment.delete.delay.ms",
        at_least=0,
    )
    flush_messages = TopicSetting(
        "flush.messages",
        LONG,
        INT64_MAX,
        "Flush a log after this many records.",
        synonyms="log.flush.interval.messages",
        at_least=1,
    )
    flush_ms = TopicSetting(
        "flush.ms",
        LONG,
        INT64_MAX,
        "Flush a log after this long.",
        synonyms=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
        at_least=0,
    )
    preallocate = TopicSetting(
        "preallocate",
        BOOLEAN,
        False,
        "Reserve the full size of a segment when it is made.",
        synonyms="log.preallocate",
        effect=STORED,
    )


class ReplicaTopicSettings:
    """Replication and tiered storage."""

    unclean_leader_election_enable = TopicSetting(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Allow a replica that is not in sync to become the leader; records may be lost.",
        synonyms="unclean.leader.election.enable",
    )
    leader_replication_throttled_replicas = TopicSetting(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "Leaders that send at a throttled rate, as PARTITION:BROKER with commas, or *.",
        check=throttled_replicas,
    )
    follower_replication_throttled_replicas = TopicSetting(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "Followers that fetch at a throttled rate, as PARTITION:BROKER with commas, or *.",
        check=throttled_replicas,
    )
    remote_storage_enable = TopicSetting(
        "remote.storage.enable", BOOLEAN, False, "Store old segments elsewhere.", effect=DEFAULT
    )
    remote_log_copy_disable = TopicSetting(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        "Store no more segments elsewhere.",
        effect=DEFAULT,
    )
    remote_log_delete_on_disable = TopicSetting(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "Delete segments stored elsewhere when remote.storage.enable is switched off.",
        effect=DEFAULT,
    )
    local_retention_bytes = TopicSetting(
        "local.retention.bytes",
        LONG,
        -2,
        "What a tiered partition keeps on local disk; -2: retention.bytes.",
        synonyms="log.local.retention.bytes",
        effect=DEFAULT,
        at_least=-2,
    )
    local_retention_ms = TopicSetting(
        "local.retention.ms",
        LONG,
        -2,
        "How long a tiered partition keeps segments on local disk; -2: retention.ms.",
        synonyms="log.local.retention.ms",
        effect=DEFAULT,
        at_least=-2,
    )


class TopicSettings(LogTopicSettings, RetentionTopicSettings, ReplicaTopicSettings):
    """All settings of a topic."""
