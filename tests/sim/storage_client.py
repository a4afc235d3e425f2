"""A client of the simulator that knows keys, and the requests that cut logs."""

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
    CreateTopicsRequest,
)
from odradek.protocol.messages.k20_delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.records.batch import iter_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, iter_records

from .client import RECORDS_BYTES_MAX, Client, check

TIMEOUT_MS = 10_000
TOPIC_RESOURCE = 2

KeyValue = tuple[bytes, bytes | None]
"""None is a tombstone."""
Kept = dict[int, KeyValue]
"""By offset."""


class StorageClient(Client):
    """One connection; topics have one partition.  Each request may raise ErrorAnswer."""

    async def make_topic(self, name: str, configs: dict[str, str]) -> None:
        """CreateTopics."""
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
        check((await self.ask(request, 7)).topics[0].error_code)

    async def remove_topic(self, name: str) -> None:
        """DeleteTopics."""
        topic = DeleteTopicState(name=name, topic_id=bytes(16))
        request = DeleteTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        check((await self.ask(request, 6)).responses[0].error_code)

    async def append(self, topic: str, records: list[KeyValue], acks: int, wall_ms: int) -> int:
        """Produce one batch; return its base offset."""
        batch = build_batch(
            [
                Record(offset=number, timestamp=wall_ms, key=key, value=value)
                for number, (key, value) in enumerate(records)
            ]
        )
        return await self.append_batch(topic, 0, batch, acks=acks)

    async def read_from(
        self, topic: str, offset: int, *, wait_ms: int = 0
    ) -> tuple[Kept, int, int]:
        """Records of the batches from `offset` on, the next offset to ask for, the log start."""
        wanted = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=RECORDS_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=RECORDS_BYTES_MAX,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = await self.ask(request, 12)
        check(answer.error_code)
        result = answer.responses[0].partitions[0]
        check(result.error_code)
        records = result.records or memoryview(b"")
        assert isinstance(records, memoryview)
        kept, next_offset = kept_in(records, offset)
        is_more = next_offset > offset
        assert not is_more or next_offset <= result.high_watermark, "a batch that is not committed"
        return kept, next_offset, result.log_start_offset

    async def offset_at(self, topic: str, timestamp: int, *, partition: int = 0) -> int:
        """ListOffsets."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
        )
        result = (await self.ask(request, 7)).topics[0].partitions[0]
        check(result.error_code)
        found: int = result.offset
        return found

    async def delete_before(self, topic: str, offset: int) -> int:
        """DeleteRecords; return the new log start."""
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=TIMEOUT_MS
        )
        result = (await self.ask(request, 2)).topics[0].partitions[0]
        check(result.error_code)
        low_watermark: int = result.low_watermark
        return low_watermark

    async def move(self, topic: str, path: str) -> None:
        """AlterReplicaLogDirs."""
        wanted = AlterReplicaLogDirTopic(name=topic, partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[wanted])])
        answer = await self.ask(request, 2)
        check(answer.results[0].partitions[0].error_code)

    async def configure(self, topic: str, name: str, value: str | None) -> None:
        """Set one setting of a topic, or take it away."""
        config = AlterableConfig(name=name, config_operation=0 if value else 1, value=value)
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await self.ask(request, 1)
        check(answer.responses[0].error_code)


def kept_in(data: memoryview, offset: int) -> tuple[Kept, int]:
    """The records of whole batches from `offset` on, and the offset after them."""
    kept: Kept = {}
    for position, header in iter_batches(data):
        assert header.next_offset > offset, "a batch below what was asked for"
        offset = header.next_offset
        batch = data[position : position + header.size_bytes]
        for record in iter_records(batch, header, size_bytes_max=RECORDS_BYTES_MAX):
            value = None if record.value is None else bytes(record.value)
            kept[record.offset] = bytes(record.key or b""), value
    return kept, offset
