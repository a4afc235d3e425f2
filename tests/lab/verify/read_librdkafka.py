"""Reads a whole topic with librdkafka.  `python -m tests.lab.verify.read_librdkafka SPEC`."""

import time
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from tests.support.watermarks import watermarks

from .events import Closed, Span, runs
from .noting import Notes, now_s, spec

TIMEOUT_S: Final = 30.0
AT_ONCE: Final = 2000


def read(told: dict[str, Any]) -> None:
    """Every partition from its first record to where it ends now."""
    notes, name = Notes(told["history"]), told["reader"]
    settings = {"bootstrap.servers": told["servers"], "log_level": 0, **told["settings"]}
    consumer = Consumer(settings)
    for partition in range(told["partitions"]):
        where = TopicPartition(told["topic"], partition)
        first, end = watermarks(consumer, where)
        consumer.assign([TopicPartition(told["topic"], partition, first)])
        position = first
        deadline_s = time.monotonic() + TIMEOUT_S
        while position < end:
            assert time.monotonic() < deadline_s, f"{partition}: at {position} of {end}"
            messages = consumer.consume(min(AT_ONCE, end - position), timeout=0.2)
            records = []
            for message in messages:
                assert message.error() is None, message.error()
                offset = message.offset()
                assert offset is not None
                records.append((offset, message.value() or b""))
                position = offset + 1
            for event in runs(name, partition, records, now_s()):
                notes.note(event)
            if records:
                deadline_s = time.monotonic() + TIMEOUT_S
        notes.note(Span(name, partition, first, end, now_s()))
    notes.note(Closed(name, now_s()))
    notes.flush()
    consumer.close()


if __name__ == "__main__":
    read(spec())
