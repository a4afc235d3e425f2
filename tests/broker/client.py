"""A client that speaks only `odradek.protocol`: it can send what no real client would."""

import asyncio
import importlib
import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from odradek.broker.handlers import APIS
from odradek.protocol.framing import API_VERSIONS_KEY, FRAME_SIZE
from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.records import Record, build_batch, iter_batches, iter_records
from odradek.protocol.schema import Message

TIMEOUT_S = 30
RECORDS_BYTES_MAX = 1 << 24
_START = struct.Struct(">hhih")
_WITHOUT_CLIENT_ID = (7, 0)  # ControlledShutdown; no other request has this header

Response = TypeVar("Response", bound=Message)


class HungUp(Exception):
    """The broker has closed the connection."""


def request_bytes(
    request: Message, version: int, correlation_id: int = 1, client_id: str = "test"
) -> bytes:
    """A request with its header, without the frame's size."""
    name = client_id.encode()
    start = _START.pack(request.API_KEY, version, correlation_id, len(name)) + name
    if (request.API_KEY, version) == _WITHOUT_CLIENT_ID:
        start = start[: _START.size - 2]
    tags = b"\0" if version in request.FLEXIBLE else b""
    return start + tags + bytes(request.encode(version))


def response_class(api_key: int) -> type[Message]:
    """The class of an API's response."""
    api = APIS[api_key]
    module = importlib.import_module(f"odradek.protocol.messages.{api.module}")
    found: type[Message] = getattr(module, f"{api.name}Response")
    return found


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_ids = itertools.count(1)

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1", **options: Any) -> Self:
        """Connect to a broker."""
        return cls(*await asyncio.open_connection(host, port, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return

    def abort(self) -> None:
        """Hang up as a killed client does."""
        self.writer.transport.abort()

    # Bytes.

    def send_frame(self, frame: bytes) -> None:
        """Send bytes as one frame."""
        self.writer.write(FRAME_SIZE.pack(len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    async def read_frame(self) -> bytes:
        """The next answer without its size.  Raises: HungUp, TimeoutError."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                (size_bytes,) = FRAME_SIZE.unpack(await self.reader.readexactly(4))
                return await self.reader.readexactly(size_bytes)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise HungUp from None

    async def is_closed(self) -> bool:
        """Wait for the broker to hang up; True if it does so without another byte."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    # Messages.

    def send(self, request: Message, version: int, *, client_id: str = "test") -> int:
        """Send a request; return its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_frame(request_bytes(request, version, correlation_id, client_id))
        return correlation_id

    async def read(self, kind: type[Response], version: int, correlation_id: int) -> Response:
        """The next answer, which must be the one to this request and nothing more."""
        frame = memoryview(await self.read_frame())
        flexible = version in kind.FLEXIBLE and kind.API_KEY != API_VERSIONS_KEY
        start = correlation_id.to_bytes(4, "big") + (b"\0" if flexible else b"")
        assert frame[: len(start)] == start, "not the answer to this"
        answer, end = kind.decode(frame, version, len(start))
        assert end == len(frame), "bytes after the answer"
        return answer

    async def ask(self, request: Message, version: int, *, client_id: str = "test") -> Any:
        """Send a request and wait for its answer."""
        correlation_id = self.send(request, version, client_id=client_id)
        return await self.read(response_class(request.API_KEY), version, correlation_id)

    # What most tests need.

    async def create_topic(
        self, name: str, partitions: int = 1, *, configs: dict[str, str] | None = None
    ) -> CreatableTopicResult:
        """Create a topic; it must succeed, once one of that name is deleted."""
        topic = creatable(name, partitions, configs=configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_S * 1000)
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                answer: CreateTopicsResponse = await self.ask(request, 7)
                if "is being deleted" not in (answer.topics[0].error_message or ""):
                    break
                await asyncio.sleep(0.005)
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        return answer.topics[0]

    async def produce(
        self,
        topic: str,
        batch: bytes | bytearray | None,
        *,
        partition: int = 0,
        version: int = 11,
        acks: int = -1,
    ) -> PartitionProduceResponse:
        """Produce one batch; return the partition's result."""
        request = produce_request(topic, {partition: batch}, acks=acks)
        answer: ProduceResponse = await self.ask(request, version)
        return answer.responses[0].partition_responses[0]

    async def append(
        self, topic: str, batch: bytes | bytearray, *, partition: int = 0, acks: int = -1
    ) -> int:
        """Produce one batch, which must succeed; return its base offset."""
        result = await self.produce(topic, batch, partition=partition, acks=acks)
        assert result.error_code == 0, result.error_message
        return result.base_offset

    async def fetch(
        self, topic: str, offset: int = 0, *, partition: int = 0, version: int = 12, **more: Any
    ) -> PartitionData:
        """Fetch from one partition; return the partition's result."""
        request = fetch_request(topic, offset, partition=partition, **more)
        answer: FetchResponse = await self.ask(request, version)
        assert answer.error_code == 0
        return answer.responses[0].partitions[0]


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
