"""Options that several commands share."""

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
