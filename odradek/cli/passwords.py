"""Passwords for new users: asked for, from a file, or from standard input; never on a command line,
where other users of the machine and the shell's history see them."""

import sys
from pathlib import Path
from typing import Final

import click

from .errors import CommandError

STDIN: Final = "-"

password_file_option = click.option(
    "--password-file",
    metavar="FILE",
    help="The file whose only line is the password; - for standard input.  Default: ask for it.",
)


def new_password(file: str | None, whose: str) -> str:
    """The password of a new user.  Raises: CommandError."""
    if file is None:
        if not sys.stdin.isatty():
            raise CommandError(
                f"there is no terminal to ask for the password of {whose}: give --password-file"
                " FILE, or --password-file - for standard input"
            )
        return _asked(whose)
    name = "standard input" if file == STDIN else file
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        lines = data.decode().splitlines()
    except OSError as error:
        raise CommandError(f"{name} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not text in UTF-8") from None
    if len(lines) != 1 or not lines[0]:
        raise CommandError(f"{name} must have one line, the password, and has {len(lines)}")
    return lines[0]


def _asked(whose: str) -> str:
    password: str = click.prompt(
        f"Password of {whose}", hide_input=True, confirmation_prompt="Again", err=True
    )
    return password
