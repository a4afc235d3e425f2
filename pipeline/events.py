"""A realistic load: orders, clicks and sensor readings, some late, duplicated or malformed.

Pure: the same kind, seed and shape give the same records byte for byte, in any process and on any
Python, because only `random()` is used, whose sequence Python guarantees. Events are generated in
independent blocks, so that many machines can generate one load.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from .times import iso

BLOCK_EVENTS: Final = 1000
START_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z, the default start."""

LATE_MS_MIN: Final = 5 * 60_000
LATE_MS_MAX: Final = 60 * 60_000
JITTER_MS: Final = 2000
"""Events that are not late are out of order by less than this."""

CITIES: Final = ("Prague", "Vienna", "Berlin", "Brno", "Zürau")
PRODUCTS: Final = ("spool", "thread", "staircase", "star", "crosspiece", "ladder", "sash")
PAGES: Final = ("/", "/search", "/cart", "/checkout", "/spools", "/threads", "/help")

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Shape:
    """How events are spread over time, and which shares of them (0 to 1) have each fault."""

    start_ms: int = START_MS
    events_per_second: float = 100.0
    """In event time; independent of the rate at which events are written."""
    late: float = 0.01
    duplicate: float = 0.01
    malformed: float = 0.01


@dataclass(frozen=True, slots=True)
class Event:
    """One record to write."""

    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    time_ms: int
    """The event time; a duplicate has that of its original."""
    fault: str
    """`late`, `duplicate`, `malformed`, or empty."""


class Draws:
    """Random choices that use `random()` only."""

    def __init__(self, seed: str) -> None:
        self.fraction = Random(seed).random

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        return int(self.fraction() * count)

    def between(self, low: int, high: int) -> int:
        """A number from low to high - 1."""
        return low + self.below(high - low)

    def pick(self, words: tuple[str, ...]) -> str:
        """One of `words`."""
        return words[self.below(len(words))]


def events(kind: str, seed: int, count: int | None, shape: Shape = Shape()) -> Iterator[Event]:
    """The first `count` events (None: endless) of one of `KINDS`."""
    number = 0
    while count is None or number * BLOCK_EVENTS < count:
        yield from block(kind, seed, number, shape)[: block_size(number, count)]
        number += 1


def block_size(number: int, count: int | None) -> int:
    """How many of a block's events are among the first `count`."""
    if count is None:
        return BLOCK_EVENTS
    return max(0, min(BLOCK_EVENTS, count - number * BLOCK_EVENTS))


def block(kind: str, seed: int, number: int, shape: Shape) -> list[Event]:
    """The BLOCK_EVENTS events of block `number`.  Raises: KeyError for an unknown kind."""
    make = KINDS[kind]
    draws = Draws(f"{kind}/{seed}/{number}")
    made: list[Event] = []
    sound: list[Event] = []
    for index in range(number * BLOCK_EVENTS, (number + 1) * BLOCK_EVENTS):
        fault = _fault(draws.fraction(), shape)
        if fault == "duplicate" and sound:
            first = sound[draws.below(len(sound))]
            made.append(Event(first.key, first.value, first.headers, first.time_ms, fault))
            continue
        time_ms = shape.start_ms + int(index * 1000 / shape.events_per_second)
        time_ms -= draws.below(JITTER_MS)
        if fault == "late":
            time_ms -= draws.between(LATE_MS_MIN, LATE_MS_MAX)
        key, value = make(draws, index, time_ms, fault == "malformed")
        headers = (("event-id", f"{kind}-{seed}-{index}".encode()),)
        event = Event(key, value, headers, time_ms, "" if fault == "duplicate" else fault)
        made.append(event)
        if fault != "malformed":
            sound.append(event)
    return made


def _fault(fraction: float, shape: Shape) -> str:
    for name in ("malformed", "late", "duplicate"):
        share: float = getattr(shape, name)
        if fraction < share:
            return name
        fraction -= share
    return ""


def _order(draws: Draws, index: int, time_ms: int, malformed: bool) -> tuple[bytes, bytes | None]:
    customer = f"customer-{draws.below(500):03d}"
    order: Fields = {
        "order_id": f"order-{index:08d}",
        "customer": customer,
        "city": draws.pick(CITIES),
        "product": draws.pick(PRODUCTS),
        "quantity": draws.between(1, 10),
        "amount_cents": draws.between(100, 100_000),
        "ordered_at": iso(time_ms),
    }
    if malformed:
        return customer.encode(), _spoilt_json(draws, order, "amount_cents", "ordered_at")
    return customer.encode(), _json(order)


def _click(draws: Draws, index: int, time_ms: int, malformed: bool) -> tuple[bytes, bytes | None]:
    session = f"session-{draws.below(2000):04d}"
    click: Fields = {
        "click_id": index,
        "session": session,
        "page": draws.pick(PAGES),
        "referrer": draws.pick(PAGES) if draws.below(4) else None,
        "duration_ms": draws.between(20, 30_000),
        "clicked_at": time_ms,
    }
    if malformed:
        return session.encode(), _spoilt_json(draws, click, "duration_ms", "clicked_at")
    return session.encode(), _json(click)


def _reading(draws: Draws, index: int, time_ms: int, malformed: bool) -> tuple[bytes, bytes | None]:
    sensor = f"sensor-{draws.below(100):02d}"
    columns = [
        sensor,
        iso(time_ms),
        f"{draws.between(-1000, 4000) / 100:.2f}",
        f"{draws.between(200, 950) / 10:.1f}",
    ]
    if malformed:
        return sensor.encode(), _spoilt_csv(draws, columns)
    return sensor.encode(), ",".join(columns).encode()


def _spoilt_json(draws: Draws, fields: Fields, number: str, time: str) -> bytes | None:
    """Faults of real topics: truncated, another format, a field missing or of another type."""
    text = _json(fields)
    choices: tuple[bytes | None, ...] = (
        text[: len(text) // 2],
        b"GET /health HTTP/1.1",
        b"\xff\xfe\x00\x01" + text[:8],
        b"",
        None,
        _json({name: value for name, value in fields.items() if name != time}),
        _json({**fields, number: "many"}),
        _json({**fields, time: "yesterday"}),
    )
    return choices[draws.below(len(choices))]


def _spoilt_csv(draws: Draws, columns: list[str]) -> bytes | None:
    sensor, time, temperature, humidity = columns
    choices: tuple[bytes | None, ...] = (
        f"{sensor},{time}".encode(),
        f"{sensor},{time},{temperature},{humidity},ok,ok".encode(),
        b"\xff\xfe\x00\x01",
        b"",
        None,
        f"{sensor},yesterday,{temperature},{humidity}".encode(),
        f"{sensor},{time},warm,{humidity}".encode(),
        f'{{"sensor": "{sensor}"}}'.encode(),
    )
    return choices[draws.below(len(choices))]


def _json(fields: Fields) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


Maker = Callable[[Draws, int, int, bool], tuple[bytes, bytes | None]]
KINDS: Final[dict[str, Maker]] = {"orders": _order, "clicks": _click, "sensors": _reading}
