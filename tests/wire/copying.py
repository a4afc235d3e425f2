"""A topic that is copied in transactions while brokers or copiers are ended and started again.

In the end the copy has each record once and in order, a reader of committed records that was there
all the time has seen the same, and the group's offsets are at the end.
"""

import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Self

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.kafka.java import command_line
from tests.lab.background import Background
from tests.support.brokers import create_topic
from tests.support.killing import Workload
from tests.support.waiting import until
from tests.wire.clients import Settings, librdkafka
from tests.wire.servers import Server

SOURCE: Final = "source"
TARGET: Final = "target"
GROUP: Final = "copiers"
# Sessions are short, so that others soon take over what a killed copier has left.
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
END_TIMEOUT_S: Final = 30.0


class Copier:
    """One process."""

    def __init__(self, kind: str, servers: str, transactional_id: str, output: Path) -> None:
        arguments = [servers, GROUP, SOURCE, TARGET, transactional_id]
        python = [sys.executable, "-m", "tests.wire.copier", *arguments]
        java, _, version = kind.partition("-")
        self._command = command_line(version, "Copier", *arguments) if java == "java" else python
        self.output = output
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.output.open("ab") as sink:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(END_TIMEOUT_S)
        assert code in (0, 128 + signal.SIGTERM), self.output.read_text()  # the second: a JVM's


class Copiers:
    """The processes of one group; as a victim it is the next one each time."""

    def __init__(self, kind: str, servers: str, count: int, directory: Path) -> None:
        self.all = [
            Copier(kind, servers, f"copier-{n}", directory / f"copier-{n}.out")
            for n in range(count)
        ]
        self._ended = -1

    @property
    def alive(self) -> bool:
        return all(copier.alive for copier in self.all)

    @property
    def output(self) -> str:
        return "".join(copier.output.read_text() for copier in self.all)

    def kill(self) -> None:
        self._next().kill()

    def stop(self) -> None:
        self._next().stop()

    def start(self) -> None:
        """Start again what was ended last."""
        self.all[self._ended].start()

    def _next(self) -> Copier:
        self._ended = (self._ended + 1) % len(self.all)
        return self.all[self._ended]


class Reader(Background):
    """Reads committed records of all partitions from the beginning, as they come."""

    def __init__(self, servers: str, partitions: int) -> None:
        super().__init__("reader")
        self.found: list[list[int]] = [[] for _ in range(partitions)]
        settings: dict[str, str | int] = {
            "group.id": "reader",
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 100,
        }
        self._consumer = Consumer(librdkafka(servers, **settings))
        self._consumer.assign([TopicPartition(TARGET, p, 0) for p in range(partitions)])

    @property
    def count(self) -> int:
        return sum(map(len, self.found))

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(1_000, timeout=0.05):
                if message.error() is None:
                    self.found[message.partition() or 0].append(int(message.value() or b""))
        self._consumer.close()


class Copying(Workload):
    """`records` numbers are copied; kills are spread over the time that this takes."""

    def __init__(
        self, server: Server, copiers: Copiers, *, records: int, partitions: int, kills: int
    ) -> None:
        self._server = server
        self._copiers = copiers
        self._between = records // (kills + 1)
        self._kills = 0
        for topic in (SOURCE, TARGET):
            create_topic(server.bootstrap_servers, topic, partitions=partitions)
        self._source = [range(p, records, partitions) for p in range(partitions)]
        write(server.bootstrap_servers, SOURCE, self._source)
        self._records = records
        self._reader = Reader(server.bootstrap_servers, partitions)

    def __enter__(self) -> Self:
        self._reader.__enter__()
        for copier in self._copiers.all:
            copier.start()
        return self

    def approach(self, chance: random.Random) -> float:
        self._kills += 1
        self._wait_for(self._between * self._kills)
        return 0.1

    def killed(self) -> None:
        assert self._reader.count < self._records, "the copy was ready before the kill"

    def finish(self) -> None:
        self._wait_for(self._records)
        for copier in self._copiers.all:
            copier.stop()
        servers = self._server.bootstrap_servers
        wanted = [[*part] for part in self._source]
        for found in (self._reader.found, committed_in(servers, len(wanted))):
            assert [misread(*pair) for pair in zip(wanted, found, strict=True)] == [""] * len(found)
        assert offsets_of(servers, GROUP) == {p: len(part) for p, part in enumerate(wanted)}

    def _wait_for(self, count: int) -> None:
        def is_there() -> bool:
            assert self._copiers.alive, self._copiers.output
            return self._reader.count >= count

        until(is_there, lambda: f"{count}, not {self._reader.count}\n{self._copiers.output}")

    def close(self) -> None:
        for copier in self._copiers.all:
            copier.kill()
        self._reader.__exit__(None, None, None)


def write(servers: str, topic: str, numbers: Sequence[Iterable[int]]) -> None:
    """Write the numbers of each partition."""
    producer = Producer(librdkafka(servers, **{"enable.idempotence": True, "linger.ms": 5}))
    for partition, part in enumerate(numbers):
        for number in part:
            producer.produce(topic, str(number), partition=partition)
            if number % 1_000 == 0:
                producer.poll(0)
    assert producer.flush(60) == 0


def committed_in(servers: str, partitions: int) -> list[list[int]]:
    """All committed numbers of the copy, up to its end, by another reader."""
    settings: Settings = {
        "group.id": "checker",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(librdkafka(servers, **settings))
    found: list[list[int]] = [[] for _ in range(partitions)]
    ended: set[int | None] = set()

    def is_read() -> bool:
        for message in consumer.consume(1_000, timeout=0.1):
            error = message.error()
            if error is None:
                found[message.partition() or 0].append(int(message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return len(ended) == partitions

    try:
        consumer.assign([TopicPartition(TARGET, p, 0) for p in range(partitions)])
        until(is_read)
    finally:
        consumer.close()
    return found


def misread(wanted: Sequence[int], found: Sequence[int]) -> str:
    """What is wrong with a partition: lost, there twice, or out of order."""
    counts = Counter(found)
    lost = [number for number in wanted if number not in counts]
    doubled = [number for number, count in counts.items() if count > 1]
    if lost or doubled:
        return f"lost {lost[:10]}, there twice {doubled[:10]}"
    return "" if list(found) == list(wanted) else "out of order, or none of the source's"


def offsets_of(servers: str, group_id: str) -> dict[int, int]:
    """The group's committed offsets in the source."""
    asked = ConsumerGroupTopicPartitions(group_id)
    admin = AdminClient(librdkafka(servers))  # it answers only as long as it lives
    answer = admin.list_consumer_group_offsets([asked])[group_id]
    return {p.partition: p.offset for p in answer.result(30).topic_partitions}
