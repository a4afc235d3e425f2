"""The responses about committed offsets, with the same order and duplicates as Kafka's.

Unknown partitions come first, each as often as it was requested. Existing partitions come once
each, with the result of the last mention in the request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, overload

from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records.classic import OffsetCommitValue
from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from .group import TopicPartition

NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1

Exists = Callable[[str, int], bool]
"""Whether a topic has this partition."""
Commit = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
WantedTopics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics]
Codes = Mapping[TopicPartition, ErrorCode]


@overload
def commits_in(
    request: OffsetCommitRequest,
) -> list[tuple[TopicPartition, OffsetCommitRequestPartition]]: ...
@overload
def commits_in(
    request: TxnOffsetCommitRequest,
) -> list[tuple[TopicPartition, TxnOffsetCommitRequestPartition]]: ...
def commits_in(
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
) -> Sequence[tuple[TopicPartition, Commit]]:
    """Every partition of a request, in request order."""
    return [
        ((topic.name, partition.partition_index), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


def deletes_in(request: OffsetDeleteRequest) -> list[TopicPartition]:
    """Every partition of a request, in request order."""
    return [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]


def there_in(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, exists: Exists
) -> list[TopicPartition]:
    """The existing partitions; if there are none, Kafka answers without checking the group."""
    return [key for key, _ in commits_in(request) if exists(*key)]


def refuse_commit(
    request: OffsetCommitRequest, code: ErrorCode, exists: Exists
) -> OffsetCommitResponse:
    """Every existing partition gets the group's code."""
    asked = [key for key, _ in commits_in(request)]
    codes = dict.fromkeys((key for key in asked if exists(*key)), code)
    return commit_answer(asked, codes)


def refuse_txn_commit(
    request: TxnOffsetCommitRequest, code: ErrorCode, exists: Exists
) -> TxnOffsetCommitResponse:
    """Every existing partition gets the group's code."""
    asked = [key for key, _ in commits_in(request)]
    codes = dict.fromkeys((key for key in asked if exists(*key)), code)
    return txn_commit_answer(asked, codes)


def refuse_delete(code: ErrorCode) -> OffsetDeleteResponse:
    """The response with only the group's code."""
    return OffsetDeleteResponse(error_code=code)


def refuse_fetch(topics: WantedTopics, code: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """Every partition gets the code: before v2, the response has no error code of its own."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=NO_OFFSET,
                    committed_leader_epoch=NO_LEADER_EPOCH,
                    metadata="",
                    error_code=code,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def older_shape(topics: Sequence[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopic]:
    """The result of `Offsets.fetch` in the form of responses before v8."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def commit_answer(asked: Iterable[TopicPartition], codes: Codes) -> OffsetCommitResponse:
    """The OffsetCommit response; partitions that are not in `codes` are unknown."""
    topics: dict[str, OffsetCommitResponseTopic] = {}
    for (name, index), code in _in_order(asked, codes):
        topic = topics.setdefault(name, OffsetCommitResponseTopic(name=name))
        topic.partitions.append(
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
        )
    return OffsetCommitResponse(topics=list(topics.values()))


def txn_commit_answer(asked: Iterable[TopicPartition], codes: Codes) -> TxnOffsetCommitResponse:
    """The TxnOffsetCommit response; partitions that are not in `codes` are unknown."""
    topics: dict[str, TxnOffsetCommitResponseTopic] = {}
    for (name, index), code in _in_order(asked, codes):
        topic = topics.setdefault(name, TxnOffsetCommitResponseTopic(name=name))
        topic.partitions.append(
            TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
        )
    return TxnOffsetCommitResponse(topics=list(topics.values()))


def delete_answer(asked: Iterable[TopicPartition], codes: Codes) -> OffsetDeleteResponse:
    """The OffsetDelete response; partitions that are not in `codes` are unknown."""
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for (name, index), code in _in_order(asked, codes):
        topic = topics.setdefault(name, OffsetDeleteResponseTopic(name=name))
        topic.partitions.append(
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
        )
    return OffsetDeleteResponse(topics=list(topics.values()))


def fetch_answer(
    found: Mapping[TopicPartition, OffsetCommitValue | ErrorCode | None],
) -> list[OffsetFetchResponseTopics]:
    """The OffsetFetch result: for each partition the offset, an error code, or None (no offset)."""
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for (name, index), value in found.items():
        topic = topics.setdefault(name, OffsetFetchResponseTopics(name=name))
        kept = value if isinstance(value, OffsetCommitValue) else None
        topic.partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=kept.offset if kept else NO_OFFSET,
                committed_leader_epoch=kept.leader_epoch if kept else NO_LEADER_EPOCH,
                metadata=kept.metadata if kept else "",
                error_code=value if isinstance(value, ErrorCode) else ErrorCode.NONE,
            )
        )
    return list(topics.values())


def _in_order(
    asked: Iterable[TopicPartition], codes: Codes
) -> list[tuple[TopicPartition, ErrorCode]]:
    absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [*((key, absent) for key in asked if key not in codes), *codes.items()]
