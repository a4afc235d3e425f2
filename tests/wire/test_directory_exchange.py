"""A real Kafka 3.9.2 takes over what Odradek wrote, Odradek what Kafka wrote, back and forth.

Two log directories, one ZooKeeper. A turn is: one broker works, ends (cleanly, or by kill -9 in the
middle of appends), the tree is exported or imported, the other broker starts on the same files and
must show the same: batches byte by byte, both ends of each log, last stable offsets and aborted
transactions, transactional ids in every state, committed offsets of groups, and the sequences of
idempotent producers. At the end the tree is lost altogether, and rebuilt from the directories.
"""

import random
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cli.conftest import run_odradek
from tests.kafka.apache import Kafka39
from tests.seeds import Repeats, repeated
from tests.support.brokers import create_topic
from tests.support.waiting import until
from tests.wire.clients import librdkafka, write_confluent
from tests.wire.directory_picture import (
    Picture,
    Sequence,
    Talker,
    numbers_from,
    offsets_of,
    picture_of,
    wait_until_led,
)
from tests.wire.directory_transactions import CONFIG, TOPIC, LeftTransactions
from tests.wire.load import LibrdkafkaLoad
from tests.wire.records import CODECS, samples
from tests.wire.servers import OdradekServer, Server

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

TOPICS: Final = {"mixed": 3, "sequenced": 1, "transacted": 2}
LOAD: Final = "load"
CLASSIC_GROUP, CONSUMER_GROUP = "classic-group", "consumer-group"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
ENDS: Final = (False, False), (True, True), (True, False), (False, True)
"""Whether Odradek and Kafka are killed, in each of four rounds; else they end cleanly."""
KEPT: Final = {"retention.ms": "-1", "segment.bytes": "20000"}


