"""A rollup's spec as dataclasses; rollup_reading.py makes them from a YAML file."""

from dataclasses import dataclass
from typing import Final

from .rollup_yaml import Entry

RECORD_FIELDS: Final = {
    "record_key": "string",
    "record_topic": "string",
    "record_partition": "int",
    "record_timestamp": "timestamp",
}
"""The fields that every record has, whatever its value."""


@dataclass(frozen=True, slots=True)
class Source:
    """Which records to read."""

    topics: tuple[str, ...]
    topics_pattern: str | None
    starting_offsets: str
    """`earliest` or `latest`: where a rollup without a checkpoint begins."""
    isolation_level: str
    max_offsets_per_trigger: int | None
    bootstrap_servers: str | None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record's value."""

    name: str
    type: str
    """As Spark SQL writes it."""
    nullable: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """The format and fields of a record's value."""

    format: str
    fields: tuple[Field, ...]
    separator: str


@dataclass(frozen=True, slots=True)
class EventTime:
    """Which field says when an event happened."""

    field: str
    ahead_ms_max: int | None
    """A record whose event time is further ahead of its timestamp is bad; None: no limit."""


@dataclass(frozen=True, slots=True)
class Window:
    """Windows begin at multiples of `slide_ms` since 1970 and are `size_ms` long."""

    size_ms: int
    slide_ms: int


@dataclass(frozen=True, slots=True)
class Measure:
    """One aggregate."""

    name: str
    expression: str
    """Spark SQL."""
    entry: Entry
    """The place in the file, for Spark's errors."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where the windows go."""

    mode: str
    """`append`: each window once, when it closes; `update`: whenever it changes."""
    topic: str | None
    parquet: str | None


@dataclass(frozen=True, slots=True)
class Rollup:
    """A whole spec."""

    name: str
    source: Source
    schema: Schema
    event_time: EventTime
    watermark_ms: int
    window: Window
    key: tuple[str, ...]
    measures: tuple[Measure, ...]
    output: Output
    dead_letters: str | None
    checkpoint: str
    trigger: str | None

    def type_of(self, field: str) -> str:
        """The type of a field of the value or of the record."""
        return types_of(self.schema)[field]


def types_of(schema: Schema) -> dict[str, str]:
    """The types of all fields, those of the value and those of the record."""
    return {field.name: field.type for field in schema.fields} | RECORD_FIELDS
