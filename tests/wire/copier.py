"""Copies a topic in transactions, with librdkafka, in a process that a test can end.

`python -m tests.wire.copier SERVERS GROUP FROM TO TRANSACTIONAL_ID`: reads as a member of the group
and writes each value to the same partition of TO, with the offsets in the transaction. What could
not be committed is aborted and read again. After SIGTERM it ends as its clients do. `Copier.java`
does the same. Prints "committed COUNT" for each transaction, "aborted REASON", "reopened REASON" if
there had to be another producer, and "ended".
"""

import signal
import sys
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.wire.clients import Settings, librdkafka

RECORDS_MAX: Final = 100
"""In one transaction."""
TIMEOUT_S: Final = 30.0
CONSUMER: Final[Settings] = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 1_500,
    "heartbeat.interval.ms": 100,
    "reconnect.backoff.max.ms": 100,
}
PRODUCER: Final[Settings] = {
    # After a rebootstrap librdkafka 2.16 waits for the group's coordinator at a broker that it has
    # dropped, and commits no offset in a transaction any more.
    "metadata.recovery.strategy": "none",
    "linger.ms": 0,
    "reconnect.backoff.max.ms": 100,
}


def copy(consumer: Consumer, producer: Producer, messages: list[Message], target: str) -> None:
    """Copy in one transaction.  Raises: KafkaException."""
    producer.begin_transaction()
    offsets: dict[tuple[str, int], int] = {}
    for message in messages:
        producer.produce(target, message.value(), partition=message.partition())
        offsets[message.topic(), message.partition()] = message.offset() + 1
    producer.send_offsets_to_transaction(
        [TopicPartition(*where, offset) for where, offset in offsets.items()],
        consumer.consumer_group_metadata(),
        TIMEOUT_S,
    )
    producer.commit_transaction(TIMEOUT_S)


def rewind(consumer: Consumer) -> None:
    """Go back to what the group has committed."""
    for partition in consumer.committed(consumer.assignment(), TIMEOUT_S):
        if partition.offset < 0:
            partition.offset = OFFSET_BEGINNING
        consumer.seek(partition)


def opened(servers: str, transactional_id: str) -> Producer:
    """A new producer.  Raises: KafkaException."""
    producer = Producer(librdkafka(servers, **{"transactional.id": transactional_id}, **PRODUCER))
    producer.init_transactions(TIMEOUT_S)
    return producer


def main() -> None:
    """Copy until SIGTERM."""
    servers, group_id, source, target, transactional_id = sys.argv[1:]
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    consumer = Consumer(librdkafka(servers, **{"group.id": group_id}, **CONSUMER))
    producer = opened(servers, transactional_id)
    consumer.subscribe([source])
    while not ended:
        messages = [m for m in consumer.consume(RECORDS_MAX, 0.1) if m.error() is None]
        if not messages:
            continue
        try:
            copy(consumer, producer, messages, target)
            print("committed", len(messages), flush=True)
        except KafkaException as failed:
            print("aborted", failed, flush=True)
            try:
                producer.abort_transaction(TIMEOUT_S)
            except KafkaException as fatal:  # the next producer aborts what this one has begun
                print("reopened", fatal, flush=True)
                producer.purge()
                producer = opened(servers, transactional_id)
            rewind(consumer)
    consumer.close()
    print("ended", flush=True)


if __name__ == "__main__":
    main()
