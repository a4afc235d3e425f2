"""Compaction under load and `kill -9`: every reader finds the newest of each key at its offset.

One idempotent producer writes number n at offset n, so that a record says by itself whether it is
where it was written. Half of the kills wait for a moment at which a compaction is being taken over.
"""

import os
import random
import threading
import time
from typing import Final

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from odradek.storage.files import RealFileSystem
from odradek.storage.log.checkpoint import CLEANER, read_offsets
from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer, create_topic
from tests.support.killing import Workload, kill_again_and_again
from tests.support.waiting import until
from tests.wire.clients import Settings, librdkafka
from tests.wire.servers import Server

pytestmark = pytest.mark.usefixtures("odradek_only")

TOPIC: Final = "compacted"
KEYS: Final = 50_000
PER_SECOND: Final = 100_000
RECORDS_PER_KILL: Final = 150_000
BUSY: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "300",
    "odradek.flush.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": "500",
    "file.delete.delay.ms": "300",
}
GROUPS: Final = 4
OFFSETS: Final = "__consumer_offsets-0"
NOT_YET: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
TOMBSTONE_ONE_IN: Final = 10
DEADLINE_S: Final = 300.0


class History:
    """What is written: key and value of each number."""

    def __init__(self, count: int, keys: int, seed: int) -> None:
        self.count = count
        self.keys = random.Random(seed).choices(range(keys), k=count)

    def key(self, number: int) -> bytes:
        return b"key-%d" % self.keys[number]

    def value(self, number: int) -> bytes | None:
        return None if number % TOMBSTONE_ONE_IN == 3 else b"value-%d" % number

    def newest(self) -> dict[bytes, int]:
        return {b"key-%d" % key: number for number, key in enumerate(self.keys)}

    def check(self, message: Message) -> int:
        """The offset of a record, which must be what was written there."""
        error = message.error()
        assert error is None, error
        offset: int | None = message.offset()
        assert offset is not None
        assert (message.key(), message.value()) == (self.key(offset), self.value(offset))
        return offset


class Writing:
    """The producer, in a thread."""

    def __init__(self, server: Server, history: History) -> None:
        self._history = history
        settings: Settings = {
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 100,
        }
        self._producer = Producer(
            {**librdkafka(server.bootstrap_servers, **settings), "on_delivery": self._delivered}
        )
        self.sent = 0
        self.may_send = RECORDS_PER_KILL
        """So many until the next kill: there is something to compact before each."""
        self.failed: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))

    def _send(self) -> None:
        history, start_s = self._history, time.monotonic()
        for number in range(history.count):
            while not self._stopping.is_set():
                if number >= self.may_send:
                    self._producer.poll(0.05)
                    continue
                try:
                    self._producer.produce(TOPIC, history.value(number), history.key(number), 0)
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self.sent = number + 1
            if number % 1000 == 0:
                self._producer.poll(0)
                early_s = number / PER_SECOND - (time.monotonic() - start_s)
                if early_s > 0:
                    self._producer.poll(early_s)

    def finish(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        assert self._producer.flush(DEADLINE_S) == 0
        assert not self.failed, self.failed[:3]

    def close(self) -> None:
        self._stopping.set()
        self._producer.purge()
        self._thread.join(DEADLINE_S)


class Reading:
    """A consumer in a thread, from the start again and again, or at the tail."""

    def __init__(self, server: Server, history: History, *, at_tail: bool) -> None:
        self._history = history
        self._at_tail = at_tail
        self.servers = server.bootstrap_servers
        self.problem: BaseException | None = None
        self.read = self.rounds = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._read_on()
                self.rounds += 1
        except (AssertionError, KafkaException) as error:
            self.problem = error

    def _read_on(self) -> None:
        consumer = consumer_from_start(self.servers)
        last = -1
        try:
            while not self._stopping.is_set():
                for message in consumer.consume(5000, 0.2):
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        if not self._at_tail:
                            return
                        continue
                    offset = self._history.check(message)
                    assert offset > last, f"{offset} after {last}"
                    last = offset
                    self.read += 1
        finally:
            consumer.close()

    def finish(self) -> None:
        self.close()
        if self.problem is not None:
            raise self.problem
        assert self.read > 0

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(DEADLINE_S)


def consumer_from_start(servers: str) -> Consumer:
    """One that takes no offset for another, and no damaged record for a record."""
    settings: Settings = {
        "group.id": "readers",
        "auto.offset.reset": "error",
        "check.crcs": True,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "reconnect.backoff.max.ms": 100,
        "fetch.error.backoff.ms": 50,
    }
    consumer = Consumer(librdkafka(servers, **settings))
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    return consumer


def read_all(servers: str, history: History) -> dict[int, bytes]:
    """Offset and key of every record."""
    found: dict[int, bytes] = {}
    consumer = consumer_from_start(servers)
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 1.0):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                offset = history.check(message)
                found[offset] = history.key(offset)
    finally:
        consumer.close()
    raise AssertionError("the end of the log was not reached")


