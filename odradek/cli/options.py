"""Options that several commands share."""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import click

PARTITION_LAST: Final = (1 << 31) - 1
SECONDS_MAX: Final = 2_000_000.0  # more milliseconds do not fit into 31 bits
_NOT_UTF_8: Final = re.compile("[\ud800-\udfff]")
"""How Python keeps such bytes of the command line."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def parse_pairs(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """A click callback for repeated NAME=VALUE."""
    pairs: dict[str, str] = {}
    for name, value in _split(ctx, param, values):
        if name in pairs:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
        if _NOT_UTF_8.search(value):
            raise click.BadParameter(f"{name} has bytes that are not UTF-8", ctx, param)
        pairs[name] = value
    return pairs


def parse_headers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, bytes | None]]:
    """A click callback for repeated NAME=VALUE whose names may repeat."""
    return [(name, value.encode()) for name, value in _split(ctx, param, values)]


class Seconds(click.FloatRange):
    """A time that a client library can wait."""

    def __init__(self, least: float = 0.0) -> None:
        super().__init__(least, SECONDS_MAX)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """As click's, which lets NaN through."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is no time", param, ctx)
        return seconds


def parse_numbers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[int, ...]:
    """A click callback for repeated N[,N]: numbers from 0 on."""
    texts = [part for text in values for part in text.split(",")]
    for text in texts:
        if not text.isascii() or not text.isdigit():
            raise click.BadParameter(f"{text!r} is not a number from 0 on", ctx, param)
        if int(text) > PARTITION_LAST:
            raise click.BadParameter(f"{text} is too large", ctx, param)
    return tuple(int(text) for text in texts)


partitions_option = click.option(
    "-p",
    "--partition",
    "partitions",
    metavar="N[,N]",
    multiple=True,
    callback=parse_numbers,
    help="Only these partitions; may be repeated.",
)


def _split(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(values, 1):
        name, separator, value = text.partition("=")
        if not separator or not name:
            which = f"number {number} of {len(values)}" if len(values) > 1 else "it"
            # Not shown: it may be a password, as in sasl.password:secret.
            raise click.BadParameter(f"{which} is not NAME=VALUE", ctx, param)
        yield name, value
