"""What clients see of a broker, as a JSON object for golden directories that a reader can check."""

from pathlib import Path
from typing import Any, Final

from odradek.protocol.messages.k02_list_offsets import ListOffsetsPartitionResponse
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponseTopic
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from odradek.protocol.messages.k69_consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
)
from odradek.protocol.records import Codec, Record, iter_batches, iter_records, read_header
from tests.support.client import Client
from tests.support.messages import RECORDS_BYTES_MAX, list_offsets

from .requests import describe_configs, offset_for_leader_epoch

EARLIEST: Final = -2
LATEST: Final = -1
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
SET_BY_HAND: Final = frozenset({1, 2, 3})  # sources of DescribeConfigs: topic, broker, all brokers
OFFSETS_TOPIC: Final = "__consumer_offsets"

Picture = dict[str, Any]


async def picture_of(client: Client, start_ms: int) -> Picture:
    """Topics, settings, records, producers, groups and quotas; times count from `start_ms`."""
    answer = await client.ask(MetadataRequest(topics=None), 12)
    topics = sorted(answer.topics, key=lambda topic: topic.name)
    where = await _directories(client)
    return {
        "cluster id": answer.cluster_id,
        "settings of all brokers": await _settings(client, BROKER_RESOURCE, ""),
        "quotas": await _quotas(client),
        "groups": await _groups(client),
        "topics": {topic.name: await _topic(client, topic, where, start_ms) for topic in topics},
    }


async def batches_in(client: Client, topic: str, partition: int = 0) -> list[bytes]:
    """All batches of a partition, each as it lies on disk."""
    offset = (await _offset(client, topic, partition, EARLIEST)).offset
    batches: list[bytes] = []
    while True:
        fetched = await client.fetch(topic, offset, partition=partition)
        assert fetched.error_code == 0
        data: Any = fetched.records or b""
        view = memoryview(data)
        found = list(iter_batches(view))
        batches += [bytes(view[at : at + header.size_bytes]) for at, header in found]
        if not found:
            return batches
        offset = found[-1][1].next_offset


async def _topic(
    client: Client,
    topic: MetadataResponseTopic,
    where: dict[tuple[str, int], str],
    start_ms: int,
) -> Picture:
    assert topic.name is not None
    partitions = []
    for partition in range(len(topic.partitions)):
        seen = await _partition(client, topic.name, partition, start_ms)
        partitions.append({"directory": where[topic.name, partition], **seen})
    return {
        "id": topic.topic_id.hex(),
        "settings": await _settings(client, TOPIC_RESOURCE, topic.name),
        "partitions": partitions,
    }


