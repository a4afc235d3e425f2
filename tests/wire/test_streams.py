"""Kafka Streams 3.9.2 with `exactly_once_v2`: a stateful count that is killed and started again."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.kafka.jars import STREAMS
from tests.kafka.java import command_line
from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer, create_topic
from tests.support.killing import InTurn, Workload, kill_again_and_again
from tests.support.waiting import until
from tests.wire.client_process import ClientProcess
from tests.wire.clients import librdkafka
from tests.wire.committed import CommittedReader, Record, read_committed
from tests.wire.copying import SETTINGS
from tests.wire.servers import Server

WORDS_IN: Final = "words"
COUNTS_OUT: Final = "counts"
PARTITIONS: Final = 2
RECORDS: Final = 50_000
WORDS: Final = 100


def program(server: Server, directory: Path) -> ClientProcess:
    arguments = [server.bootstrap_servers, WORDS_IN, COUNTS_OUT, str(directory / "state")]
    return ClientProcess(command_line(STREAMS, "Counts", *arguments), directory / "counts.out")


class Counting(Workload):
    """Each word is counted from 1 up to how often it was written, without a gap or a repetition."""

    def __init__(self, server: Server, counts: ClientProcess, repeats: Repeats) -> None:
        self._server = server
        self._counts = counts
        self._between = RECORDS // (repeats.count + 1)
        self._kills = 0
        for topic in (WORDS_IN, COUNTS_OUT):
            create_topic(server.bootstrap_servers, topic, partitions=PARTITIONS)
        self._written = self._write(random.Random(repeats.seed))
        self._reader = CommittedReader(server.bootstrap_servers, COUNTS_OUT, PARTITIONS)
        self._reader.__enter__()
        self._counts.start()

    def _write(self, chance: random.Random) -> dict[bytes, int]:
        settings: dict[str, str | float | bool] = {"enable.idempotence": True}
        producer = Producer(librdkafka(self._server.bootstrap_servers, **settings))
        times: dict[bytes, int] = defaultdict(int)
        for number in range(RECORDS):
            word = b"word-%d" % chance.randrange(WORDS)
            producer.produce(WORDS_IN, word, partition=number % PARTITIONS)
            times[word] += 1
            producer.poll(0)
        assert producer.flush(60) == 0
        return times

    def approach(self, chance: random.Random) -> float:
        self._kills += 1
        self._wait_for(self._between * self._kills)
        return 0.2

    def _wait_for(self, count: int) -> None:
        def is_there() -> bool:
            assert self._counts.alive, self._counts.output
            return self._reader.count >= count

        until(is_there, lambda: f"{count}, not {self._reader.count}\n{self._counts.output}", 180)

    def killed(self) -> None:
        assert self._reader.count < RECORDS, "all was counted before the kill"

    def finish(self) -> None:
        self._wait_for(RECORDS)
        self._counts.stop()
        again = read_committed(self._server.bootstrap_servers, COUNTS_OUT, PARTITIONS)
        assert again == self._reader.found
        counted = by_word(again)
        assert counted.keys() == self._written.keys()
        for word, times in self._written.items():
            assert counted[word] == [*range(1, times + 1)], word

    def close(self) -> None:
        self._counts.kill()
        self._reader.__exit__(None, None, None)


def by_word(found: list[list[Record]]) -> dict[bytes, list[int]]:
    """What was counted of each word, in order; a word is in one partition only."""
    counted: dict[bytes, list[int]] = defaultdict(list)
    for part in found:
        for word, count in part:
            counted[word].append(int(count))
    return counted


@pytest.mark.java
@repeated(in_soak=10, each_s=60)
def test_each_word_is_counted_once(
    start_server: StartServer, tmp_path: Path, repeats: Repeats
) -> None:
    server = start_server(SETTINGS)
    counts = program(server, tmp_path)
    kill_again_and_again(InTurn([counts, server]), Counting(server, counts, repeats), repeats)
