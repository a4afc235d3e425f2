"""The error that ends a command with one sentence."""

import click


class CommandError(click.ClickException):
    """One sentence on stderr and exit code 1."""

    def format_message(self) -> str:
        """The sentence on one line, even if a library put line breaks into it."""
        return " ".join(self.message.split())