def read_settled(servers: str, history: History) -> dict[int, bytes]:
    """Offset and key of every record, when no compaction goes on any more.

    Before that a reader that is on its way for longer than delete.retention.ms may read an old
    value and then find the tombstone gone: Kafka promises it no more.
    """
    found = read_all(servers, history)
    while (again := read_all(servers, history)) != found:
        found = again
    return found


def files_in(server: Server, name: str) -> list[str]:
    try:
        return os.listdir(server.data_dir / name)
    except FileNotFoundError:
        return []


def unfinished(server: Server, name: str) -> list[str]:
    """Files of a compaction or a swap that goes on, or was cut short."""
    return [file for file in files_in(server, name) if file.endswith((".swap", ".cleaned"))]


def approach_a_swap(server: Server, name: str, chance: random.Random) -> None:
    """Until new segments are being taken over, or soon."""
    until(lambda: unfinished(server, name), timeout_s=DEADLINE_S)
    swapped = time.monotonic() + chance.uniform(0, 0.05)
    while time.monotonic() < swapped:
        if any(file.endswith(".swap") for file in files_in(server, name)):
            return


def checkpointed(server: Server, name: str) -> int:
    """The first dirty offset on disk."""
    offsets = read_offsets(RealFileSystem(), str(server.data_dir / CLEANER)) or {}
    topic, _, partition = name.rpartition("-")
    return offsets.get((topic, int(partition)), 0)


class Compacting(Workload):
    """One producer, and readers at the tail and from the start, of a topic that is compacted."""

    def __init__(self, server: Server, history: History) -> None:
        create_topic(server.bootstrap_servers, TOPIC, config=CONFIG)
        self._server, self._history = server, history
        self._writing = Writing(server, history)
        self._reading = [Reading(server, history, at_tail=at_tail) for at_tail in (False, True)]
        self._kills = self._hits = 0

    def approach(self, chance: random.Random) -> float:
        """Every other kill is to meet a compaction or a swap."""
        if self._kills % 2:
            return 1.0
        approach_a_swap(self._server, f"{TOPIC}-0", chance)
        return 0.0

    def killed(self) -> None:
        self._kills += 1
        self._writing.may_send += RECORDS_PER_KILL
        self._hits += bool(unfinished(self._server, f"{TOPIC}-0"))

    @property
    def has_seen_enough(self) -> bool:
        return self._hits > 0 or self._writing.sent == self._history.count

    def finish(self) -> None:
        server, history, name = self._server, self._history, f"{TOPIC}-0"
        self._writing.finish()
        assert self._hits > 0, "no kill fell into a compaction"
        until(lambda: checkpointed(server, name) > 0.6 * history.count, timeout_s=DEADLINE_S)
        for one in self._reading:
            one.finish()
        check_contents(server, history)
        server.stop()
        server.start()
        check_contents(server, history)
        # What a kill has left is gone; a pass that goes on may have some of its own.
        until(lambda: not unfinished(server, name))

    def close(self) -> None:
        self._writing.close()
        for one in self._reading:
            one.close()


