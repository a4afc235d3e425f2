"""The grammar of -o, and the offsets it means."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import pytest

from odradek.cli.positions import (
    EARLIEST,
    LATEST,
    Offsets,
    Partition,
    Position,
    Range,
    find_offsets,
    parse_range,
)

NOW = datetime(2024, 3, 1, 12, tzinfo=UTC)
NOW_MS = 1_709_294_400_000
HOUR_MS: Final = 3_600_000
BEGIN, END = Position("earliest"), Position("latest")


def at(time_ms: int) -> Position:
    return Position("timestamp", time_ms)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("earliest", Range(BEGIN)),
        ("beginning", Range(BEGIN)),
        ("start", Range(BEGIN)),
        ("latest", Range(END)),
        ("end", Range(END)),
        ("0", Range(Position("offset", 0))),
        ("42", Range(Position("offset", 42))),
        ("42:", Range(Position("offset", 42))),
        ("+3", Range(Position("from-start", 3))),
        ("-3", Range(Position("from-end", 3))),
        (":end", Range(BEGIN, END)),
        (":7", Range(BEGIN, Position("offset", 7))),
        ("5:7", Range(Position("offset", 5), Position("offset", 7))),
        ("-3:end", Range(Position("from-end", 3), END)),
        ("@1709294400000", Range(at(NOW_MS))),
        ("@2024-03-01", Range(at(NOW_MS - 12 * HOUR_MS))),
        ("@2024-03-01T12:00", Range(at(NOW_MS))),
        ("@2024-03-01T13:00+01:00", Range(at(NOW_MS))),
        ("@2024-03-01T12:00:00.250Z", Range(at(NOW_MS + 250))),
        ("@-15m", Range(at(NOW_MS - HOUR_MS // 4))),
        ("@-2d", Range(at(NOW_MS - 48 * HOUR_MS))),
        ("@-2h:", Range(at(NOW_MS - 2 * HOUR_MS))),
        ("@-2h:-1h", Range(at(NOW_MS - 2 * HOUR_MS), at(NOW_MS - HOUR_MS))),
        ("@-2h:end", Range(at(NOW_MS - 2 * HOUR_MS), END)),
        ("@:-1h", Range(BEGIN, at(NOW_MS - HOUR_MS))),
        ("@2024-03-01:2h", Range(at(NOW_MS - 12 * HOUR_MS), at(NOW_MS - 10 * HOUR_MS))),
        ("@2024-03-01T11:30:2024-03-01T12:00", Range(at(NOW_MS - HOUR_MS // 2), at(NOW_MS))),
        ("s@1709294400000", Range(at(NOW_MS))),
        ("e@1709294400000", Range(BEGIN, at(NOW_MS))),
    ],
)
def test_grammar(text: str, wanted: Range) -> None:
    assert parse_range([text], now=NOW) == wanted


def test_kcats_two_times_are_one_range() -> None:
    both = parse_range([f"s@{NOW_MS - 1}", f"e@{NOW_MS}"], now=NOW)
    assert both == Range(at(NOW_MS - 1), at(NOW_MS))
    with pytest.raises(ValueError, match="once more"):
        parse_range(["5", "6"], now=NOW)


def test_without_any_it_is_the_default() -> None:
    assert parse_range([], now=NOW) == Range(END)
    assert parse_range([], now=NOW, default="earliest") == Range(BEGIN)


BAD = [
    "@-99999999999d",
    "@1969-12-31",
    "@99999999999999999999",
    "",
    ":",
    "x",
    "-",
    "1.5",
    "@",
    "@:",
    "@x",
    "@-3y",
    "@12:00",
    "-3d",
    "5:x",
    "1:2:3",
    "٣",
]


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_range([text], now=NOW)


FULL, SHORT = ("t", 0), ("t", 1)


def look_up(time_ms: int) -> Mapping[Partition, int]:
    """Offsets 10 to 20 in one partition, 0 to 3 in the other."""
    return {
        EARLIEST: {FULL: 10, SHORT: 0},
        LATEST: {FULL: 20, SHORT: 3},
        5: {FULL: 15, SHORT: -1},
    }[time_ms]


@pytest.mark.parametrize(
    ("position", "full", "short", "warned"),
    [
        (Position("earliest"), 10, 0, 0),
        (Position("latest"), 20, 3, 0),
        (Position("from-start", 2), 12, 2, 0),
        (Position("from-start", 50), 20, 3, 0),
        (Position("from-end", 5), 15, 0, 0),
        (Position("from-end", 50), 10, 0, 0),
        (Position("timestamp", 5), 15, 3, 0),
        (Position("offset", 15), 15, 3, 1),
        (Position("offset", 3), 10, 3, 1),
        (Position("offset", 99), 20, 3, 2),
    ],
)
def test_offsets_of_a_position(position: Position, full: int, short: int, warned: int) -> None:
    warnings: list[str] = []
    found = find_offsets(look_up, Range(position), warnings.append)
    assert found == {FULL: Offsets(full, None), SHORT: Offsets(short, None)}
    assert len(warnings) == warned


def test_a_position_outside_the_log_names_the_nearer_end() -> None:
    warnings: list[str] = []
    find_offsets(look_up, Range(Position("offset", 7)), warnings.append)
    assert warnings == [
        "t-0 starts at offset 10: taking that instead of 7",
        "t-1 ends at offset 3: taking that instead of 7",
    ]


def test_offsets_of_a_stop() -> None:
    found = find_offsets(look_up, Range(Position("from-end", 5), at(5)), print)
    assert found == {FULL: Offsets(15, 15), SHORT: Offsets(0, 3)}
