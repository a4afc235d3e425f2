"""A topic that is copied in transactions while brokers or copiers are ended and started again.

In the end the copy has each record once and in order, a reader of committed records that was there
all the time has seen the same, and the group's offsets are at the end.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Self

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from tests.kafka.java import command_line
from tests.support.brokers import create_topic
from tests.support.killing import Workload
from tests.support.waiting import until
from tests.wire.client_process import ClientProcess
from tests.wire.clients import librdkafka
from tests.wire.committed import CommittedReader, read_committed
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


class Copiers:
    """The processes of one group; as a victim it is the next one each time."""

    def __init__(self, kind: str, servers: str, count: int, directory: Path) -> None:
        self.all = [
            ClientProcess(command(kind, servers, f"copier-{n}"), directory / f"copier-{n}.out")
            for n in range(count)
        ]
        self._ended = -1

    @property
    def alive(self) -> bool:
        return all(copier.alive for copier in self.all)

    @property
    def output(self) -> str:
        return "".join(copier.output for copier in self.all)

    def kill(self) -> None:
        self._next().kill()

    def stop(self) -> None:
        self._next().stop()

    def start(self) -> None:
        """Start again what was ended last."""
        self.all[self._ended].start()

    def _next(self) -> ClientProcess:
        self._ended = (self._ended + 1) % len(self.all)
        return self.all[self._ended]


class Copying(Workload):
    """About `records` numbers are copied; before each kill, and after the last, some are written.

    At least half of the kills come before the reader has seen all that were written.
    """

    def __init__(
        self, server: Server, copiers: Copiers, *, records: int, partitions: int, kills: int
    ) -> None:
        self._server = server
        self._copiers = copiers
        self._part = records // (kills + 1)
        self._kills = kills
        self._kills_meanwhile = 0
        for topic in (SOURCE, TARGET):
            create_topic(server.bootstrap_servers, topic, partitions=partitions)
        self._source: list[list[int]] = [[] for _ in range(partitions)]
        self._reader = CommittedReader(server.bootstrap_servers, TARGET, partitions)

    def __enter__(self) -> Self:
        self._reader.__enter__()
        for copier in self._copiers.all:
            copier.start()
        return self

    def approach(self, chance: random.Random) -> float:
        self._wait_for_all()
        self._write_part()
        return 0.1

    def killed(self) -> None:
        self._kills_meanwhile += self._reader.count < self._written

    @property
    def has_seen_enough(self) -> bool:
        return self._kills_meanwhile >= self._kills / 2

    def finish(self) -> None:
        self._write_part()
        self._wait_for_all()
        for copier in self._copiers.all:
            copier.stop()
        assert "fenced" not in self._copiers.output.lower(), self._copiers.output
        servers = self._server.bootstrap_servers
        wanted = self._source
        for found in (self._reader.found, read_committed(servers, TARGET, len(wanted))):
            numbers = [[int(value) for _, value in part] for part in found]
            wrong = [misread(*pair) for pair in zip(wanted, numbers, strict=True)]
            assert wrong == [""] * len(wanted)
        assert offsets_of(servers, GROUP) == {p: len(part) for p, part in enumerate(wanted)}

    @property
    def _written(self) -> int:
        return sum(map(len, self._source))

    def _write_part(self) -> None:
        count, first = len(self._source), self._written
        numbers = [
            [n for n in range(first, first + self._part) if n % count == p] for p in range(count)
        ]
        write(self._server.bootstrap_servers, SOURCE, numbers)
        for partition, part in zip(self._source, numbers, strict=True):
            partition += part

    def _wait_for_all(self) -> None:
        def are_there() -> bool:
            assert self._copiers.alive, self._copiers.output
            return self._reader.count >= self._written

        def seen() -> str:
            return f"{self._reader.count} of {self._written}\n{self._copiers.output}"

        until(are_there, seen)

    def close(self) -> None:
        for copier in self._copiers.all:
            copier.kill()
        self._reader.__exit__(None, None, None)


def command(kind: str, servers: str, transactional_id: str) -> list[str]:
    """The command line of a copier."""
    arguments = [servers, GROUP, SOURCE, TARGET, transactional_id]
    if kind == "librdkafka":
        return [sys.executable, "-m", "tests.wire.copier", *arguments]
    return command_line(kind.removeprefix("java-"), "Copier", *arguments)


def write(servers: str, topic: str, numbers: Sequence[Iterable[int]]) -> None:
    """Write the numbers of each partition."""
    producer = Producer(librdkafka(servers, **{"enable.idempotence": True, "linger.ms": 5}))
    for partition, part in enumerate(numbers):
        for number in part:
            producer.produce(topic, str(number), partition=partition)
            if number % 1_000 == 0:
                producer.poll(0)
    assert producer.flush(60) == 0


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