async def _partition(client: Client, topic: str, partition: int, start_ms: int) -> Picture:
    batches = await batches_in(client, topic, partition)
    headers = [read_header(batch) for batch in batches]
    epochs = sorted({header.partition_leader_epoch for header in headers})
    seen: Picture = {
        "log start": (await _offset(client, topic, partition, EARLIEST)).offset,
        "log end": (await _offset(client, topic, partition, LATEST)).offset,
        "ends of epochs": {
            str(epoch): await _end_of_epoch(client, topic, partition, epoch) for epoch in epochs
        },
        "producers": await _producers(client, topic, partition),
    }
    if topic == OFFSETS_TOPIC:  # what its records mean stands below "groups"
        return seen
    newest_ms = headers[-1].max_timestamp - start_ms if headers else 0
    found = await _offset(client, topic, partition, start_ms + newest_ms // 2)
    return {
        **seen,
        f"first record from {newest_ms // 2} ms on": found.offset,
        "batches": [
            f"{header.base_offset}-{header.last_offset} epoch {header.partition_leader_epoch} "
            f"{Codec(header.codec).name.lower()}"
            for header in headers
        ],
        "records": [
            _text(record, start_ms)
            for batch in batches
            for record in iter_records(batch, size_bytes_max=RECORDS_BYTES_MAX)
        ],
    }


def _text(record: Record, start_ms: int) -> str:
    """Offset, time, key, value and headers."""
    key, value = (None if it is None else bytes(it).decode() for it in (record.key, record.value))
    shown = f" {record.headers}" if record.headers else ""
    return f"{record.offset} {record.timestamp - start_ms} ms {key}={value}{shown}"


async def _offset(
    client: Client, topic: str, partition: int, timestamp: int
) -> ListOffsetsPartitionResponse:
    answer = await client.ask(list_offsets(topic, timestamp, partition=partition), 7)
    found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
    assert found.error_code == 0
    return found


async def _end_of_epoch(client: Client, topic: str, partition: int, epoch: int) -> int:
    request = offset_for_leader_epoch(topic, epoch)
    request.topics[0].partitions[0].partition = partition
    end = (await client.ask(request, 4)).topics[0].partitions[0]
    assert (end.error_code, end.leader_epoch) == (0, epoch)
    offset: int = end.end_offset
    return offset


async def _producers(client: Client, topic: str, partition: int) -> list[str]:
    asked = TopicRequest(name=topic, partition_indexes=[partition])
    answer = await client.ask(DescribeProducersRequest(topics=[asked]), 0)
    found = answer.topics[0].partitions[0].active_producers
    return sorted(
        f"{it.producer_id} epoch {it.producer_epoch} last sequence {it.last_sequence}"
        for it in found
    )


async def _settings(client: Client, kind: int, name: str) -> dict[str, str]:
    answer = await client.ask(describe_configs(kind, name), 4)
    return {
        config.name: config.value
        for config in answer.results[0].configs
        if config.config_source in SET_BY_HAND
    }


async def _directories(client: Client) -> dict[tuple[str, int], str]:
    answer = await client.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        (topic.name, partition.partition_index): Path(result.log_dir).name
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
    }


async def _quotas(client: Client) -> list[str]:
    anything = [ComponentData(entity_type="client-id", match_type=2, match=None)]
    answer = await client.ask(DescribeClientQuotasRequest(components=anything), 1)
    return sorted(
        f"{entity.entity_type} {entity.entity_name}: {value.key}={value.value}"
        for entry in answer.entries
        for entity in entry.entity
        for value in entry.values
    )


async def _groups(client: Client) -> Picture:
    listed = (await client.ask(ListGroupsRequest(), 5)).groups
    kinds = {group.group_id: group.group_type for group in listed}
    describe = {"classic": _classic, "consumer": _consumer}
    return {
        name: {
            **await describe[kind.lower()](client, name),
            "committed": await _committed(client, name),
        }
        for name, kind in sorted(kinds.items())
    }


async def _classic(client: Client, name: str) -> Picture:
    (group,) = (await client.ask(DescribeGroupsRequest(groups=[name]), 5)).groups
    return {
        "classic": f"{group.group_state} {group.protocol_type} {group.protocol_data}".rstrip(),
        "members": {
            member.member_id: f"of {member.client_id}, {member.member_assignment.decode()}"
            for member in group.members
        },
    }


async def _consumer(client: Client, name: str) -> Picture:
    (group,) = (await client.ask(ConsumerGroupDescribeRequest(group_ids=[name]), 1)).groups
    return {
        "consumer": f"{group.group_state} epoch {group.group_epoch} {group.assignor_name}",
        "members": {
            member.member_id: f"of {member.client_id}, epoch {member.member_epoch}, subscribed to "
            f"{member.subscribed_topic_names}, {_assigned(member.assignment)}"
            for member in group.members
        },
    }


def _assigned(assignment: Assignment) -> dict[str, list[int]]:
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


async def _committed(client: Client, name: str) -> list[str]:
    asked = [OffsetFetchRequestGroup(group_id=name, topics=None)]
    (group,) = (await client.ask(OffsetFetchRequest(groups=asked), 9)).groups
    assert group.error_code == 0
    return sorted(
        f"{topic.name}-{at.partition_index}: {at.committed_offset} {at.metadata!r}"
        for topic in group.topics
        for at in topic.partitions
    )
