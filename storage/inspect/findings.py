"""The findings of a check, and how bad they are."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Grade(StrEnum):
    """How bad a finding is, from mild to severe."""

    HARMLESS = "harmless"
    """Nothing has to be done."""
    UNCLEAN = "unclean"
    """Left by an unclean shutdown: the next start recovers it."""
    REPAIRABLE = "repairable"
    """Damage in data that can be derived from other files."""
    LOST = "lost"
    """Records, or other data without a second source, are gone or unreadable."""

    @property
    def is_damage(self) -> bool:
        """Whether a directory with such a finding is damaged."""
        return self in (Grade.REPAIRABLE, Grade.LOST)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; `offset_end` is exclusive, None if it is unknown."""

    path: str
    what: str
    grade: Grade
    position: int | None = None
    offset_first: int | None = None
    offset_end: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The finding with stable keys, for a line of JSON."""
        return {
            "type": "finding",
            "grade": str(self.grade),
            "file": self.path,
            "position": self.position,
            "offset_first": self.offset_first,
            "offset_end": self.offset_end,
            "what": self.what,
        }

    def __str__(self) -> str:
        place = "" if self.position is None else f" at {self.position}"
        offsets = ""
        if self.offset_first is not None:
            end = "?" if self.offset_end is None else str(self.offset_end - 1)
            offsets = f" (offsets {self.offset_first}..{end})"
        return f"{self.grade}: {self.path}{place}: {self.what}{offsets}"


Report = Callable[[Finding], None]
Advance = Callable[[int], None]
"""Called with the number of segment bytes checked since the last call."""
