"""`python -m tests.lab.near_reader CLIENT SERVERS TOPIC PARTITIONS RACK`: read from the beginning.

Record number n of a partition has to begin with n as text and a space; else it ends with an error.
Prints how many records it has read, over all, whenever that is more than before; ends when there is
something on stdin.  As `NearReader.java`, with the clients for Python.
"""

import asyncio
import select
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, TopicPartition

POLL_S: Final = 0.1


class Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self._next: Counter[int] = Counter()
        self._told = 0

    def take(self, partition: int, offset: int | None, value: bytes | None) -> None:
        """One record.  Raises: AssertionError, if it is not the next one."""
        wanted = self._next[partition]
        assert offset == wanted, (partition, wanted, offset)
        assert value is not None
        assert value.startswith(b"%d " % wanted), (partition, wanted, value[:16])
        self._next[partition] += 1

    def tell(self) -> None:
        """Print the count."""
        if self._next.total() > self._told:
            self._told = self._next.total()
            print(self._told, flush=True)

    @property
    def is_over(self) -> bool:
        """Whether to end."""
        return bool(select.select([sys.stdin], [], [], 0)[0])


def read_with_librdkafka(servers: str, topic: str, partitions: int, rack: str) -> None:
    """Until there is something on stdin."""
    reading = Reading()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "client.rack": rack,
            "group.id": "near",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 1 << 18,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    while not reading.is_over:
        for message in consumer.consume(1000, timeout=POLL_S):
            assert message.error() is None, message.error()
            partition = message.partition()
            assert partition is not None
            reading.take(partition, message.offset(), message.value())
        reading.tell()
    consumer.close()


def read_with_aiokafka(servers: str, topic: str, partitions: int, rack: str) -> None:
    """Until there is something on stdin."""

    async def main() -> None:
        reading = Reading()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            client_rack=rack,
            auto_offset_reset="none",
            enable_auto_commit=False,
            max_partition_fetch_bytes=1 << 18,
            request_timeout_ms=30_000,  # none is late but by the machine: who dies resets his
            metadata_max_age_ms=5000,
        )
        await consumer.start()
        consumer.assign([AioPartition(topic, partition) for partition in range(partitions)])
        for partition in range(partitions):
            consumer.seek(AioPartition(topic, partition), 0)
        while not reading.is_over:
            found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=1000)
            for where, records in found.items():
                for record in records:
                    reading.take(where.partition, record.offset, record.value)
            reading.tell()
        await consumer.stop()

    asyncio.run(main())


CLIENTS: Final[dict[str, Callable[[str, str, int, str], None]]] = {
    "librdkafka": read_with_librdkafka,
    "aiokafka": read_with_aiokafka,
}

if __name__ == "__main__":
    client, servers, topic, count, rack = sys.argv[1:]
    CLIENTS[client](servers, topic, int(count), rack)
