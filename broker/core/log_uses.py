"""The uses of a log at one time, and what they keep from starting.

Threads access the files of a log by their names, and a job relies on those that it reads:
`EXCLUDED` says which uses keep an act from starting. No thread excludes an append, but a cut that a
crash could still undo does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, Flag, auto
from typing import Final

from odradek.storage.log.log import Log


class Use(Flag):
    """Something that is being done to a log."""

    COMPACTS = auto()
    """A job compacts it."""
    SWAPS = auto()
    """A thread puts compacted segments in place of others."""
    EXPIRES = auto()
    """A thread renames segments that retention removes, or records a later log start."""
    MOVES = auto()
    """It is being copied to another log directory."""
    CUT = auto()
    """It was cut, and the cut is not durable yet."""


NO_USE: Final = Use(0)


class Act(Enum):
    """Something that may start on a log."""

    APPEND = auto()
    """To lead, or to fetch from a leader."""
    COMPACT = auto()
    RAISE_START = auto()
    """To record a later log start, before segments are removed."""
    REMOVE_SEGMENTS = auto()
    """To remove what lies before the log start."""
    TRUNCATE = auto()
    GIVE_UP = auto()
    """To delete the log, to set it aside or to copy it."""


EXCLUDED: Final[Mapping[Act, Use]] = {
    Act.APPEND: Use.CUT,
    Act.COMPACT: Use.COMPACTS | Use.MOVES,
    Act.RAISE_START: Use.MOVES,
    Act.REMOVE_SEGMENTS: Use.COMPACTS | Use.MOVES,
    Act.TRUNCATE: Use.SWAPS | Use.EXPIRES,
    Act.GIVE_UP: Use.COMPACTS | Use.EXPIRES,
}


class LogUses:
    """The uses of each log of a broker."""

    def __init__(self) -> None:
        self._of: dict[Log, Use] = {}

    def may(self, act: Act, log: Log) -> bool:
        """Whether an act may start now."""
        return not self._of.get(log, NO_USE) & EXCLUDED[act]

    def begin(self, log: Log, use: Use) -> None:
        """Note that a use of a log begins."""
        self._of[log] = self._of.get(log, NO_USE) | use

    def end(self, log: Log, use: Use) -> None:
        """Note that a use of a log ends."""
        left = self._of.get(log, NO_USE) & ~use
        if left:
            self._of[log] = left
        else:
            self._of.pop(log, None)

    @contextmanager
    def during(self, log: Log, use: Use) -> Iterator[None]:
        """Note a use for the duration of this context."""
        self.begin(log, use)
        try:
            yield
        finally:
            self.end(log, use)

    def having(self, use: Use) -> list[Log]:
        """The logs that have this use."""
        return [log for log, uses in self._of.items() if use & uses] if self._of else []
