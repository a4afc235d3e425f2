"""A minimal client of the simulator: one request at a time, as `protocol` declares them."""

from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.protocol.records.batch import iter_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, iter_records
from tests.support.connections import AsyncConnection
from tests.support.messages import produce_request

from .transport import SimTransport

PRODUCE_VERSION = 11
FETCH_VERSION = 12
CREATE_TOPICS_VERSION = 7
RECORDS_BYTES_MAX = 4 << 20


class ErrorAnswer(Exception):
    """The broker answered an error code."""


class Client(AsyncConnection):
    """One connection, in the simulated network.  Raises: ConnectionError, TimeoutError."""

    def pause_reading(self) -> None:
        """Leave answers unread."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._transport.resume_reading()

    @property
    def _transport(self) -> SimTransport:
        assert isinstance(self.writer.transport, SimTransport)
        return self.writer.transport

    async def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Create a topic.  Raises: ErrorAnswer."""
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
        answer = await self.ask(request, CREATE_TOPICS_VERSION)
        check(answer.topics[0].error_code)

    async def produce(self, topic: str, partition: int, values: list[bytes], *, acks: int) -> int:
        """Append one batch; return its base offset.  Raises: ErrorAnswer."""
        records = [
            Record(offset=number, timestamp=number, key=None, value=value, headers=[])
            for number, value in enumerate(values)
        ]
        return await self.append_batch(topic, partition, build_batch(records), acks=acks)

    async def append_batch(
        self, topic: str, partition: int, batch: bytearray, *, acks: int = -1
    ) -> int:
        """Append a batch as it is; return its base offset.  Raises: ErrorAnswer."""
        request = produce_request(topic, {partition: batch}, acks=acks)
        answer = await self.ask(request, PRODUCE_VERSION)
        result = answer.responses[0].partition_responses[0]
        check(result.error_code)
        base_offset: int = result.base_offset
        return base_offset

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        wait_ms: int = 0,
        partition_max_bytes: int = RECORDS_BYTES_MAX,
    ) -> list[tuple[int, bytes]]:
        """Offsets and values of the batches that hold or follow `offset`.  Raises: ErrorAnswer."""
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=RECORDS_BYTES_MAX,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = await self.ask(request, FETCH_VERSION)
        check(answer.error_code)
        result = answer.responses[0].partitions[0]
        check(result.error_code)
        assert isinstance(result.records, memoryview | None)
        return _values(memoryview(b"") if result.records is None else result.records)


def _values(records: memoryview) -> list[tuple[int, bytes]]:
    return [
        (record.offset, bytes(record.value or b""))
        for position, header in iter_batches(records)
        for record in iter_records(
            records[position : position + header.size_bytes],
            header,
            size_bytes_max=RECORDS_BYTES_MAX,
        )
    ]


def check(error_code: int) -> None:
    """Raises: ErrorAnswer, unless all is well."""
    if error_code:
        raise ErrorAnswer(error_code)
