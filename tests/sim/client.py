"""A minimal client of the simulator: one request at a time, as `protocol` declares them."""

import asyncio
import itertools
import struct
from typing import TypeVar

from odradek.protocol.framing import FRAME_SIZE
from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.records.batch import iter_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, iter_records
from odradek.protocol.schema import Message

from .transport import SimTransport

PRODUCE_VERSION = 11
FETCH_VERSION = 12
CREATE_TOPICS_VERSION = 7
REQUEST_TIMEOUT_S = 30
RECORDS_BYTES_MAX = 4 << 20
_HEADER = struct.Struct(">hhih")  # request header version 2, up to the client id's length
_CLIENT_ID = b"sim"

Answer = TypeVar("Answer", bound=Message)


class ErrorAnswer(Exception):
    """The broker answered an error code."""


class Client:
    """One connection.  Raises ConnectionError or TimeoutError when it is lost."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_ids = itertools.count(1)

    @classmethod
    async def connect(cls, host: str, port: int) -> "Client":
        """Connect to a broker."""
        return cls(*await asyncio.open_connection(host, port))

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    def pause_reading(self) -> None:
        """Leave answers unread."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._transport.resume_reading()

    @property
    def _transport(self) -> SimTransport:
        assert isinstance(self._writer.transport, SimTransport)
        return self._writer.transport

    async def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Create a topic.  Raises: ErrorAnswer."""
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
        answer = await self.ask(request, CreateTopicsResponse, CREATE_TOPICS_VERSION)
        _check(answer.topics[0].error_code)

    async def produce(self, topic: str, partition: int, values: list[bytes], *, acks: int) -> int:
        """Append one batch; return its base offset.  Raises: ErrorAnswer."""
        records = [
            Record(offset=number, timestamp=number, key=None, value=value, headers=[])
            for number, value in enumerate(values)
        ]
        data = PartitionProduceData(index=partition, records=build_batch(records))
        request = ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = await self.ask(request, ProduceResponse, PRODUCE_VERSION)
        result = answer.responses[0].partition_responses[0]
        _check(result.error_code)
        return result.base_offset

    async def fetch(
        self, topic: str, partition: int, offset: int, *, wait_ms: int = 0
    ) -> list[tuple[int, bytes]]:
        """Offsets and values of the batches that hold or follow `offset`.  Raises: ErrorAnswer."""
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=RECORDS_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=RECORDS_BYTES_MAX,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = await self.ask(request, FetchResponse, FETCH_VERSION)
        _check(answer.error_code)
        result = answer.responses[0].partitions[0]
        _check(result.error_code)
        assert isinstance(result.records, memoryview | None)
        return _values(memoryview(b"") if result.records is None else result.records)

    async def ask(self, request: Message, answer: type[Answer], version: int) -> Answer:
        """Send a request of a flexible version; return its answer, whatever it says."""
        correlation_id = next(self._correlation_ids)
        header = _HEADER.pack(request.API_KEY, version, correlation_id, len(_CLIENT_ID))
        body = header + _CLIENT_ID + b"\0" + request.encode(version)
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            self._writer.write(FRAME_SIZE.pack(len(body)) + body)
            await self._writer.drain()
            frame = await self._read_frame()
        assert frame[:5] == correlation_id.to_bytes(4, "big") + b"\0", "not the answer to this"
        message, end = answer.decode(memoryview(frame), version, 5)
        assert end == len(frame)
        return message

    async def _read_frame(self) -> bytes:
        try:
            (size_bytes,) = FRAME_SIZE.unpack(await self._reader.readexactly(FRAME_SIZE.size))
            return await self._reader.readexactly(size_bytes)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the broker hung up") from None


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


def _check(error_code: int) -> None:
    if error_code:
        raise ErrorAnswer(error_code)
