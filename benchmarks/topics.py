"""Topics for the measurements: created, filled with equal batches, deleted."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from . import wire
from .batches import batch_within
from .connection import Address, call, call_once, connect, receive_exactly

DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of which every partition is served."""

    name: str
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class Filling:
    """What one partition was filled with: the same batch again and again."""

    topic: Topic
    batch_size_bytes: int
    batch_records: int
    batch_count: int

    @property
    def size_bytes(self) -> int:
        """All batches together."""
        return self.batch_size_bytes * self.batch_count

    @property
    def record_count(self) -> int:
        """All records together."""
        return self.batch_records * self.batch_count


def create(
    address: Address, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> Topic:
    """Create a topic and wait until its last partition answers a Fetch."""
    request = wire.create_topic_request(name, partitions, dict(configs or {}))
    topic_id = wire.created_topic_id(call_once(address, request))
    wait_served(address, topic_id, partitions - 1)
    return Topic(name, topic_id)


def wait_served(address: Address, topic_id: bytes, partition: int) -> None:
    """Return once the partition answers a Fetch.  Raises: TimeoutError."""
    frame = wire.fetch_request(topic_id, partition, offset=0, bytes_max=1, wait_ms_max=0).data
    deadline = time.monotonic() + DEADLINE_S
    with connect(address) as connected:
        while wire.fetch_error(call(connected, frame)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"partition {partition} was not served within {DEADLINE_S} s")
            time.sleep(0.002)


def delete(address: Address, name: str) -> None:
    """Delete a topic; the broker removes the files when it likes."""
    call_once(address, wire.delete_topic_request(name))


def equal_batches(
    topic: Topic, size_bytes: int, batch_size_bytes_max: int, value_size_bytes: int = 1024
) -> Filling:
    """What `fill` will write for the same arguments."""
    batch, records = batch_within(batch_size_bytes_max, value_size_bytes)
    return Filling(topic, len(batch), records, -(-size_bytes // len(batch)))


def fill(
    address: Address,
    topic: Topic,
    *,
    size_bytes: int,
    batch_size_bytes_max: int,
    value_size_bytes: int = 1024,
    depth: int = 8,
    partition: int = 0,
    acks: int = 1,
) -> Filling:
    """Write at least `size_bytes` into a partition, `depth` requests in flight.

    Raises: RuntimeError when the broker refuses a batch.
    """
    batch, _ = batch_within(batch_size_bytes_max, value_size_bytes)
    filling = equal_batches(topic, size_bytes, batch_size_bytes_max, value_size_bytes)
    count = filling.batch_count
    frame = wire.produce_request(topic.name, partition, batch, acks=acks)
    answer = bytearray(len(wire.produce_answer(topic.name)))
    error_at = slice(wire.produce_error_position(topic.name), None)
    with connect(address) as connected:
        for number in range(count + depth):
            if number >= depth:
                receive_exactly(connected, memoryview(answer))
                if answer[error_at][:2] != b"\x00\x00":
                    code = wire.INT16.unpack(answer[error_at][:2])[0]
                    raise RuntimeError(f"Produce answered error code {code}")
            if number < count:
                connected.sendall(frame)
    return filling
