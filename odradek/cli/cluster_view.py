"""Brokers and partitions of a cluster, for the commands that look at all of it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import click

from odradek.broker.core.assignment import BrokerRack
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from odradek.protocol.messages.k35_describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

from .brokers import Brokers, refusal
from .errors import CommandError

TopicPartition = tuple[str, int]
RACKS_FIRST: Final = 1
NO_LEADER: Final = -1


class PartitionView(NamedTuple):
    """A partition as a broker describes it."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def key(self) -> TopicPartition:
        """The topic partition."""
        return self.topic, self.partition


class ClusterView(NamedTuple):
    """The cluster as one broker describes it."""

    cluster_id: str | None
    controller_id: int
    brokers: list[MetadataResponseBroker]
    topics: list[MetadataResponseTopic]

    @property
    def racks(self) -> list[BrokerRack]:
        """The live brokers by id, each with its rack."""
        return [BrokerRack(broker.node_id, broker.rack or None) for broker in self.brokers]

    def partitions(self) -> Iterator[PartitionView]:
        """All partitions, by topic and number."""
        for topic in sorted(self.topics, key=lambda topic: topic.name or ""):
            for p in sorted(topic.partitions, key=lambda p: p.partition_index):
                yield PartitionView(
                    topic.name or "",
                    p.partition_index,
                    p.leader_id,
                    tuple(p.replica_nodes),
                    tuple(p.isr_nodes),
                )


def view(brokers: Brokers, topics: Sequence[str] | None = None) -> ClusterView:
    """The cluster with some topics, or with all (None).  Raises: CommandError."""
    asked = None
    if topics is not None:
        asked = [MetadataRequestTopic(name=name) for name in dict.fromkeys(topics)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    answer = brokers.ask(request, MetadataResponse, first=RACKS_FIRST)
    for topic in answer.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topics is not None:
            raise CommandError(f"there is no topic {topic.name}")
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise refusal(topic.name or "", topic.error_code)
    nodes = sorted(answer.brokers, key=lambda broker: broker.node_id)
    return ClusterView(answer.cluster_id, answer.controller_id, nodes, answer.topics)


def chosen_partitions(
    found: ClusterView, asked: Sequence[tuple[str, int | None]]
) -> list[PartitionView]:
    """The partitions that `parse_partitions` gave, or all; a missing one raises CommandError."""
    present = list(found.partitions())
    for topic, number in asked:
        if number is not None and all(p.key != (topic, number) for p in present):
            raise CommandError(f"there is no partition {number} of {topic}")
    return [p for p in present if not asked or (p.topic, None) in asked or p.key in asked]


def controller_of(found: ClusterView) -> int:
    """The id of the controller.  Raises: CommandError if there is none."""
    if found.controller_id not in {broker.node_id for broker in found.brokers}:
        raise CommandError("the cluster has no controller just now")
    return found.controller_id


def replica_sizes(
    brokers: Brokers, node_ids: Iterable[int]
) -> dict[int, dict[TopicPartition, int]]:
    """The size in bytes of every replica on some brokers, by broker.  Raises: CommandError."""
    sizes: dict[int, dict[TopicPartition, int]] = {}
    for node_id in node_ids:
        request = DescribeLogDirsRequest(topics=None)
        answer = brokers.ask(request, DescribeLogDirsResponse, node_id=node_id)
        if answer.error_code:
            raise refusal(f"broker {node_id}", answer.error_code)
        sizes[node_id] = {
            (topic.name, partition.partition_index): partition.partition_size
            for log_dir in answer.results
            for topic in log_dir.topics
            for partition in topic.partitions
            if not partition.is_future_key
        }
    return sizes


def size_text(size_bytes: float) -> str:
    """A number of bytes in readable form: 5.2 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def parse_numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> list[int] | None:
    """A click callback for broker ids: 1,2,3."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise click.BadParameter(f"{text!r} is not like 1,2,3", ctx, param)
    return numbers


def parse_partitions(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, int | None]]:
    """A click callback for a repeated TOPIC or TOPIC:PARTITION; None means all partitions."""
    parsed: list[tuple[str, int | None]] = []
    for text in texts:
        topic, colon, number = text.partition(":")
        if not topic or (colon and not (number.isascii() and number.isdigit())):
            raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION", ctx, param)
        parsed.append((topic, int(number) if colon else None))
    return parsed
