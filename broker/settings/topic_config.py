"""The settings of a topic as parsed values, with their checks."""

from collections.abc import Container, Mapping
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.storage.log.log_config import LogConfig

from .compression import Compression, compression_of
from .declaration import INT64_MAX, ConfigError, Value, declared_in, text_of
from .topic import TopicSettings
from .topic_declaration import DEFAULT, STORED, TopicSetting, replicas_of

RETENTION_MS: Final = "retention.ms"
TOPIC_SETTINGS: Final[dict[str, TopicSetting[Value]]] = {
    name: setting
    for group in TopicSettings.__bases__
    for name, setting in declared_in(group).items()
    if isinstance(setting, TopicSetting)
}


class TopicConfig(TopicSettings):
    """The settings of one topic; shared by its partitions, replaced as a whole on a change.

    Each is an attribute: `config.segment_bytes`.  Timestamp bounds that are not set take the value
    of message.timestamp.difference.max.ms.
    """

    compression: Compression | None
    """How batches are stored; None: as they were sent."""
    is_compacted: bool
    is_log_append_time: bool
    log_config: LogConfig
    throttled_leaders: Container[tuple[int, int]]
    """(partition, broker) of the leaders that are throttled."""
    throttled_followers: Container[tuple[int, int]]
    """(partition, broker) of the followers that are throttled."""

    def __init__(
        self,
        values: Mapping[str, Value],
        *,
        producer_id_expiration_ms: int,
        decompressed_batch_bytes_max: int,
    ) -> None:
        """`values`: one for each of `TOPIC_SETTINGS`, by name."""
        own = self.__dict__
        own.update((TOPIC_SETTINGS[name].attribute, value) for name, value in values.items())
        for name in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
            if own[name] == INT64_MAX:
                own[name] = own["message_timestamp_difference_max_ms"]
        self.compression = compression_of(
            self.compression_type,
            gzip_level=self.compression_gzip_level,
            lz4_level=self.compression_lz4_level,
            zstd_level=self.compression_zstd_level,
        )
        self.is_compacted = "compact" in self.cleanup_policy
        self.is_log_append_time = self.message_timestamp_type == "LogAppendTime"
        self.throttled_leaders = replicas_of(self.leader_replication_throttled_replicas)
        self.throttled_followers = replicas_of(self.follower_replication_throttled_replicas)
        self.log_config = LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            segment_jitter_ms=self.segment_jitter_ms,
            index_interval_bytes=self.index_interval_bytes,
            segment_index_bytes=self.segment_index_bytes,
            message_timestamp_log_append=self.is_log_append_time,
            record_bytes_max=decompressed_batch_bytes_max,
            producer_id_expiration_ms=producer_id_expiration_ms,
            deletes="delete" in self.cleanup_policy,
            compacts=self.is_compacted,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            file_delete_delay_ms=self.file_delete_delay_ms,
            delete_retention_ms=self.delete_retention_ms,
            min_cleanable_dirty_ratio=self.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
            max_compaction_lag_ms=self.max_compaction_lag_ms,
            flush_messages=self.flush_messages,
            flush_ms=self.flush_ms,
        )


def broker_value(setting: TopicSetting[Value], given: Mapping[str, Value]) -> Value:
    """The value for topics that do not set their own; `given`: what is set on the broker."""
    for name, factor in setting.synonyms:
        value = given.get(name)
        if value is not None:
            if isinstance(value, int) and factor != 1:
                value *= factor
            is_never = setting.name == RETENTION_MS and isinstance(value, int) and value < 0
            return -1 if is_never else value
    return setting.default


def check_overrides(overrides: Mapping[str, str | None], given: Mapping[str, Value]) -> list[str]:
    """Check the settings of a new topic; return those that are stored but have no effect yet.

    Raises: Refused with INVALID_CONFIG.
    """
    stored = []
    values = {name: broker_value(setting, given) for name, setting in TOPIC_SETTINGS.items()}
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise _refuse(f"there is no topic config named {name[:100]!r}")
        if text is None:
            raise _refuse(f"the topic config {name} has no value")
        try:
            value = setting.parse(text)
        except ConfigError as error:
            raise _refuse(str(error)) from None
        if value != values[name]:
            if setting.effect == DEFAULT:
                shown = text_of(values[name])
                raise _refuse(f"{name}={text} is not built yet: only {shown}, the default, is")
            if setting.effect == STORED:
                stored.append(f"{name}={text_of(value)}")
    try:
        check_compaction_lags(overrides, given)
    except ConfigError as error:
        raise _refuse(str(error)) from None
    return stored


def check_compaction_lags(overrides: Mapping[str, str | None], given: Mapping[str, Value]) -> None:
    """Check that a topic's minimum compaction lag does not exceed the maximum.

    Raises: ConfigError.
    """
    texts = {name: text for name, text in overrides.items() if text is not None}
    values, _ = read_overrides(texts, given)
    lag_min, lag_max = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(lag_min, int)
    assert isinstance(lag_max, int)
    if lag_min > lag_max:
        raise ConfigError(
            f"min.compaction.lag.ms={lag_min} must not be above max.compaction.lag.ms={lag_max}"
        )


def read_overrides(
    overrides: Mapping[str, str], given: Mapping[str, Value]
) -> tuple[dict[str, Value], list[str]]:
    """The value of every topic setting, and error texts for invalid `overrides`.

    Another broker may have stored settings that this one does not support; that is no failure.
    """
    values: dict[str, Value] = {}
    unusable = []
    for name, setting in TOPIC_SETTINGS.items():
        values[name] = broker_value(setting, given)
        text = overrides.get(name)
        if text is not None:
            try:
                values[name] = setting.parse(text)
            except ConfigError as error:
                unusable.append(str(error))
    unusable += [f"there is no topic config named {k!r}" for k in overrides.keys() - values.keys()]
    return values, unusable


def _refuse(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_CONFIG, message)
