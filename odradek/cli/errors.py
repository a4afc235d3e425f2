"""The error that ends a command with one sentence."""

from collections.abc import Iterable

import click

from odradek.spelling import did_you_mean


class CommandError(click.ClickException):
    """One sentence on stderr and exit code 1."""

    def format_message(self) -> str:
        """The sentence on one line, even if a library put line breaks into it."""
        return " ".join(self.message.split())


def no_such_topic(name: str, present: Iterable[str]) -> CommandError:
    """The error for a topic that is not there, with the nearest that is."""
    return CommandError(f"there is no topic {name!r}{did_you_mean(name, present)}")
