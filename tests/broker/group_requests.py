"""Requests about groups, as a client would write them."""

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 20_000


def subscription(*topics: str) -> bytes:
    """What a consumer tells the others of its group."""
    return bytes(2) + bytes(ConsumerProtocolSubscription(topics=list(topics)).encode(0))


def join(
    group_id: str,
    member_id: str = "",
    *,
    topics: Sequence[str] = ("orders",),
    protocols: Sequence[str] = ("range",),
    session_ms: int = SESSION_MS,
) -> JoinGroupRequest:
    """Join as a consumer of some topics."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=subscription(*topics))
            for name in protocols
        ],
    )


def sync(
    group_id: str,
    generation_id: int,
    member_id: str,
    assignments: Mapping[str, bytes] | None = None,
) -> SyncGroupRequest:
    """Wait for the assignment; the leader brings `assignments`."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=other, assignment=assignment)
            for other, assignment in (assignments or {}).items()
        ],
    )


def leave(group_id: str, member_id: str) -> LeaveGroupRequest:
    """Leave; in every version."""
    return LeaveGroupRequest(
        group_id=group_id, member_id=member_id, members=[MemberIdentity(member_id=member_id)]
    )


def commit(
    group_id: str,
    topic: str,
    offsets: Mapping[int, int],
    *,
    generation_id: int = -1,
    member_id: str = "",
    metadata: str | None = "",
) -> OffsetCommitRequest:
    """Keep positions; by default from outside the group."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                    for partition, offset in offsets.items()
                ],
            )
        ],
    )


def txn_commit(
    group_id: str,
    topic: str,
    offsets: Mapping[int, int],
    *,
    producer_id: int,
    producer_epoch: int = 0,
    generation_id: int = -1,
    member_id: str = "",
) -> TxnOffsetCommitRequest:
    """Keep positions in a transaction; by default from outside the group."""
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        generation_id=generation_id,
        member_id=member_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=""
                    )
                    for partition, offset in offsets.items()
                ],
            )
        ],
    )


def fetch_offsets(group_id: str, topic: str, *partitions: int) -> OffsetFetchRequest:
    """Read positions; in every version."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))
    older = OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[older],
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[asked])],
    )


def delete_offsets(group_id: str, topic: str, *partitions: int) -> OffsetDeleteRequest:
    """Delete positions."""
    asked = [OffsetDeleteRequestPartition(partition_index=partition) for partition in partitions]
    return OffsetDeleteRequest(
        group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=asked)]
    )


def consumer_heartbeat(
    group_id: str, member_id: str, member_epoch: int = 0, *, topics: Sequence[str] = ("orders",)
) -> ConsumerGroupHeartbeatRequest:
    """Join a consumer group (KIP-848), or go on being a member."""
    joins = member_epoch == 0
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        rebalance_timeout_ms=REBALANCE_MS if joins else -1,
        subscribed_topic_names=list(topics) if joins else None,
        topic_partitions=[] if joins else None,
    )
