"""Compares records with what a test expects, and shows a difference as a person would.

    assert_records(odradek.records("orders"), ["one", {"id": 2}, Expected("three", key="k")])

Only what is given of a record is compared: a text or bytes is its value, a dict or list its value
as JSON, and `Expected` also names its key, headers, partition, offset or timestamp. Other objects
are compared by `==`, so `pytest.approx` and `unittest.mock.ANY` do.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from .records import Record

SHOWN_MAX: Final = 60
"""Lines of a difference."""
TEXT_MAX: Final = 120
ALIGNED_MAX: Final = 300
"""Longer ones are compared place by place, as aligning takes time with the square of the length."""
CONTEXT: Final = 2


class _Any:
    """What a test does not care about."""

    def __repr__(self) -> str:
        return "…"


WHATEVER: Final = _Any()


@dataclass(frozen=True)
class Expected:
    """A record that a test expects; what is not given may be anything."""

    value: object = WHATEVER
    _: KW_ONLY
    key: object = WHATEVER
    headers: object = WHATEVER
    """A mapping (these are among them) or a list of pairs (all of them, in this order)."""
    partition: object = WHATEVER
    offset: object = WHATEVER
    timestamp: object = WHATEVER

    def __str__(self) -> str:
        given = [f"{name}={_short(getattr(self, name))}" for name in _FIELDS if self._asks(name)]
        return " ".join(given) or "any record"

    def _asks(self, name: str) -> bool:
        return getattr(self, name) is not WHATEVER

    def differences(self, record: Record) -> list[str]:
        """A line for each field that differs."""
        return [
            line
            for name in _FIELDS
            if self._asks(name)
            for line in _differences(name, getattr(self, name), getattr(record, name))
        ]


_FIELDS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")


def assert_records(
    records: Iterable[Record], expected: Iterable[object], *, in_order: bool = True
) -> None:
    """Check that these are the records, in this order; the order does not matter if it is False.

    `broker.records` gives them by partition and offset: of a topic with several partitions, only
    the order within each has a meaning.

    Raises: AssertionError, which shows where they differ.
    """
    __tracebackhide__ = True
    found = list(records)
    wanted = [each if isinstance(each, Expected) else Expected(value=each) for each in expected]
    pairs = _aligned(found, wanted) if in_order else _matched(found, wanted)
    if all(w is not None and f is not None and not w.differences(f) for f, w in pairs):
        return
    counts = f"{_number(len(found))} instead of {_number(len(wanted))}"
    head = "the records differ" if len(found) == len(wanted) else f"there are {counts}"
    raise AssertionError("\n".join([f"{head} (- expected, + found):", *_shown(pairs)]))


Pair = tuple[Record | None, Expected | None]


def _aligned(found: Sequence[Record], wanted: Sequence[Expected]) -> list[Pair]:
    """Pairs with as many equal ones as possible; what is left over has no partner."""
    if max(len(found), len(wanted)) > ALIGNED_MAX:
        longer = max(len(found), len(wanted))
        return [
            (found[i] if i < len(found) else None, wanted[i] if i < len(wanted) else None)
            for i in range(longer)
        ]
    fits = [[not each.differences(record) for each in wanted] for record in found]
    best = [[0] * (len(wanted) + 1) for _ in range(len(found) + 1)]
    for i in reversed(range(len(found))):
        for j in reversed(range(len(wanted))):
            skipped = max(best[i + 1][j], best[i][j + 1])
            best[i][j] = max(skipped, 1 + best[i + 1][j + 1]) if fits[i][j] else skipped
    pairs: list[Pair] = []
    i = j = 0
    while i < len(found) and j < len(wanted):
        if fits[i][j] and best[i][j] == 1 + best[i + 1][j + 1]:
            pairs.append((found[i], wanted[j]))
            i, j = i + 1, j + 1
        elif best[i + 1][j + 1] == best[i][j]:
            pairs.append((found[i], wanted[j]))  # neither has a better partner
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            pairs.append((found[i], None))
            i += 1
        else:
            pairs.append((None, wanted[j]))
            j += 1
    pairs += [(record, None) for record in found[i:]]
    pairs += [(None, each) for each in wanted[j:]]
    return pairs


def _matched(found: Sequence[Record], wanted: Sequence[Expected]) -> list[Pair]:
    """Pairs in any order: as many expected ones as possible with a record that fits each."""
    choices = {
        number: {i for i, record in enumerate(found) if not each.differences(record)}
        for number, each in enumerate(wanted)
    }
    partner: dict[int, int] = {}
    """Of a record: the expected one."""

    def place(number: int, seen: set[int]) -> bool:
        for i in sorted(choices[number] - seen):
            seen.add(i)
            if i not in partner or place(partner[i], seen):
                partner[i] = number
                return True
        return False

    lost = [number for number in choices if not place(number, set())]
    pairs: list[Pair] = [
        (record, wanted[partner[i]] if i in partner else None) for i, record in enumerate(found)
    ]
    return pairs + [(None, wanted[number]) for number in lost]


def _shown(pairs: Sequence[Pair]) -> list[str]:
    """The pairs that differ with a few around them."""
    is_bad = [w is None or f is None or bool(w.differences(f)) for f, w in pairs]
    lines: list[str] = []
    is_gap = False
    for number, (found, wanted) in enumerate(pairs):
        if not any(is_bad[max(0, number - CONTEXT) : number + CONTEXT + 1]):
            if not is_gap:
                lines.append("    …")
            is_gap = True
            continue
        is_gap = False
        if not is_bad[number]:
            assert found is not None
            lines.append(f"    {_record(found)}")
            continue
        if wanted is not None:
            lines.append(f"  - {wanted}")
        if found is not None:
            lines.append(f"  + {_record(found)}")
        if wanted is not None and found is not None:
            lines += [f"      {line}" for line in wanted.differences(found)]
    if len(lines) > SHOWN_MAX:
        lines[SHOWN_MAX:] = [f"    … and {len(lines) - SHOWN_MAX} lines more"]
    return lines


def _differences(name: str, wanted: object, found: object) -> list[str]:
    if name == "headers":
        return _header_differences(wanted, found)
    if isinstance(wanted, str) and isinstance(found, bytes):
        wanted = wanted.encode()
    elif isinstance(wanted, dict | list) and isinstance(found, bytes):
        try:
            return _json_differences(name, wanted, json.loads(found))
        except ValueError:
            return [f"{name}: {_short(found)} is not JSON"]
    if wanted == found:
        return []
    return [f"{name}: expected {_short(wanted)}, found {_short(found)}"]


def _header_differences(wanted: Any, found: Any) -> list[str]:
    there = dict(found)
    if not isinstance(wanted, Mapping):
        pairs = [
            (key, value.encode() if isinstance(value, str) else value) for key, value in wanted
        ]
        if pairs == [*found]:
            return []
        return [f"headers: expected {_short(pairs)}, found {_short([*found])}"]
    lines = []
    for key, value in wanted.items():
        if key not in there:
            lines.append(f"headers: there is no {key!r}")
        else:
            lines += _differences(f"header {key}", value, there[key])
    return lines


def _json_differences(path: str, wanted: Any, found: Any) -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        lines = [f"{path}.{key}: missing" for key in wanted if key not in found]
        lines += [f"{path}.{key}: not expected" for key in found if key not in wanted]
        for key in wanted:
            if key in found:
                lines += _json_differences(f"{path}.{key}", wanted[key], found[key])
        return lines
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            line
            for i, (w, f) in enumerate(zip(wanted, found, strict=True))
            for line in _json_differences(f"{path}[{i}]", w, f)
        ]
    if wanted == found and isinstance(wanted, bool) == isinstance(found, bool):
        return []
    return [f"{path}: expected {_short(wanted)}, found {_short(found)}"]


def _record(record: Record) -> str:
    shown = f"{record.partition}/{record.offset}"
    if record.key is not None:
        shown += f" key={_short(record.key)}"
    shown += f" value={_short(record.value)}"
    if record.headers:
        shown += f" headers={_short([*record.headers])}"
    return shown


def _short(value: object) -> str:
    """At most so long; bytes that are text as a text."""
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    text = repr(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"


def _number(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"
