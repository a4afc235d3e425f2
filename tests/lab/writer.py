"""One idempotent producer of librdkafka in this process, and whether all that it wrote is there.

For tests in which writing is not what matters most; `verify/` has clients of all kinds, groups and
a history that is checked.
"""

import itertools
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.watermarks import watermarks
from tests.wire.clients import librdkafka

from .background import Background
from .cluster import DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS

BATCH_BYTES: Final = 16_384
"""What gathers while nobody leads must still fit into the small segments of tests."""


class Writer(Background):
    """Knows what was acknowledged, by partition, and what has failed."""

    def __init__(self, servers: str, topic: str, partitions: int, pause_s: float = 0.01) -> None:
        super().__init__("writer")
        self.acknowledged: list[list[bytes]] = [[] for _ in range(partitions)]
        self.failed: list[str] = []
        self._topic = topic
        self._pause_s = pause_s
        self._name = uuid.uuid4().hex[:8]
        settings: dict[str, str | float | bool] = {
            "acks": "all",
            "enable.idempotence": True,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            "batch.size": BATCH_BYTES,
            "log_level": 0,
        }
        self._producer = Producer(librdkafka(servers, **settings))

    def _run(self) -> None:
        for number in itertools.count():
            partition = number % len(self.acknowledged)
            value = f"{self._name} {number}".encode()
            while not self._is_taken(partition, value):
                self._producer.poll(0.1)
            self._producer.poll(0)
            if self._stop.wait(self._pause_s):
                break
        if left := self._producer.flush(60):
            self.failed.append(f"{left} records are still on their way")

    def _is_taken(self, partition: int, value: bytes) -> bool:
        """Whether it is on its way; not if too many are already, while nobody leads."""
        try:
            self._producer.produce(
                self._topic, value, partition=partition, on_delivery=self._delivered
            )
        except BufferError:
            return False
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        self.acknowledged[partition].append(value)


def read_all(servers: str, topic: str, partitions: int) -> list[list[bytes]]:
    """Every record of every partition, in order."""
    settings: dict[str, str | float | bool] = {"group.id": "reader", "log_level": 0}
    consumer = Consumer(librdkafka(servers, **settings))
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    try:
        wanted = [TopicPartition(topic, p, 0) for p in range(partitions)]
        ends = [watermarks(consumer, p)[1] for p in wanted]
        consumer.assign(wanted)
        while missing := sum(ends) - sum(map(len, found)):
            messages = consumer.consume(min(missing, 500), timeout=60)
            assert messages, "nothing more is delivered"
            for message in messages:
                assert message.error() is None, message.error()
                found[message.partition() or 0].append(message.value() or b"")
    finally:
        consumer.close()
    return found


def misread(acknowledged: Sequence[bytes], found: Sequence[bytes]) -> list[str]:
    """What is lost, there twice, or out of order."""
    counts = Counter(found)
    wrong = [f"{value!r} is there {counts[value]} times" for value in acknowledged]
    wrong = [text for text, value in zip(wrong, acknowledged, strict=True) if counts[value] != 1]
    wanted = set(acknowledged)
    order = [value for value in found if value in wanted]
    return wrong or ([] if order == list(acknowledged) else ["out of order"])