class Exchange:
    """The two brokers, their directory, and what the one that ran last has shown."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.odradek = OdradekServer(directory / "odradek", SETTINGS)
        self.log_dirs = f"{directory / 'one'},{directory / 'two'}"
        self.odradek.data_dir = Path(self.log_dirs)  # as --data-dir takes it
        self.kafka = Kafka39(directory / "kafka", {"log.dirs": self.log_dirs})
        self.kafka.start_zookeeper()
        self.zookeeper = f"{self.kafka.zookeeper}/moved"
        self.kafka.settings["zookeeper.connect"] = self.zookeeper
        self.sequence: Sequence | None = None
        self.picture: Picture = {}
        self.offsets: dict[str, dict[tuple[str, int], tuple[int, str | None]]] = {}
        self.acked: set[int] = set()
        self.load_start = 0
        self.producer_ids: set[int] = set()
        self.open_transactions: list[Producer] = []
        self.left: LeftTransactions | None = None
        self.turns = 0

    def close(self) -> None:
        for producer in self.open_transactions:
            producer.purge()
        self.odradek.close()
        self.kafka.close()

    # Work.

    def make_topics(self) -> None:
        servers = self.odradek.bootstrap_servers
        for topic, count in TOPICS.items():
            create_topic(servers, topic, partitions=count, config=KEPT)
        create_topic(servers, LOAD, config=KEPT)
        create_topic(servers, TOPIC, config=CONFIG)

    def work(self, server: Server) -> None:
        """A bit of everything; then look at it."""
        records = samples(seed=self.chance.randrange(1000))
        batches = [(n, self.chance.choice(CODECS), records) for n in range(TOPICS["mixed"])]
        write_confluent(server.bootstrap_servers, "mixed", batches)
        self._commit(server, CLASSIC_GROUP, "classic")
        if server is self.odradek:
            self._commit(server, CONSUMER_GROUP, "consumer")
        else:
            if self.chance.random() < 0.5:
                self._commit(server, CONSUMER_GROUP, "classic")
            self._transact(server)
        talker = Talker(server)
        if self.sequence is None:
            self.sequence = Sequence(talker, "sequenced")
        for _ in range(self.chance.randrange(1, 8)):
            self.sequence.send(talker)
        fresh = Sequence(talker, "sequenced").producer_id
        assert fresh not in self.producer_ids, "a producer id is handed out twice"
        self.producer_ids |= {fresh, self.sequence.producer_id}
        self._look(talker)
        talker.close()

    def _commit(self, server: Server, group_id: str, protocol: str) -> None:
        """Come as a member, read something, commit it, and leave."""
        settings: dict[str, str | bool] = {
            "group.id": group_id,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(librdkafka(server.bootstrap_servers, **settings))
        try:
            consumer.subscribe(["mixed"])
            until(lambda: bool(consumer.consume(100, timeout=0.2)), timeout_s=30)
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def _transact(self, server: Server) -> None:
        """End what was left open before the last turns; then one of each kind."""
        while self.open_transactions:
            self.open_transactions.pop().commit_transaction(30)
        for end in ("commit", "abort", "open"):
            settings = {"transactional.id": end, "transaction.timeout.ms": 900_000}
            producer = Producer(librdkafka(server.bootstrap_servers, **settings))
            producer.init_transactions(30)
            producer.begin_transaction()
            for n in range(20):
                producer.produce("transacted", f"{end} {n}", partition=n % TOPICS["transacted"])
            assert producer.flush(30) == 0
            if end == "commit":
                producer.commit_transaction(30)
            elif end == "abort":
                producer.abort_transaction(30)
            else:
                self.open_transactions.append(producer)

    def delete_records(self, server: Server) -> None:
        admin = AdminClient(librdkafka(server.bootstrap_servers))
        end = self.picture["mixed", 1].log_end_offset
        start = self.picture["mixed", 1].log_start_offset
        wanted = TopicPartition("mixed", 1, self.chance.randrange(start, end))
        admin.delete_records([wanted])[wanted].result(30)
        talker = Talker(server)
        self._look(talker)
        talker.close()

    def _look(self, talker: Talker) -> None:
        self.picture = picture_of(talker, TOPICS)
        self.offsets = {
            group: offsets_of(talker, group) for group in (CLASSIC_GROUP, CONSUMER_GROUP)
        }

    def leave_transactions(self, server: Server) -> None:
        """Leave transactional ids in every state."""
        self.turns += 1
        self.left = LeftTransactions(server, f"turn-{self.turns}")

    # Ends, and what is left.

    def end(self, server: Server, *, kill: bool) -> None:
        """End the broker at some moment while it appends."""
        talker = Talker(server)
        self.load_start = picture_of(talker, {LOAD: 1})[LOAD, 0].log_end_offset
        talker.close()
        with LibrdkafkaLoad(server.bootstrap_servers, LOAD, {"acks": "all"}) as load:
            wanted = self.chance.randrange(1, 400)
            until(lambda: len(load.acked) >= wanted, timeout_s=30)
            if kill:
                server.kill()
            else:
                server.stop()
        self.acked = set(load.acked)

    def check(self, server: Server, *, log_starts: bool = True) -> None:
        """The same is there as before, and goes on.

        `log_starts`: the one that ended has not forgotten where logs begin, as Kafka does with the
        last minute before a crash.
        """
        talker = Talker(server)
        wait_until_led(talker, {**TOPICS, LOAD: 1})
        for key, now in picture_of(talker, TOPICS).items():
            before = self.picture[key]
            if log_starts:
                assert now == before, key
            else:
                assert now.log_start_offset <= before.log_start_offset
                assert now.batches.endswith(before.batches), key
                assert now[1:3] == before[1:3], key
        assert self.acked <= set(numbers_from(talker, LOAD, self.load_start))
        for group, offsets in self.offsets.items():
            assert offsets_of(talker, group) == offsets, group
        assert self.sequence is not None
        self.sequence.check(talker)
        talker.close()
        if self.left is not None:
            self.left.check(server, is_held=server is self.kafka)
            self.left = None

    # Moving.

    def set_transaction_version(self, version: int) -> None:
        """From its next start on Odradek writes the states of transactions in this version."""
        self.odradek.settings["odradek.transaction.version"] = str(version)

    def to_kafka(self) -> str:
        done = run_odradek(
            "export-zookeeper", "--data-dir", self.log_dirs, "--zookeeper", self.zookeeper
        )
        assert done.returncode == 0, done.stderr.decode()
        self.kafka.start()
        return done.stderr.decode()

    def to_odradek(self) -> str:
        self.kafka.end_registration()
        done = run_odradek(
            *("import-zookeeper", "--zookeeper", self.zookeeper, "--data-dir", self.log_dirs),
            "--only-this-broker",  # no other one lives
        )
        assert done.returncode == 0, done.stderr.decode()
        self.odradek.start()
        return done.stderr.decode()

    def lose_the_tree(self) -> None:
        """Neither ZooKeeper nor the store is left: the directories must do."""
        for path in Path(self.log_dirs.partition(",")[0]).glob(".odradek-store.sqlite3*"):
            path.unlink()
        done = run_odradek("import-directory", "--data-dir", self.log_dirs)
        assert done.returncode == 0, done.stderr.decode()
        self.odradek.start()


def run_rounds(directory: Path, *, rounds: int, seed: int) -> None:
    """Every fourth round leaves transactional ids in every state, beginning with the second."""
    exchange = Exchange(directory, seed)
    try:
        exchange.odradek.start()
        exchange.make_topics()
        for number in range(rounds):
            kill_odradek, kill_kafka = ENDS[number % len(ENDS)]
            leaves_transactions = kill_odradek and kill_kafka
            exchange.work(exchange.odradek)
            exchange.delete_records(exchange.odradek)
            if leaves_transactions:
                exchange.leave_transactions(exchange.odradek)
            exchange.end(exchange.odradek, kill=kill_odradek)
            warnings = exchange.to_kafka()
            assert CONSUMER_GROUP in warnings
            exchange.check(exchange.kafka)

            exchange.work(exchange.kafka)
            exchange.delete_records(exchange.kafka)
            if leaves_transactions:
                exchange.leave_transactions(exchange.kafka)
            exchange.end(exchange.kafka, kill=kill_kafka)
            exchange.set_transaction_version(2 if (number + 1) % 8 in (1, 3) else 0)
            exchange.to_odradek()
            exchange.check(exchange.odradek, log_starts=not kill_kafka)
        exchange.work(exchange.odradek)
        exchange.end(exchange.odradek, kill=True)
        exchange.lose_the_tree()
        exchange.check(exchange.odradek)
        exchange.work(exchange.odradek)
    finally:
        exchange.close()


@repeated(in_test=2, in_soak=40, seed=3921, each_s=60)
def test_back_and_forth(tmp_path: Path, repeats: Repeats) -> None:
    run_rounds(tmp_path, rounds=repeats.count, seed=repeats.seed)
