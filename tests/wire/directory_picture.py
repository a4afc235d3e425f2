"""What a broker shows of its topics, to be compared with what another shows of the same files."""

import itertools
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.records import iter_batches, iter_records
from odradek.protocol.schema import Message
from tests.support.connections import RawConnection
from tests.support.frames import request_bytes
from tests.support.waiting import until
from tests.wire.raw import RawBatch, produce, record
from tests.wire.servers import Server

READ_COMMITTED: Final = 1
LATEST, EARLIEST = -1, -2
FETCH_BYTES_MAX: Final = 1 << 22
PRODUCE_VERSION: Final = 8
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45


class Talker:
    """One connection to a broker, in versions that Kafka 3.9 and Odradek both serve."""

    def __init__(self, server: Server) -> None:
        self._connection = RawConnection(server.host, server.port)
        self._correlation_ids = itertools.count(1)

    def close(self) -> None:
        self._connection.socket.close()

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and return its answer."""
        correlation_id = next(self._correlation_ids)
        self._connection.send_frame(request_bytes(request, version, correlation_id))
        frame = self._connection.read_frame()
        module = sys.modules[type(request).__module__]
        kind = getattr(module, type(request).__name__.removesuffix("Request") + "Response")
        return kind.decode(frame, version, 5 if version in kind.FLEXIBLE else 4)[0]

    def produce(self, topic: str, batch: RawBatch) -> tuple[int, int]:
        """Error code and base offset of one batch to partition 0, with acks=all."""
        self._connection.send_frame(
            produce(topic, [(0, batch.encode())], version=PRODUCE_VERSION, acks=-1)
        )
        answer = ProduceResponse.decode(self._connection.read_frame(), PRODUCE_VERSION, 4)[0]
        (partition,) = answer.responses[0].partition_responses
        return partition.error_code, partition.base_offset


class PartitionPicture(NamedTuple):
    """All that a client can see of a partition."""

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    aborted: list[tuple[int, int]]
    """(producer id, first offset)"""
    batches: bytes
    """As they lie in the log, from the one that holds the log start."""


Picture = dict[tuple[str, int], PartitionPicture]


def picture_of(talker: Talker, topics: Mapping[str, int]) -> Picture:
    """Look at topics, given with their partition counts."""
    return {
        (topic, partition): _look(talker, topic, partition)
        for topic, count in topics.items()
        for partition in range(count)
    }


def _look(talker: Talker, topic: str, partition: int) -> PartitionPicture:
    start = _offset(talker, topic, partition, EARLIEST)
    end = _offset(talker, topic, partition, LATEST)
    data, at = b"", start
    while at < end:
        records = bytes(_fetch(talker, topic, partition, at).records)
        sizes = [(position + h.size_bytes, h.next_offset) for position, h in iter_batches(records)]
        assert sizes, f"nothing at {topic}-{partition} offset {at}"
        data, at = data + records[: sizes[-1][0]], sizes[-1][1]
    stable = _fetch(talker, topic, partition, start, isolation_level=READ_COMMITTED)
    aborted = [(a.producer_id, a.first_offset) for a in stable.aborted_transactions or ()]
    return PartitionPicture(start, end, stable.last_stable_offset, sorted(aborted), data)


def wait_until_led(talker: Talker, topics: Mapping[str, int]) -> None:
    """A broker answers before it knows the leaders, and leads before it knows all topics."""
    for topic, count in topics.items():
        for partition in range(count):
            until(partial(_is_served, talker, topic, partition), timeout_s=30)


def _is_served(talker: Talker, topic: str, partition: int) -> bool:
    found = _list(talker, topic, partition, LATEST)
    if found.error_code != 0:
        return False
    fetched = _fetched(talker, topic, partition, found.offset)
    return bool(fetched.error_code == 0)


def _offset(talker: Talker, topic: str, partition: int, timestamp: int) -> int:
    found = _list(talker, topic, partition, timestamp)
    assert found.error_code == 0, (topic, partition, found.error_code)
    offset: int = found.offset
    return offset


def _list(talker: Talker, topic: str, partition: int, timestamp: int) -> Any:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
    )
    return talker.ask(request, 5).topics[0].partitions[0]


def _fetch(
    talker: Talker, topic: str, partition: int, offset: int, *, isolation_level: int = 0
) -> Any:
    data = _fetched(talker, topic, partition, offset, isolation_level=isolation_level)
    assert data.error_code == 0, (topic, partition, offset, data.error_code)
    return data


def _fetched(
    talker: Talker, topic: str, partition: int, offset: int, *, isolation_level: int = 0
) -> Any:
    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return talker.ask(request, 11).responses[0].partitions[0]


def numbers_from(talker: Talker, topic: str, offset: int) -> list[int]:
    """The values in partition 0 from an offset on."""
    seen = _look(talker, topic, 0)
    found = []
    for position, header in iter_batches(seen.batches):
        batch = seen.batches[position : position + header.size_bytes]
        for read in iter_records(batch, header, size_bytes_max=FETCH_BYTES_MAX):
            if read.offset >= offset:
                found.append(int(bytes(read.value or b"")))
    return found


def offsets_of(talker: Talker, group_id: str) -> dict[tuple[str, int], tuple[int, str | None]]:
    """What a group has committed: offset and metadata by partition; waits until it is loaded."""
    request = OffsetFetchRequest(group_id=group_id, topics=None)
    until(lambda: talker.ask(request, 5).error_code == 0)
    return {
        (topic.name, p.partition_index): (p.committed_offset, p.metadata)
        for topic in talker.ask(request, 5).topics
        for p in topic.partitions
    }


class Sequence:
    """An idempotent producer that writes single records by hand, to one broker after the other."""

    def __init__(self, talker: Talker, topic: str) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        until(lambda: talker.ask(request, 1).error_code == 0)  # at first Kafka has none
        answer = talker.ask(request, 1)
        self.producer_id: int = answer.producer_id
        self._epoch: int = answer.producer_epoch
        self._topic = topic
        # Of a producer whose last record is older than a day, brokers forget all when they start.
        self._timestamp = time.time_ns() // 1_000_000
        self._next = 0
        self._last_offset = -1

    def send(self, talker: Talker) -> None:
        """The next sequence, which must be taken."""
        error_code, offset = talker.produce(self._topic, self._batch(self._next))
        assert error_code == 0, f"sequence {self._next} is refused: {error_code}"
        assert offset > self._last_offset
        self._next, self._last_offset = self._next + 1, offset

    def check(self, talker: Talker) -> None:
        """The last one again is known, a gap is refused, the next one is taken."""
        again = talker.produce(self._topic, self._batch(self._next - 1))
        assert again == (0, self._last_offset), f"not known as a duplicate: {again}"
        error_code, _ = talker.produce(self._topic, self._batch(self._next + 3))
        assert error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        self.send(talker)

    def _batch(self, sequence: int) -> RawBatch:
        return RawBatch(
            payload=record(0, b"%d" % sequence),
            producer_id=self.producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            timestamp=self._timestamp,
        )
