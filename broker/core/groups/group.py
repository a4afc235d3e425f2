"""The interface of a group that the shard uses, for classic and consumer groups alike."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..journal import Journal

if TYPE_CHECKING:
    from odradek.protocol.group_records import GroupRecord

    from ..effects import Effect


TopicPartition = tuple[str, int]


class TopicImage(NamedTuple):
    """A topic as the group machines see it."""

    topic_id: bytes
    partition_count: int


class TopicsImage(Protocol):
    """The cluster's current topics; ids are 16 bytes."""

    @property
    def version(self) -> int:
        """A number that rises whenever any topic changes."""

    def get(self, name: str) -> TopicImage | None:
        """The topic of this name, or None."""

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id, or None."""

    def names(self) -> Sequence[str]:
        """The names of all topics."""


class OffsetOwner(NamedTuple):
    """The client that commits or reads offsets, as the request names it."""

    member_id: str
    instance_id: str | None
    generation_or_epoch: int
    """-1: the client is not a member."""
    version: int
    """The API version: older clients know fewer error codes."""

    @property
    def is_nobody(self) -> bool:
        """Whether the request names no member at all."""
        return self.generation_or_epoch < 0 and not self.member_id and self.instance_id is None


class Group(Protocol):
    """A group. `now_ms` is a time of the monotonic clock, `wall_ms` one of the wall clock."""

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
        """ "consumer" for consumers; empty for a group that only holds offsets."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @property
    def is_unused(self) -> bool:
        """Whether the group can be dropped: it was created for a request that was refused."""

    @property
    def metadata_bytes(self) -> int:
        """The size of the metadata that the current members have sent."""

    @property
    def wake_ms(self) -> int | None:
        """When to call `on_time` next, or None; possibly earlier than needed."""

    def on_time(self, now_ms: int, wall_ms: int) -> "Sequence[Effect]":
        """Handle the deadlines that have passed."""

    def check_offset_commit(
        self, owner: OffsetOwner, partitions: "Iterable[TopicPartition]", now_ms: int
    ) -> None:
        """Check a commit of these existing partitions as a whole.

        A commit by a member of a classic group counts as a heartbeat.  Raises: Refused.
        """

    def check_transactional_commit(
        self, owner: OffsetOwner, partitions: "Iterable[TopicPartition]"
    ) -> None:
        """Check a commit of these existing partitions in a transaction (KIP-447).

        A producer that names no member is always allowed: older ones can't.  Raises: Refused.
        """

    def check_offset_fetch(self, owner: OffsetOwner) -> None:
        """Check that a member may read offsets (OffsetFetch v9+ names it).  Raises: Refused."""

    def check_offset_delete(self) -> None:
        """Check whether any offsets may be deleted.

        Raises: Refused (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND).
        """

    def check_delete(self) -> None:
        """Check that the group may be deleted.

        Raises: Refused (NON_EMPTY_GROUP; classic groups also GROUP_ID_NOT_FOUND).
        """

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic, so that its offsets are neither deleted nor expired.

        Also True if that is unknown.
        """

    def offsets_expire_since_ms(self, commit_wall_ms: int) -> int | None:
        """The wall time from which the retention time of an offset committed at that time counts.

        None: the offset does not expire now, because the group holds it. (KIP-211: the offsets of
        an empty group expire from the time at which it became empty.)
        """

    def tombstones(self) -> "list[GroupRecord]":
        """The records that delete the group, except those for its offsets."""
