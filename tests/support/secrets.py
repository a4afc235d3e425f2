"""Passwords that tests give to brokers and clients, and that nothing may print.

What a test logs or prints is searched for them (tests/conftest.py), and so is what servers in
processes of their own print (tests/kafka/process.py).
"""

from typing import Final

HUNTER2: Final = "hunter2"
QUOTED: Final = 'pass word, "quoted" \\ and =;é'
"""With what has a meaning in JAAS texts and properties."""
PENCIL: Final = 'pen"cil, =ü'
_planted: Final = [HUNTER2, "pass word", 'pen"cil']
"""Where a text is escaped, its beginning still is as it was."""


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
