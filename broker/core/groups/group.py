"""What the shard asks of a group, whether it is a classic one or a consumer group."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .journal import Journal

if TYPE_CHECKING:
    from odradek.protocol.group_records import GroupRecord

    from ..effects import Effect


TopicPartition = tuple[str, int]


class TopicImage(NamedTuple):
    """A topic as the machines see it."""

    topic_id: bytes
    partition_count: int


class TopicsImage(Protocol):
    """The cluster's topics, as they are now; ids are 16 bytes."""

    @property
    def version(self) -> int:
        """Rises with every change of any topic."""

    def get(self, name: str) -> TopicImage | None:
        """A topic, or None."""

    def name_of(self, topic_id: bytes) -> str | None:
        """The name behind an id."""

    def names(self) -> Sequence[str]:
        """All topics."""


class OffsetOwner(NamedTuple):
    """The client that commits or reads offsets, as the request names it."""

    member_id: str
    instance_id: str | None
    generation_or_epoch: int
    """-1: nobody of the group."""
    version: int
    """Of the API: older clients know fewer codes."""


class Group(Protocol):
    """A group. Times called `now_ms` are of the monotonic clock, `wall_ms` of the wall clock."""

    group_id: str
    journal: Journal

    @property
    def type_name(self) -> str:
        """ "classic" or "consumer"."""

    @property
    def state_name(self) -> str:
        """The state as ListGroups names it."""

    @property
    def protocol_type(self) -> str:
        """ "consumer" for consumers; empty for a group that only keeps offsets."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""

    @property
    def is_unused(self) -> bool:
        """Whether nothing of it is worth to be kept: it was made for a request that was refused."""

    @property
    def metadata_bytes(self) -> int:
        """What its members have said of themselves: it is kept as long as they are."""

    @property
    def wake_ms(self) -> int | None:
        """When to call `on_time` next, or None; it may be earlier than needed."""

    def on_time(self, now_ms: int, wall_ms: int) -> "Sequence[Effect]":
        """Do what the deadlines demand that have come."""

    def check_offset_commit(
        self, owner: OffsetOwner, partitions: "Iterable[TopicPartition]", now_ms: int
    ) -> None:
        """Let a commit of these partitions pass, as a whole; they are there.

        One by a member of a classic group counts as a heartbeat.  Raises: Refused.
        """

    def check_offset_fetch(self, owner: OffsetOwner) -> None:
        """Let a member read offsets (OffsetFetch v9+ names it).  Raises: Refused."""

    def check_offset_delete(self) -> None:
        """Let offsets be deleted at all.  Raises: Refused (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""

    def check_delete(self) -> None:
        """Let the group be deleted.  Raises: Refused (NON_EMPTY_GROUP)."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member consumes the topic: then its offsets are neither deleted nor expired.

        True, too, if that cannot be known.
        """

    def offsets_expire_since_ms(self, commit_wall_ms: int) -> int | None:
        """The wall time from which offsets.retention counts for an offset committed at that time.

        None: not now, the group holds it (KIP-211: an empty group counts from when it became so).
        """

    def tombstones(self) -> "list[GroupRecord]":
        """The records that delete the group, but for its offsets."""
