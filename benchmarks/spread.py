"""Topics as Spark meets them: several partitions of records with keys and of differing lengths."""

from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from .connection import Address

PARTITIONS: Final = 4
CREATE_TIMEOUT_S: Final = 30
FLUSH_TIMEOUT_S: Final = 60


@dataclass(frozen=True, slots=True)
class Spread:
    """A topic that was filled; its values have so many bytes in the middle."""

    topic: str
    record_count: int
    value_size_bytes: int


def fill(
    address: Address, topic: str, *, records: int, value_size_bytes: int, codec: str = "none"
) -> Spread:
    """Create a topic and fill it.  Raises: RuntimeError, if the broker does not take it all."""
    servers = f"{address.host}:{address.port}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(CREATE_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "compression.type": codec})
    text = bytes(range(32, 127)) * (2 + value_size_bytes // 48)
    shortest = value_size_bytes * 4 // 5
    for number in range(records):
        at = number % 89
        size = shortest + number % (2 * (value_size_bytes - shortest) + 1)
        while True:
            try:
                producer.produce(topic, text[at : at + size], key=b"key-%d" % (number % 1_000))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(FLUSH_TIMEOUT_S):
        raise RuntimeError(f"the broker did not take all records of {topic}")
    return Spread(topic, records, value_size_bytes)
