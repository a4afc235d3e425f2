"""The header in which a replayed or mirrored record says where it came from.

`odradek.source` is the last header of every record that replay and mirror write; its value is
`TOPIC/PARTITION/OFFSET`, and `TOPIC/PARTITION/OFFSET#NAME` if the job was given a name.  Records
that were copied twice have two, and the last one counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .errors import PipelineError
from .spark_types import DataFrame

HEADER: Final = "odradek.source"
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_MARK: Final = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+)/(?P<offset>\d+)(?:#(?P<name>[A-Za-z0-9._-]+))?"
)

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a record came from, and the name of the job that copied it ("": none)."""

    topic: str
    partition: int
    offset: int
    name: str = ""


def encoded(mark: Mark) -> bytes:
    """The header's value."""
    name = f"#{mark.name}" if mark.name else ""
    return f"{mark.topic}/{mark.partition}/{mark.offset}{name}".encode()


def mark_of(headers: Headers) -> Mark | None:
    """The last mark; None if there is none, or if its value is not one of ours."""
    for key, value in reversed(headers):
        if key == HEADER:
            return _decoded(value)
    return None


def _decoded(value: bytes | None) -> Mark | None:
    found = _MARK.fullmatch((value or b"").decode("ascii", errors="replace"))
    if found is None:
        return None
    partition, offset = int(found["partition"]), int(found["offset"])
    return Mark(found["topic"], partition, offset, found["name"] or "")


def check_name(name: str) -> None:
    """Refuse a job name that could not be read back from a mark.  Raises: PipelineError."""
    if name and not NAME.fullmatch(name):
        raise PipelineError(
            f"{name!r} cannot name a job: use at most 100 letters, digits, '.', '_' and '-'"
        )


def with_source(records: DataFrame) -> DataFrame:
    """Records of Spark's Kafka source (with headers) and where each came from.

    Adds `source_topic`, `source_partition`, `source_offset` and `source_name`, all null for a
    record without a mark, and removes the mark from `headers`, which become null if no other is
    left, as at the source.
    """
    from pyspark.sql import functions as f

    at = "array_position(reverse(transform(headers, h -> h.key)), '" + HEADER + "')"
    # A position from the end, starting at 1, because the last mark counts.
    marked = records.withColumn("_at", f.expr(f"cast(nullif({at}, 0) as int)"))
    text = f.expr("cast(element_at(headers, -_at).value as string)")
    marked = marked.withColumn("_mark", text)
    parts = {"topic": 1, "partition": 2, "offset": 3, "name": 4}
    types = {"topic": "string", "partition": "int", "offset": "bigint", "name": "string"}
    for part, group in parts.items():
        pattern = r"^([A-Za-z0-9._-]+)/(\d+)/(\d+)(?:#([A-Za-z0-9._-]+))?$"
        found = f.regexp_extract("_mark", pattern, group).cast(types[part])
        marked = marked.withColumn(f"source_{part}", f.when(f.col("_mark").rlike(pattern), found))
    before = "slice(headers, 1, size(headers) - _at)"
    after = "slice(headers, size(headers) - _at + 2, _at - 1)"
    rest = f.expr(f"concat({before}, {after})")
    is_ours = f.col("source_topic").isNotNull()
    left = f.when(f.size(rest) > 0, rest)
    marked = marked.withColumn("headers", f.when(is_ours, left).otherwise(f.col("headers")))
    return marked.drop("_at", "_mark")
