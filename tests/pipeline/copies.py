"""Records of all kinds in topics, and whether a topic is a whole copy of another."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from odradek.pipeline.kafka import Kafka
from odradek.pipeline.marks import HEADER, mark_of
from tests.pipeline.harness import WAIT_TIMEOUT_S
from tests.support.waiting import until

Payload = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


def payloads(count: int, seed: int) -> Iterator[Payload]:
    """Records of all kinds: keys or not, tombstones, headers that come twice, old timestamps.

    They are of three days: an archive has a file a day in each batch, and each takes its time.
    """
    rng = random.Random(seed)
    for number in range(count):
        key = None if rng.random() < 0.2 else b"k%d" % rng.randrange(50)
        value = None if key and rng.random() < 0.1 else b"v%d-" % number + b"x" * rng.randrange(80)
        names = rng.sample(["a", "b", "ä"], rng.randrange(3))
        headers = tuple((name, b"%d" % number) for name in names + names[:1])
        yield key, value, headers, 1_600_000_000_000 + rng.randrange(2 * 86_400_000)


def fill(servers: str, topic: str, partitions: int, count: int, seed: int = 7) -> None:
    """Write records to partitions that do not follow from keys."""
    rng = random.Random(seed)
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=20, batch_size=1 << 16)
    for key, value, headers, timestamp_ms in payloads(count, seed):
        partition = rng.randrange(partitions)
        producer.send(topic, value, key, list(headers), partition, timestamp_ms)
    producer.flush()
    producer.close()


class Stored:
    """What a topic holds: the payloads of each partition in order."""

    def __init__(self, servers: str, topic: str) -> None:
        consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
        partitions = consumer.partitions_for_topic(topic) or set()
        assigned = [TopicPartition(topic, p) for p in sorted(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        ends = consumer.end_offsets(assigned)
        self.records: dict[int, list[Any]] = {tp.partition: [] for tp in assigned}
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for tp, records in consumer.poll(timeout_ms=200).items():
                self.records[tp.partition] += records
        consumer.close()

    @property
    def count(self) -> int:
        """Of all partitions."""
        return sum(map(len, self.records.values()))

    def payloads(self) -> dict[int, list[Payload]]:
        """By partition, as they are."""
        return {p: [payload(record) for record in found] for p, found in self.records.items()}

    def by_source(self) -> dict[tuple[str, int], list[tuple[int, int, Payload]]]:
        """By source partition: target partition, source offset, payload without the mark."""
        result: dict[tuple[str, int], list[tuple[int, int, Payload]]] = {}
        for partition, records in self.records.items():
            for record in records:
                mark = mark_of(record.headers)
                assert mark is not None
                assert record.headers[-1][0] == HEADER
                key, value, headers, timestamp_ms = payload(record)
                rest = (key, value, headers[:-1], timestamp_ms)
                source = result.setdefault((mark.topic, mark.partition), [])
                source.append((partition, mark.offset, rest))
        return result


def payload(record: Any) -> Payload:
    """What a copy must keep of a record."""
    return record.key, record.value, tuple(map(tuple, record.headers)), record.timestamp


def check_copy(
    servers: str, topic: str, copy: str, *, only: Mapping[int, Sequence[int]] = {}
) -> int:
    """Assert that a topic's copy has each record once, unchanged, in order; how many."""
    return _check(Stored(servers, topic), Stored(servers, copy), topic, only)


def check_copies(servers: str, topic: str, other_servers: str) -> int:
    """The same of a copy of the same name in another cluster."""
    return _check(Stored(servers, topic), Stored(other_servers, topic), topic, {})


def _check(source: Stored, copy: Stored, topic: str, only: Mapping[int, Sequence[int]]) -> int:
    target = copy.by_source()
    count = 0
    for partition, records in source.records.items():
        wanted = {r.offset: payload(r) for r in records}
        if only:
            wanted = {o: wanted[o] for o in only.get(partition, ())}
        copied = target.pop((topic, partition), [])
        assert len(copied) == len({offset for _, offset, _ in copied}), "doubled"
        assert {offset: rest for _, offset, rest in copied} == wanted
        last: dict[int, int] = {}
        for place, offset, _ in copied:
            assert offset > last.get(place, -1), "out of order"
            last[place] = offset
        count += len(copied)
    assert not target
    return count


def wait_for_records(servers: str, topic: str, count: int) -> None:
    """Return when a topic has so many."""
    kafka = Kafka(servers)
    try:
        until(
            lambda: kafka.exists(topic) and sum(kafka.latest(topic).values()) >= count,
            timeout_s=WAIT_TIMEOUT_S,
        )
    finally:
        kafka.close()
