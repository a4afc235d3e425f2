"""The server-side assignors for consumer groups (KIP-848), by the name that clients use."""

from typing import Final

from .range import assign_ranges
from .spec import Assignment, Assignor, GroupSpec, MemberSpec
from .uniform import assign_uniformly

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "GroupSpec", "MemberSpec"]
