"""Requests that are made often, and what is in their answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
)
from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.records import Record, build_batch, iter_batches, iter_records

TIMEOUT_MS: Final = 30_000
RECORDS_BYTES_MAX = 1 << 24


def creatable(
    name: str, partitions: int = 1, *, factor: int = 1, configs: dict[str, str] | None = None
) -> CreatableTopic:
    """A topic of a CreateTopics request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )


def produce_request(
    topic: str, batches: Mapping[int, bytes | bytearray | None], *, acks: int = -1
) -> ProduceRequest:
    """A Produce to partitions of one topic."""
    data = [PartitionProduceData(index=p, records=batch) for p, batch in batches.items()]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def fetch_request(
    topic: str | bytes,
    offset: int = 0,
    *,
    partition: int = 0,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation_level: int = 0,
) -> FetchRequest:
    """A Fetch from one partition, by the topic's name or its id."""
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=leader_epoch,
    )
    asked = FetchTopic(partitions=[wanted])
    if isinstance(topic, str):
        asked.topic = topic
    else:
        asked.topic_id = topic
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[asked],
    )


def list_offsets(topic: str, timestamp: int, *, partition: int = 0) -> ListOffsetsRequest:
    """Ask for one offset; v0 for as many as there are."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, max_num_offsets=10)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )


def delete_records(*asked: tuple[str, int, int]) -> DeleteRecordsRequest:
    """Delete below an offset: topic, partition, offset."""
    topics = [
        DeleteRecordsTopic(
            name=topic,
            partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)],
        )
        for topic, partition, offset in asked
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def batch_of(*values: bytes, timestamp: int = 1_700_000_000_000, **more: Any) -> bytearray:
    """A batch with one record a value."""
    records = [Record(index, timestamp, None, value) for index, value in enumerate(values)]
    return build_batch(records, **more)


def records_in(data: Any) -> list[tuple[int, bytes]]:
    """Offset and value of each record in what a Fetch gave."""
    view = memoryview(b"" if data is None else data)
    return [
        (record.offset, bytes(record.value or b""))
        for position, header in iter_batches(view)
        for record in iter_records(
            view[position : position + header.size_bytes],
            header,
            size_bytes_max=RECORDS_BYTES_MAX,
        )
    ]


def error_codes(results: Sequence[Any]) -> list[int]:
    """The error code of each result."""
    return [result.error_code for result in results]
