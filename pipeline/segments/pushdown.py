"""Narrows a read by Spark's filters (`pushFilters`, PySpark 4.1 and later).

Spark evaluates every filter again; here they only save reading. Filters are distinguished by the
names of their classes, so that this module can be imported and tested with an older PySpark.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Narrowing:
    """Conditions that rows must meet; by default there are none."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_min: int = 0
    offset_max: int = _OFFSET_MAX
    timestamp_ms_min: int | None = None

    def keeps(self, topic: str, partition: int) -> bool:
        """Whether a partition may have rows that meet them."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def clip(self, start: int, end: int | None) -> tuple[int, int | None]:
        """The part of a range of offsets that may have rows that meet them."""
        start = max(start, self.offset_min)
        if self.offset_max < _OFFSET_MAX:
            end = self.offset_max + 1 if end is None else min(end, self.offset_max + 1)
        return start, end


EVERYTHING: Final = Narrowing()


def narrow(filters: Iterable[Any]) -> Narrowing:
    """The conditions of all filters together."""
    result = Narrowing()
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) == 1:
            result = _narrow_one(result, attribute[0].lower(), type(each).__name__, each.value)
    return result


def _narrow_one(old: Narrowing, column: str, kind: str, value: Any) -> Narrowing:
    if column == "topic":
        names = _values(kind, value, str)
        return old if names is None else replace(old, topics=_both(old.topics, names))
    if column == "partition":
        numbers = _values(kind, value, int)
        return old if numbers is None else replace(old, partitions=_both(old.partitions, numbers))
    if column == "offset":
        low, high = _interval(kind, value)
        return replace(
            old, offset_min=max(old.offset_min, low), offset_max=min(old.offset_max, high)
        )
    if column == "timestamp":
        first_ms = _first_ms(kind, value)
        if first_ms is not None:
            return replace(old, timestamp_ms_min=max(first_ms, old.timestamp_ms_min or first_ms))
    return old


def _values(kind: str, value: Any, type_: type) -> frozenset[Any] | None:
    values = (value,) if kind == "EqualTo" else value if kind == "In" else None
    if values is None or not all(isinstance(each, type_) for each in values):
        return None
    return frozenset(values)


def _both(old: frozenset[Any] | None, new: frozenset[Any]) -> frozenset[Any]:
    return new if old is None else old & new


def _interval(kind: str, value: Any) -> tuple[int, int]:
    """The least and the greatest offset that a filter lets through."""
    if kind == "In" and value and all(isinstance(each, int) for each in value):
        return min(value), max(value)
    if not isinstance(value, int):
        return 0, _OFFSET_MAX
    match kind:
        case "EqualTo":
            return value, value
        case "GreaterThan":
            return value + 1, _OFFSET_MAX
        case "GreaterThanOrEqual":
            return value, _OFFSET_MAX
        case "LessThan":
            return 0, value - 1
        case "LessThanOrEqual":
            return 0, value
    return 0, _OFFSET_MAX


def _first_ms(kind: str, value: Any) -> int | None:
    """The earliest timestamp that may pass the filter; None: unknown."""
    if kind not in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(milliseconds=1)
