"""Leaders of partitions, and offsets in their logs."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from .brokers import Brokers, refusal
from .errors import CommandError
from .group_offsets import Partition, by_topic
from .positions import choose_partitions

NO_OFFSET: Final = -1
NO_LEADER: Final = -1
CONSUMER_REPLICA_ID: Final = -1
TIMESTAMPS_FIRST: Final = 1  # ListOffsets v0 finds segments, not records
NO_AUTO_CREATION_FIRST: Final = 4  # before, Metadata creates the topics it names


class FoundOffset(NamedTuple):
    """An offset, or an error code; None without a code: there is no record that late."""

    offset: int | None
    code: int = ErrorCode.NONE


class TopicLeaders(NamedTuple):
    """The leader of each partition by number, and the topic's error code."""

    leaders: Mapping[int, int]
    code: int = ErrorCode.NONE


def topic_leaders(brokers: Brokers, topics: Collection[str]) -> dict[str, TopicLeaders]:
    """The leaders of each topic's partitions.  Raises: CommandError."""
    if not topics:
        return {}
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in sorted(topics)],
        allow_auto_topic_creation=False,
    )
    answer = brokers.ask(request, MetadataResponse, first=NO_AUTO_CREATION_FIRST)
    return {
        topic.name or "": TopicLeaders(
            {p.partition_index: p.leader_id for p in topic.partitions}, topic.error_code
        )
        for topic in answer.topics
    }


def existing_topic(brokers: Brokers, topic: str) -> TopicLeaders:
    """As `topic_leaders`, but a missing topic is an error.  Raises: CommandError."""
    leaders = topic_leaders(brokers, [topic])[topic]
    if leaders.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise CommandError(f"there is no topic {topic!r}")
    if leaders.code:
        raise refusal(topic, leaders.code, "its partitions cannot be looked up")
    return leaders


def chosen_leaders(topic: str, leaders: TopicLeaders, wanted: Collection[int]) -> dict[int, int]:
    """The leaders of the wanted partitions, or of all.  Raises: CommandError if one has none."""
    chosen = choose_partitions(topic, leaders.leaders, wanted)
    for number in chosen:
        if leaders.leaders[number] == NO_LEADER:
            raise CommandError(f"{topic}-{number} has no leader")
    return {number: leaders.leaders[number] for number in chosen}


def log_offsets(
    brokers: Brokers,
    leaders: Mapping[str, TopicLeaders],
    partitions: Collection[Partition],
    timestamp: int,
) -> dict[Partition, FoundOffset]:
    """The first offset at or after a time in ms, or LATEST or EARLIEST.  Raises: CommandError."""
    by_leader: dict[int, list[Partition]] = {}
    found: dict[Partition, FoundOffset] = {}
    for partition in partitions:
        topic = leaders[partition.topic]
        leader = topic.leaders.get(partition.partition)
        if leader is None:
            code = topic.code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            found[partition] = FoundOffset(None, code)
        elif leader == NO_LEADER:
            found[partition] = FoundOffset(None, ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            by_leader.setdefault(leader, []).append(partition)
    for leader, led in by_leader.items():
        found |= _ask_leader(brokers, leader, led, timestamp)
    return found


def _ask_leader(
    brokers: Brokers, leader: int, partitions: list[Partition], timestamp: int
) -> dict[Partition, FoundOffset]:
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(partitions).items()
        ],
    )
    answer = brokers.ask(request, ListOffsetsResponse, node_id=leader, first=TIMESTAMPS_FIRST)
    return {
        Partition(topic.name, p.partition_index): FoundOffset(
            None if p.offset == NO_OFFSET else p.offset, p.error_code
        )
        for topic in answer.topics
        for p in topic.partitions
    }