def check_contents(server: Server, history: History) -> None:
    found = read_settled(server.bootstrap_servers, history)
    assert max(found) == history.count - 1
    newest = history.newest()
    for key, number in newest.items():
        if history.value(number) is not None:
            assert found.get(number) == key, f"the newest record of {key!r} at {number} is gone"
    # An old value that outlived its tombstone would be read as if it had never been deleted.
    last = {key: offset for offset, key in found.items()}
    wrong = {key: offset for key, offset in last.items() if newest[key] != offset}
    assert not wrong, f"deleted and back: {list(wrong.items())[:5]}"
    assert len(found) < 0.7 * history.count


@repeated(in_test=4, in_soak=40)
def test_newest_values_survive_with_readers_and_kills(
    start_server: StartServer, repeats: Repeats
) -> None:
    history = History(RECORDS_PER_KILL * repeats.count, KEYS, repeats.seed)
    server = start_server(BUSY)
    kill_again_and_again(server, Compacting(server, history), repeats)


# -- groups


class Committing(Workload):
    """Some groups that commit for ever; the last acknowledged offset of each is there."""

    def __init__(self, server: Server) -> None:
        create_topic(server.bootstrap_servers, TOPIC)
        self._server = server
        self._acknowledged: dict[str, int] = {}
        self._problems: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._commit, daemon=True)
        self._thread.start()

    def _commit(self) -> None:
        consumers = {f"g{n}": committer(self._server, f"g{n}") for n in range(GROUPS)}
        offset = 0
        while not self._stopping.wait(0.005):  # some disks take long for a compaction's fsyncs
            offset += 1
            for group, consumer in consumers.items():
                while not self._stopping.is_set():
                    try:
                        consumer.commit(
                            offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False
                        )
                    except KafkaException as error:
                        code = error.args[0].code()
                        if code >= 0 and code not in NOT_YET:  # below 0: its own, it lost us
                            self._problems.append(str(error))
                            return
                        continue
                    self._acknowledged[group] = offset
                    break
        for consumer in consumers.values():
            consumer.close()

    def approach(self, chance: random.Random) -> float:
        """The offsets are compacted once more, and once more."""
        clean = checkpointed(self._server, OFFSETS)
        until(lambda: checkpointed(self._server, OFFSETS) > clean, timeout_s=DEADLINE_S)
        approach_a_swap(self._server, OFFSETS, chance)
        return 0.0

    def finish(self) -> None:
        """A deleted group stays deleted, too, when its deletion was compacted."""
        server, acknowledged = self._server, self._acknowledged
        before = dict(acknowledged)
        until(lambda: all(n > before.get(g, 0) for g, n in acknowledged.items()))
        self.close()
        assert not self._problems
        # A client that had seen the broker end might stand still for minutes.
        admin = AdminClient(librdkafka(server.bootstrap_servers))
        admin.delete_consumer_groups(["g0"])["g0"].result(30)
        last = max(acknowledged.values())
        consumer = committer(server, "g1")
        for offset in range(last + 1, last + 200):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        consumer.close()
        acknowledged["g1"] = last + 199
        until(lambda: size_bytes(server, OFFSETS) < 40_000, timeout_s=DEADLINE_S)
        server.kill()
        server.start()
        acknowledged["g0"] = OFFSET_INVALID
        found = {group: committed(server, group) for group in acknowledged}
        # The last commit that was sent may have been taken without an answer.
        wrong = {g: (n, found[g]) for g, n in acknowledged.items() if not n <= found[g] <= n + 1}
        assert not wrong

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


def committer(server: Server, group: str) -> Consumer:
    settings: Settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 100,
    }
    return Consumer(librdkafka(server.bootstrap_servers, **settings))


def committed(server: Server, group: str) -> int:
    consumer = committer(server, group)
    try:
        offset: int = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)[0].offset
        return offset
    finally:
        consumer.close()


@repeated(in_test=2, in_soak=20)
def test_committed_offsets_survive(start_server: StartServer, repeats: Repeats) -> None:
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "10000"}
    server = start_server({**BUSY, **settings, "log.cleaner.min.cleanable.ratio": "0.2"})
    kill_again_and_again(server, Committing(server), repeats)


def size_bytes(server: Server, name: str) -> int:
    infos = RealFileSystem().list_directory(str(server.data_dir / name))
    return sum(info.size_bytes for info in infos if info.name.endswith(".log"))
