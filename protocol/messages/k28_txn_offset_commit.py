"""TxnOffsetCommit (API key 28): a producer commits offsets of a group as part of its transaction.

Source: TxnOffsetCommitRequest.json, TxnOffsetCommitResponse.json of Apache Kafka 3.9.2,
v5 of 4.3.1.
"""

from ..schema import Message, Struct, array, int16, int32, int64, string


class TxnOffsetCommitRequestPartition(Struct):
    """An offset to commit, with the consumer's metadata."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    """Commit offsets in a transaction; v3+ name the member that has consumed them (KIP-447).

    v5 also adds the group to the transaction (KIP-890).
    """

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


class TxnOffsetCommitResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TxnOffsetCommitResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[TxnOffsetCommitResponsePartition] = array(
        TxnOffsetCommitResponsePartition, "0+"
    )


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    """One code for each partition."""

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")
