"""The grammar of -o, and the offsets it means."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from odradek.cli.positions import Position, parse_position, start_offsets

NOW = datetime(2024, 3, 1, 12, tzinfo=UTC)
NOW_MS = 1_709_294_400_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position("earliest")),
        ("beginning", Position("earliest")),
        ("latest", Position("latest")),
        ("end", Position("latest")),
        ("0", Position("offset", 0)),
        ("42", Position("offset", 42)),
        ("-3", Position("from-end", 3)),
        ("@1709294400000", Position("timestamp", NOW_MS)),
        ("@2024-03-01", Position("timestamp", NOW_MS - 12 * 3_600_000)),
        ("@2024-03-01T12:00", Position("timestamp", NOW_MS)),
        ("@2024-03-01T13:00+01:00", Position("timestamp", NOW_MS)),
        ("@2024-03-01T12:00:00.250Z", Position("timestamp", NOW_MS + 250)),
        ("@-15m", Position("timestamp", NOW_MS - 900_000)),
        ("@-2d", Position("timestamp", NOW_MS - 2 * 86_400_000)),
    ],
)
def test_grammar(text: str, position: Position) -> None:
    assert parse_position(text, now=NOW) == position


@pytest.mark.parametrize("text", ["", "x", "-", "1.5", "@", "@x", "@-3y", "@12:00", "+3", "-3d"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_position(text, now=NOW)


class Partition(NamedTuple):
    topic: str
    partition: int


class Found(NamedTuple):
    offset: int


FULL, SHORT = Partition("t", 0), Partition("t", 1)


class FakeConsumer:
    """Offsets 10 to 20 in one partition, 0 to 3 in the other."""

    def beginning_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return {FULL: 10, SHORT: 0}

    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return {FULL: 20, SHORT: 3}

    def offsets_for_times(
        self, timestamps: Mapping[Partition, int]
    ) -> dict[Partition, Found | None]:
        assert set(timestamps.values()) == {5}
        return {FULL: Found(15), SHORT: None}


@pytest.mark.parametrize(
    ("position", "full", "short", "warned"),
    [
        (Position("earliest"), 10, 0, 0),
        (Position("latest"), 20, 3, 0),
        (Position("from-end", 5), 15, 0, 0),
        (Position("from-end", 50), 10, 0, 0),
        (Position("timestamp", 5), 15, 3, 0),
        (Position("offset", 15), 15, 3, 1),
        (Position("offset", 3), 10, 3, 1),
        (Position("offset", 99), 20, 3, 2),
    ],
)
def test_start_offsets(position: Position, full: int, short: int, warned: int) -> None:
    warnings: list[str] = []
    starts = start_offsets(FakeConsumer(), [FULL, SHORT], position, warnings.append)
    assert starts == {FULL: full, SHORT: short}
    assert len(warnings) == warned
