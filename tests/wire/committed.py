"""Readers of committed records, with librdkafka: one that is there all the time, one at the end."""

from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.lab.background import Background
from tests.support.waiting import until
from tests.wire.clients import Settings, librdkafka

SETTINGS: Final[Settings] = {
    "isolation.level": "read_committed",
    "reconnect.backoff.max.ms": 100,
    "enable.partition.eof": True,
}
Record = tuple[bytes, bytes]
"""Key and value; null is empty."""


class CommittedReader(Background):
    """Reads all partitions of a topic from the beginning, as records come."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        super().__init__("committed reader")
        self.found: list[list[Record]] = [[] for _ in range(partitions)]
        self.ended: set[int | None] = set()
        """The partitions whose end was reached at least once."""
        self._consumer = Consumer(librdkafka(servers, **{"group.id": "committed"}, **SETTINGS))
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])

    @property
    def count(self) -> int:
        return sum(map(len, self.found))

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(1_000, timeout=0.05):
                error = message.error()
                if error is None:
                    record = message.key() or b"", message.value() or b""
                    self.found[message.partition() or 0].append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    self.ended.add(message.partition())
        self._consumer.close()


def read_committed(servers: str, topic: str, partitions: int) -> list[list[Record]]:
    """All committed records of each partition, in order."""
    with CommittedReader(servers, topic, partitions) as reader:
        until(lambda: len(reader.ended) == partitions)
    return reader.found
