"""Records of __consumer_offsets for committed offsets and classic groups.

Source: the JSON files of these names in the group-coordinator jar of Apache Kafka 4.3.1.
"""

from ..schema import Message, Struct, array, binary, int32, int64, string, uuid


class OffsetCommitKey(Message, api_key=1, versions="0", flexible="none"):
    """A committed offset: of a group, in a partition."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    """The offset, and when it was committed."""

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0)


class GroupMetadataKey(Message, api_key=2, versions="0", flexible="none"):
    """A classic group."""

    group: str = string("0")


class MemberMetadata(Struct):
    """A member of a generation; clients define the format of subscription and assignment."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32("0+")
    subscription: bytes = binary("0+")
    assignment: bytes = binary("0+")


class GroupMetadataValue(Message, api_key=2, versions="0-4", flexible="4+"):
    """The generation of a classic group, with the leader's assignments."""

    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")
