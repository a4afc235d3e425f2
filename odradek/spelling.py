"""The known name that a wrong one was probably meant to be, for error messages."""

from collections.abc import Iterable
from typing import Final

CLOSE: Final = 0.6
NAME_MAX: Final = 250
"""How much of a name is compared: longer ones come from strangers, and comparing takes time."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = CLOSE) -> str:
    """The nearest of the known names; empty if none is near."""
    import difflib  # rarely needed

    return "".join(difflib.get_close_matches(name[:NAME_MAX], [*known], n=1, cutoff=cutoff))


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = CLOSE) -> str:
    """`: did you mean …?` to end a sentence with; empty if no known name is near."""
    close = nearest(name, known, cutoff=cutoff)
    return f": did you mean {close}?" if close else ""
