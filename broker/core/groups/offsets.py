"""The committed offsets of all groups of one partition of `__consumer_offsets`.

A commit changes nothing until the high watermark has passed its records: until then it is pending,
readers see what was committed before, and if the append fails they go on seeing it.

What is kept grows only with partitions that exist: commits for others are refused.
"""

from collections.abc import Callable, Iterable, Sequence

from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

from .effects import Effect, Reply
from .settings import OffsetSettings

Exists = Callable[[str, int], bool]
"""Whether a topic has this partition."""
WantedTopics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics]


class OffsetWrite:
    """Offsets on their way into the log; nothing of it shows before it is settled."""

    records: Sequence[GroupRecord]
    """What to append; if there are none, the rest need not be called."""

    def appended(self) -> None:
        """The log has taken the records: `AppendGroupRecords.appended`."""
        raise NotImplementedError

    def settled(self, code: ErrorCode) -> None:
        """They are committed (NONE), or were refused: to be called in `AppendGroupRecords.then`."""
        raise NotImplementedError


class Offsets:
    """Committed offsets by group, topic and partition."""

    def __init__(self, settings: Callable[[], OffsetSettings]) -> None:
        raise NotImplementedError

    def commit(
        self,
        group_id: str,
        request: OffsetCommitRequest,
        reply: Reply,
        *,
        exists: Exists,
        wall_ms: int,
    ) -> list[Effect]:
        """Keep positions, once the group has let the commit pass."""
        raise NotImplementedError

    def fetch(
        self, group_id: str, topics: WantedTopics | None, *, require_stable: bool
    ) -> list[OffsetFetchResponseTopics]:
        """What is committed for these partitions, or (None) for all that have an offset."""
        raise NotImplementedError

    def delete(
        self,
        group_id: str,
        request: OffsetDeleteRequest,
        reply: Reply,
        *,
        exists: Exists,
        is_subscribed: Callable[[str], bool],
    ) -> list[Effect]:
        """Delete offsets, once the group has let it pass."""
        raise NotImplementedError

    def delete_all(self, group_id: str) -> OffsetWrite:
        """Delete all of a group's offsets."""
        raise NotImplementedError

    def forget_topic(self, topic: str) -> list[OffsetWrite]:
        """Delete the offsets of a topic that is gone; one write for each group."""
        raise NotImplementedError

    def expired(
        self,
        group_id: str,
        *,
        since_ms: Callable[[int], int | None],
        is_subscribed: Callable[[str], bool],
        wall_ms: int,
    ) -> OffsetWrite:
        """Delete a group's offsets that nobody has needed for too long (KIP-211)."""
        raise NotImplementedError

    def apply(self, record: GroupRecord) -> None:
        """Take a record that is read from the log; those of other kinds are no business of this."""
        raise NotImplementedError

    def groups(self) -> Iterable[str]:
        """The groups that have offsets, or are about to."""
        raise NotImplementedError

    def has(self, group_id: str) -> bool:
        """Whether a group has offsets, or is about to."""
        raise NotImplementedError


def is_any_there(request: OffsetCommitRequest, exists: Exists) -> bool:
    """Whether any partition is there; if none is, Kafka answers without asking the group."""
    raise NotImplementedError


def refuse_commit(
    request: OffsetCommitRequest, code: ErrorCode, exists: Exists
) -> OffsetCommitResponse:
    """Every partition gets the group's code, but for those that are not there."""
    raise NotImplementedError


def refuse_delete(code: ErrorCode) -> OffsetDeleteResponse:
    """The group's code alone."""
    raise NotImplementedError


def refuse_fetch(topics: WantedTopics, code: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """Every partition gets the code: before v2, when it had no place of its own."""
    raise NotImplementedError


def older_shape(topics: Sequence[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopic]:
    """What `fetch` gave, as answers before v8 have it."""
    raise NotImplementedError
