"""`kill -9` while segments roll, are deleted, compacted, flushed and written down, all at once.

Three topics get the same numbers from an idempotent producer: one keeps all, one only its newest
bytes, one the newest number of each key.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer, create_topic
from tests.support.killing import Workload, kill_again_and_again
from tests.support.waiting import until
from tests.wire.clients import ClientFailed, Settings, librdkafka
from tests.wire.servers import Server
from tests.wire.test_compaction import checkpointed

KEYS: Final = 400
PER_TURN: Final = 15
UNANSWERED_MAX: Final = 5000
ENDING_TIMEOUT_S: Final = 90.0
KEPT, TRIMMED, COMPACTED = "kept", "trimmed", "compacted"
BUSY: Final = {
    "log.segment.bytes": "20000",
    "log.retention.check.interval.ms": "50",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "odradek.flush.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}
CONFIGS: Final = {
    KEPT: {"retention.ms": "-1"},
    TRIMMED: {"retention.bytes": "60000"},
    COMPACTED: {"cleanup.policy": "compact"},
}


class Numbers:
    """A producer of 0, 1, 2, … to all three topics, in a thread."""

    def __init__(self, servers: str) -> None:
        config: Settings = {
            "reconnect.backoff.max.ms": 100,
            "linger.ms": 2,
            "batch.size": 8000,  # below log.segment.bytes
            "acks": "all",
            "enable.idempotence": True,
        }
        self.acked: dict[str, list[int]] = {topic: [] for topic in CONFIGS}
        self.failed: list[str] = []
        self.sent = 0
        self._producer = Producer(librdkafka(servers, **config))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked[message.topic() or ""].append(int(message.value() or b""))
        else:
            self.failed.append(f"{message.topic()} {message.value()!r} {error}")

    def _send(self) -> None:
        while not self._stopping.wait(0.002):
            self._producer.poll(0)
            if len(self._producer) > UNANSWERED_MAX:
                continue
            for number in range(self.sent, self.sent + PER_TURN):
                for topic in CONFIGS:
                    self._producer.produce(
                        topic,
                        str(number),
                        str(number % KEYS),
                        partition=0,
                        on_delivery=self._delivered,
                    )
            self.sent += PER_TURN

    def finish(self) -> None:
        """Stop, after all that was sent is answered."""
        self._stopping.set()
        self._thread.join(ENDING_TIMEOUT_S)
        left = self._producer.flush(ENDING_TIMEOUT_S)
        assert left == 0, f"{left} records were never answered"

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(5)
        self._producer.purge()


def records(servers: str, topic: str) -> list[tuple[int, int]]:
    """Offset and number of every record, from the log's start."""
    settings: Settings = {
        "group.id": "counters",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(librdkafka(servers, **settings))
    found = []
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, low)])
        deadline = time.monotonic() + ENDING_TIMEOUT_S
        while time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append((message.offset() or 0, int(message.value() or b"")))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise ClientFailed(str(error))
        raise ClientFailed(f"reading {topic} stopped after {len(found)} records")
    finally:
        consumer.close()


def until_acked(server: Server, numbers: Numbers, more: int) -> None:
    wanted = {topic: len(acked) + more for topic, acked in numbers.acked.items()}

    def is_acked() -> bool:
        assert server.alive, server.output
        return all(len(numbers.acked[topic]) >= count for topic, count in wanted.items())

    until(is_acked, lambda: f"{more} answers; {numbers.failed[:3]}\n{server.output}")


def first_offset(server: Server, topic: str) -> int:
    consumer = Consumer(librdkafka(server.bootstrap_servers, **{"group.id": "counters"}))
    try:
        low: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[0]
        return low
    finally:
        consumer.close()


def until_cleaned(server: Server) -> None:
    """Retention and compaction may not have come to anything between the kills."""
    until(lambda: first_offset(server, TRIMMED) > 0)
    until(lambda: checkpointed(server, f"{COMPACTED}-0") > KEYS)


def check_kept(found: list[tuple[int, int]], sent: int) -> None:
    assert found == [(number, number) for number in range(sent)]


def check_trimmed(found: list[tuple[int, int]], sent: int) -> None:
    first = found[0][0]
    assert found == [(number, number) for number in range(first, sent)]
    assert first > 0, "retention has never deleted anything"


def check_compacted(found: list[tuple[int, int]], sent: int) -> None:
    assert all(offset == number for offset, number in found), "a record has moved"
    assert len(found) < sent, "nothing was ever compacted"
    assert [n for _, n in found] == sorted({n for _, n in found})
    newest = {number % KEYS: number for _, number in found}
    assert newest == {number % KEYS: number for number in range(sent)}


CHECKS: Final[dict[str, Callable[[list[tuple[int, int]], int], None]]] = {
    KEPT: check_kept,
    TRIMMED: check_trimmed,
    COMPACTED: check_compacted,
}


class Storing(Workload):
    """The producer of all three topics; what is read in the end is what their settings promise."""

    def __init__(self, server: Server) -> None:
        for topic, config in CONFIGS.items():
            create_topic(server.bootstrap_servers, topic, config=config)
        self._server = server
        self._numbers = Numbers(server.bootstrap_servers)

    def approach(self, chance: random.Random) -> float:
        until_acked(self._server, self._numbers, more=chance.choice((1, 200, 800)))
        return 0.3

    def finish(self) -> None:
        server, numbers = self._server, self._numbers
        until_acked(server, numbers, more=1000)
        numbers.finish()
        assert not numbers.failed
        until_cleaned(server)
        for topic, check in CHECKS.items():
            assert sorted(numbers.acked[topic]) == list(range(numbers.sent))
            check(records(server.bootstrap_servers, topic), numbers.sent)

    def close(self) -> None:
        self._numbers.close()


@repeated(in_test=12, in_soak=40, soak_rounds=5)
def test_kills_while_all_goes_on(
    odradek_only: None, start_server: StartServer, repeats: Repeats
) -> None:
    server = start_server(BUSY)
    kill_again_and_again(server, Storing(server), repeats)
