"""The output of commands: a table on a terminal, aligned columns when piped, or JSON."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import click

Row = Sequence[object]
NOTHING: Final = "-"
"""The text of a cell without a value."""


def count_of(count: int, noun: str) -> str:
    """A count with its noun: `1 commit`, `2 commits`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def local_time(timestamp_ms: int) -> str:
    """A time in the zone of the machine; one that no calendar has, as its number."""
    try:
        when = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError):
        return str(timestamp_ms)
    return when.isoformat(sep=" ", timespec="milliseconds")[:-6]


def discard_stdout() -> None:
    """Let what is still printed go nowhere, after its reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_json(data: object) -> None:
    """Print one JSON document, indented on a terminal."""
    click.echo(json.dumps(data, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def show_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a table: with rich on a terminal, if it is installed; else as aligned columns."""
    if sys.stdout.isatty() and _show_rich(columns, rows):
        return
    for line in aligned(columns, rows):
        click.echo(line)


def show_rows(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Print documents as a table of some of their fields."""
    cells = [[NOTHING if row[name] is None else row[name] for name in columns] for row in rows]
    show_table([name.replace("_", "-").upper() for name in columns], cells)


def aligned(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Lines with aligned columns: text on the left, numbers on the right."""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [_is_of_numbers(rows, index) for index in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if flush_right else cell.ljust(width)
            for cell, width, flush_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]


def _is_of_numbers(rows: Sequence[Row], index: int) -> bool:
    """Whether a column holds numbers, and no text except for missing ones."""
    cells = [row[index] for row in rows]
    return any(isinstance(cell, int) for cell in cells) and all(
        isinstance(cell, int) or cell == NOTHING for cell in cells
    )


def _show_rich(columns: Sequence[str], rows: Sequence[Row]) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=box.SIMPLE_HEAD)
    for index, name in enumerate(columns):
        numbers = _is_of_numbers(rows, index)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)
    return True
