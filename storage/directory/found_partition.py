"""A partition's directory before it is loaded, and one that could not be loaded."""

from typing import NamedTuple

from ..log.checkpoint import TopicPartition
from ..recovery.load import LoadHints


class FoundPartition(NamedTuple):
    """A partition's directory before it is loaded."""

    directory: str
    topic: str
    partition: int
    is_future: bool
    """The copy of a replica that is being moved here (AlterReplicaLogDirs)."""
    hints: LoadHints
    cleaner_offset: int | None

    @property
    def key(self) -> TopicPartition:
        """Topic and partition."""
        return self.topic, self.partition


class Unserved(NamedTuple):
    """A partition that could not be loaded."""

    reason: str
    found: FoundPartition
