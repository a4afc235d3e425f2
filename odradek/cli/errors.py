"""What a command says when it cannot do its work."""

import click


class CommandError(click.ClickException):
    """One sentence on stderr and exit code 1."""

    def format_message(self) -> str:
        """The sentence, on one line whatever a library put into it."""
        return " ".join(self.message.split())
