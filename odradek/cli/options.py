"""Options that several commands share."""

import difflib
from collections.abc import Iterable

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def parse_pairs(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """A click callback for repeated NAME=VALUE."""
    pairs = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", ctx, param)
        pairs[name] = value
    return pairs


def parse_numbers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[int, ...]:
    """A click callback for repeated N[,N]: numbers from 0 on."""
    texts = [part for text in values for part in text.split(",")]
    for text in texts:
        if not text.isascii() or not text.isdigit():
            raise click.BadParameter(f"{text!r} is not a number from 0 on", ctx, param)
    return tuple(int(text) for text in texts)


def near(name: str, known: Iterable[str]) -> str:
    """`: did you mean …?` with the nearest of the known names; empty if none is near."""
    close = difflib.get_close_matches(name, list(known))
    return f": did you mean {' or '.join(close)}?" if close else ""
