"""The options of a read of segment files, with names and formats of Spark's Kafka source.

Where to begin or end: a time for all partitions overrides times by partition, and those override
offsets, as there.  An unknown option is refused, so that a typing error does not read everything.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from ..errors import PipelineError
from ..kafka import ISOLATION_LEVELS
from ..offsets import EARLIEST, LATEST, TopicPartition

T = TypeVar("T")
PerPartition = Mapping[TopicPartition, int]

PARTITION_BYTES_MAX: Final = 128 << 20  # as in Spark's own file sources
READ_COMMITTED: Final = ISOLATION_LEVELS[1]
_FAIL_FAST: Final = "FAILFAST"
_MODES: Final = ("DROPMALFORMED", _FAIL_FAST)
_SIZE: Final = re.compile(r"([0-9]+)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Bound:
    """Where to begin or end in each partition; at most one of the three is set."""

    timestamp_ms: int | None = None
    timestamps_ms: PerPartition | None = None
    offsets: PerPartition | None = None


@dataclass(frozen=True)
class ReadOptions:
    """The options of one read, checked."""

    directories: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    topic_pattern: str | None = None
    assigned: frozenset[TopicPartition] | None = None
    partitions: frozenset[int] | None = None
    starting: Bound = Bound()
    ending: Bound = Bound()
    latest_if_no_time: bool = False
    committed_only: bool = False
    include_headers: bool = False
    to_log_end: bool = False
    fail_on_data_loss: bool = True
    fail_on_damage: bool = False
    show_damage: bool = False
    push_filters: bool = False
    min_partitions: int = 1
    partition_bytes_max: int = PARTITION_BYTES_MAX

    def names(self, topic: str, partition: int) -> bool:
        """Whether a partition was asked for, by whatever option."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        if self.assigned is not None:
            return TopicPartition(topic, partition) in self.assigned
        if self.topics is not None:
            return topic in self.topics
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return not topic.startswith("__")  # internal topics must be named


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse and check the options of `spark.read`; their names are case-insensitive.

    Raises: PipelineError.
    """
    given = {name.lower(): value for name, value in options.items()}
    directories = _directories(given.pop("path", None), given.pop("paths", None))
    take = _Taker(given)
    result = ReadOptions(
        directories=directories,
        topics=_one_value(take, ("topics", "subscribe"), _names),
        topic_pattern=take("subscribePattern", _pattern),
        assigned=take("assign", _assignment),
        partitions=take("partitions", _numbers),
        starting=_bound(take, "starting", "earliest", refused=LATEST),
        ending=_bound(take, "ending", "latest", refused=EARLIEST),
        latest_if_no_time=take("startingOffsetsByTimestampStrategy", _one_of("error", "latest"))
        == "latest",
        committed_only=_one_value(
            take, ("isolation", "kafka.isolation.level"), _one_of(*ISOLATION_LEVELS)
        )
        == READ_COMMITTED,
        include_headers=take("includeHeaders", _flag) or False,
        to_log_end=take("toLogEnd", _flag) or False,
        fail_on_data_loss=take("failOnDataLoss", _flag) is not False,
        fail_on_damage=take("mode", _one_of(*_MODES)) == _FAIL_FAST,
        show_damage=take("showDamage", _flag) or False,
        push_filters=take("pushFilters", _flag) or False,
        min_partitions=take("minPartitions", _count) or 1,
        partition_bytes_max=take("maxPartitionBytes", _size) or PARTITION_BYTES_MAX,
    )
    take.end()
    chosen = (result.topics, result.topic_pattern, result.assigned)
    if sum(choice is not None for choice in chosen) > 1:
        raise PipelineError("give only one of topics, subscribePattern and assign")
    return result


class _Taker:
    """Takes options out one by one; those left at the end are unknown."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given
        self._known: list[str] = []

    def __call__(self, name: str, parse: Callable[[str], T]) -> T | None:
        self._known.append(name)
        text = self._given.pop(name.lower(), None)
        if text is None:
            return None
        try:
            return parse(text)
        except (ValueError, TypeError, AttributeError) as error:
            raise PipelineError(f"option {name}: {text!r} can't be used: {error}") from error

    def end(self) -> None:
        """Refuse options that are left.  Raises: PipelineError."""
        if self._given:
            names = ", ".join(sorted(self._given))
            known = ", ".join(sorted(self._known))
            raise PipelineError(f'format("odradek") has no option {names}; it has {known}')


def _one_value(take: _Taker, names: tuple[str, str], parse: Callable[[str], T]) -> T | None:
    """An option that has two names.  Raises: PipelineError, if they are given different values."""
    one, other = (take(name, parse) for name in names)
    if one is not None and other is not None and one != other:
        raise PipelineError(f"options {names[0]} and {names[1]} mean the same: give only one")
    return other if one is None else one


def _bound(take: _Taker, side: str, word: str, refused: int) -> Bound:
    timestamp_ms = take(f"{side}Timestamp", int)
    timestamps_ms = take(f"{side}OffsetsByTimestamp", _per_partition)
    offsets = take(f"{side}Offsets", lambda text: _offsets(text, word, refused))
    if timestamp_ms is not None:
        return Bound(timestamp_ms=timestamp_ms)
    if timestamps_ms is not None:
        return Bound(timestamps_ms=timestamps_ms)
    return Bound(offsets=offsets or None)


def _offsets(text: str, word: str, refused: int) -> PerPartition:
    if text.strip().lower() == word:
        return {}
    if not text.strip().startswith("{"):
        raise ValueError(f'say "{word}" or offsets as JSON')
    offsets = _per_partition(text)
    for key, offset in offsets.items():
        if offset == refused or offset < EARLIEST:
            raise ValueError(f"{offset} for {key} has no meaning here")
    return offsets


def _per_partition(text: str) -> PerPartition:
    """`{"topic": {"0": 23, "1": -1}}`."""
    return {
        TopicPartition(topic, int(partition)): _whole(number)
        for topic, numbers in _object(text).items()
        for partition, number in numbers.items()
    }


def _assignment(text: str) -> frozenset[TopicPartition]:
    """`{"topic": [0, 1]}`."""
    return frozenset(
        TopicPartition(topic, _whole(partition))
        for topic, partitions in _object(text).items()
        for partition in partitions
    )


def _object(text: str) -> dict[str, Any]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("a JSON object is expected")
    return document


def _whole(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"{number!r} is no whole number")
    return number


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("it names no topic")
    return names


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in text.split(","))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from error
    return text


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("say true or false")
    return text.lower() == "true"


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for word in words:
            if word.lower() == text.lower():
                return word
        raise ValueError(f"say {' or '.join(words)}")

    return parse


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError("it must be at least 1")
    return int(text)


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError("say a size such as 64m")
    return int(match[1]) * _UNITS[match[2].lower()]


def _directories(path: str | None, paths: str | None) -> tuple[str, ...]:
    """Spark passes several paths as JSON."""
    given = json.loads(paths) if paths else [path] if path else []
    if not given:
        raise PipelineError('name a data directory: spark.read.format("odradek").load("/data")')
    return tuple(_local(text) for text in given)


def _local(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("", "file") or not parts.path.startswith("/"):
        raise PipelineError(
            f"{text} can't be read: name a data directory by its absolute path, on a disk that "
            "every executor sees (a file:// address or a plain path)"
        )
    path = unquote(parts.path) if parts.scheme else text
    return path.rstrip("/") or "/"
