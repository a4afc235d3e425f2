"""Who may commit and read offsets of a consumer group (KIP-848, KIP-1251)."""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

from .consumer_member import ConsumerMember
from .consumer_state import GroupState
from .group import OffsetOwner, TopicsImage

CONSUMER_GROUPS_VERSION_FIRST: Final = 9  # of OffsetCommit


class CommitCheck:
    """What is left to check, partition by partition, of a commit that passed as a whole."""

    __slots__ = ("_epoch", "_member", "_topics")

    def __init__(
        self, topics: TopicsImage, member: ConsumerMember | None = None, epoch: int = -1
    ) -> None:
        self._topics = topics
        self._member = member
        """None: it may commit everything."""
        self._epoch = epoch

    def refuse_older(self) -> None:
        """Refuse all of it, if it comes from an epoch before the member's.  Raises: Refused."""
        if self._member is not None:
            raise _stale(self._member, f"epoch {self._epoch} is over: {self._member.member_epoch}")

    def check(self, topic: str, partition: int) -> None:
        """An older epoch will do for a partition the member has owned ever since it.

        Raises: Refused (STALE_MEMBER_EPOCH, ILLEGAL_GENERATION).
        """
        if self._member is None:
            return
        image = self._topics.get(topic)
        topic_id = b"" if image is None else image.topic_id
        since = self._member.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = self._member.pending_revocation.get(topic_id, {}).get(partition)
        if since is None:
            raise _stale(self._member, f"{topic}-{partition} is not the member's")
        if self._epoch < since:
            raise _stale(
                self._member, f"{topic}-{partition} is the member's since epoch {since} only"
            )


def commit_check(state: GroupState, owner: OffsetOwner, topics: TopicsImage) -> CommitCheck:
    """Let a commit pass as a whole.  Raises: Refused."""
    epoch = owner.generation_or_epoch
    if epoch < 0 and not state.members:
        return CommitCheck(topics)
    member = _member(state, owner)
    if member.classic is None and owner.version < CONSUMER_GROUPS_VERSION_FIRST:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Members of consumer groups commit with OffsetCommit "
            f"v{CONSUMER_GROUPS_VERSION_FIRST} or newer.",
        )
    if epoch == member.member_epoch:
        return CommitCheck(topics)
    if epoch > member.member_epoch:
        raise _stale(member, f"epoch {epoch} has not come yet: {member.member_epoch}")
    return CommitCheck(topics, member, epoch)


def check_fetch(state: GroupState, owner: OffsetOwner) -> None:
    """Let offsets be read.  Raises: Refused."""
    member = _member(state, owner)
    if owner.generation_or_epoch != member.member_epoch:
        raise _stale(member, f"epoch {owner.generation_or_epoch} is not {member.member_epoch}")


def _member(state: GroupState, owner: OffsetOwner) -> ConsumerMember:
    member = state.members.get(owner.member_id)
    if member is None:
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{owner.member_id} is not a member of {state.group_id}."
        )
    return member


def _stale(member: ConsumerMember, detail: str) -> Refused:
    classic = member.classic is not None
    code = ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH
    return Refused(code, f"{detail}.")
