"""What is done to a log at one time, and what must not begin meanwhile.

Threads know the files of a log by their names, and a job relies on those that it reads: `EXCLUDED`
says which uses keep an act from beginning. An append is excluded by no thread, but by a cut that
a crash could still undo.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, Flag, auto
from typing import Final

from odradek.storage.log.log import Log


class Use(Flag):
    """What is done to a log."""

    COMPACTS = auto()
    """A job compacts it."""
    SWAPS = auto()
    """A thread puts compacted segments in place of others."""
    EXPIRES = auto()
    """A thread renames segments that retention removes, or notes a later log start."""
    MOVES = auto()
    """It is copied to another log directory."""
    CUT = auto()
    """It was cut, and the cut is not safe on disk yet."""


NO_USE: Final = Use(0)


class Act(Enum):
    """What may begin with a log."""

    APPEND = auto()
    """To lead, or to fetch from a leader."""
    COMPACT = auto()
    RAISE_START = auto()
    """To note a later log start, before segments are removed."""
    REMOVE_SEGMENTS = auto()
    """Of what lies before the log start."""
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
    """What is done to each log of a broker."""

    def __init__(self) -> None:
        self._of: dict[Log, Use] = {}

    def may(self, act: Act, log: Log) -> bool:
        """Whether an act may begin now."""
        return not self._of.get(log, NO_USE) & EXCLUDED[act]

    def begin(self, log: Log, use: Use) -> None:
        """From now on this is done to a log."""
        self._of[log] = self._of.get(log, NO_USE) | use

    def end(self, log: Log, use: Use) -> None:
        """It is done no longer."""
        left = self._of.get(log, NO_USE) & ~use
        if left:
            self._of[log] = left
        else:
            self._of.pop(log, None)

    @contextmanager
    def during(self, log: Log, use: Use) -> Iterator[None]:
        """It is done inside this."""
        self.begin(log, use)
        try:
            yield
        finally:
            self.end(log, use)

    def having(self, use: Use) -> list[Log]:
        """The logs to which this is done."""
        return [log for log, uses in self._of.items() if use & uses] if self._of else []
