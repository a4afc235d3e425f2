"""Checks of commits and reads of offsets by members of a consumer group (KIP-848, KIP-1251)."""

from collections.abc import Iterable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

from .consumer_member import ConsumerMember
from .consumer_state import GroupState
from .group import OffsetOwner, TopicImage, TopicPartition, TopicsImage

CONSUMER_GROUPS_VERSION_FIRST: Final = 9  # of OffsetCommit and OffsetFetch


def check_commit(
    state: GroupState,
    topics: TopicsImage,
    owner: OffsetOwner,
    partitions: Iterable[TopicPartition],
) -> None:
    """Check a commit as a whole.

    Raises: Refused (UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, or, for members
    with the classic protocol, ILLEGAL_GENERATION).
    """
    epoch = owner.generation_or_epoch
    if epoch < 0 and not state.members:
        return
    member = _member(state, owner)
    if member.classic is None and owner.version < CONSUMER_GROUPS_VERSION_FIRST:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Members of consumer groups commit with OffsetCommit "
            f"v{CONSUMER_GROUPS_VERSION_FIRST} or newer.",
        )
    _check_epoch(member, topics, epoch, partitions)


def check_transactional_commit(
    state: GroupState,
    topics: TopicsImage,
    owner: OffsetOwner,
    partitions: Iterable[TopicPartition],
) -> None:
    """Check a commit in a transaction as a whole; producers don't know STALE_MEMBER_EPOCH.

    Raises: Refused (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION).
    """
    epoch = owner.generation_or_epoch
    if owner.is_nobody or (epoch < 0 and not state.members):
        return
    try:
        _check_epoch(_member(state, owner), topics, epoch, partitions)
    except Refused as refused:
        if refused.code != ErrorCode.STALE_MEMBER_EPOCH:
            raise
        raise Refused(ErrorCode.ILLEGAL_GENERATION, refused.message) from None


def _check_epoch(
    member: ConsumerMember,
    topics: TopicsImage,
    epoch: int,
    partitions: Iterable[TopicPartition],
) -> None:
    """Check that the epoch is the member's, or one since which it owns the partitions.

    Raises: Refused (STALE_MEMBER_EPOCH, ILLEGAL_GENERATION).
    """
    if epoch > member.member_epoch:
        raise _stale(member, f"epoch {epoch} has not come yet: {member.member_epoch}")
    if epoch < member.member_epoch:
        for topic, partition in partitions:
            _check_owned_since(member, topics.get(topic), topic, partition, epoch)


def _check_owned_since(
    member: ConsumerMember, image: TopicImage | None, topic: str, partition: int, epoch: int
) -> None:
    """Check that the member has owned a partition since an older epoch (KIP-1251).

    Raises: Refused (STALE_MEMBER_EPOCH, ILLEGAL_GENERATION).
    """
    topic_id = b"" if image is None else image.topic_id
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.pending_revocation.get(topic_id, {}).get(partition)
    if since is None:
        raise _stale(member, f"{topic}-{partition} is not the member's")
    if epoch < since:
        raise _stale(member, f"{topic}-{partition} is the member's since epoch {since} only")


def check_fetch(state: GroupState, owner: OffsetOwner) -> None:
    """Check a read of offsets.

    Raises: Refused (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION).
    """
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
