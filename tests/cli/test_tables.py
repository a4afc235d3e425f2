"""Aligned columns."""

from odradek.cli.tables import aligned, local_time


def test_text_begins_and_numbers_end_below_each_other() -> None:
    assert aligned(("TOPIC", "N"), [("a", 1), ("longer", 100)]) == [
        "TOPIC     N",
        "a         1",
        "longer  100",
    ]


def test_without_rows_there_is_the_header() -> None:
    assert aligned(("TOPIC", "N"), []) == ["TOPIC  N"]


def test_no_blanks_at_the_end() -> None:
    assert aligned(("A", "B"), [("1", ""), ("2", "xy")]) == ["A  B", "1", "2  xy"]


def test_numbers_stay_numbers_beside_a_cell_without_one() -> None:
    assert aligned(("N", "M"), [("-", "-"), (100, "-")]) == ["  N  M", "  -  -", "100  -"]


def test_a_time_that_no_calendar_has_is_shown_as_a_number() -> None:
    assert local_time(1_700_000_000_123).endswith(".123")
    assert local_time((1 << 63) - 1) == str((1 << 63) - 1)
