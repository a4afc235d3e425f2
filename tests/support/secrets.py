"""Passwords that tests give to brokers and clients, and that nothing may print.

A test fails if they are in what it prints, in its warnings and errors, or in what a server of
tests/kafka/process.py has printed (tests/conftest.py).
"""

from typing import Final

HUNTER2: Final = "hunter2"
QUOTED: Final = 'pass word, "quoted" \\ and =;é'
"""With what has a meaning in JAAS texts and properties."""
PENCIL: Final = 'pen"cil, =ü'
_planted: Final = [HUNTER2, "pass word", "cil, ="]
"""Of those with quotes, a part that no escaping changes."""
told_by_servers: Final[list[str]] = []
"""Which lines of servers have told one; whoever reports them takes them out."""


def plant(secret: str) -> str:
    """Search for this one, too."""
    _planted.append(secret)
    return secret


def line_with_secret(text: str) -> str | None:
    """The first line that tells one of them."""
    if not any(secret in text for secret in _planted):
        return None
    lines = text.splitlines()
    return next(line for line in lines if any(secret in line for secret in _planted))
