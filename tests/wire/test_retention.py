"""Retention seen from outside: under readers, and under `kill -9`."""

import os
import random
import threading
from typing import Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import iter_batches, iter_records
from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer, create_topic
from tests.support.killing import Workload, kill_again_and_again
from tests.support.messages import fetch_request, list_offsets
from tests.support.waiting import until
from tests.wire.load import LibrdkafkaLoad
from tests.wire.servers import Server
from tests.wire.talk import Talk

TOPIC: Final = "forgotten"
IDEMPOTENT: Final = {"acks": "all", "enable.idempotence": "true", "batch.num.messages": "300"}
ALWAYS: Final = {"log.retention.check.interval.ms": "10", "log.segment.delete.delay.ms": "50"}
SMALL: Final = {"segment.bytes": "10000", "retention.bytes": "50000", "file.delete.delay.ms": "20"}
EARLIEST, LATEST = -2, -1
READERS: Final = 4


def bound(talk: Talk, timestamp: int) -> int:
    answer = talk.exchange(list_offsets(TOPIC, timestamp), 7)
    assert answer is not None, "the broker hung up"
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def read_once(talk: Talk, offset: int) -> int | None:
    """Check what is there; the offset to go on with, or None if it was out of range."""
    answer = talk.exchange(fetch_request(TOPIC, offset, partition_max_bytes=50_000), 11)
    assert answer is not None, "the broker hung up on a reader"
    part = answer.responses[0].partitions[0]
    if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return None
    assert part.error_code == 0
    data = memoryview(part.records or b"")
    for position, header in iter_batches(data):
        for record in iter_records(
            data[position : position + header.size_bytes], header, size_bytes_max=1 << 20
        ):
            assert int(record.value or b"") == record.offset
        assert header.base_offset <= offset <= header.last_offset
        offset = header.next_offset
    return offset


class Reader:
    """Reads from the beginning again and again, or from anywhere, in a thread."""

    def __init__(self, server: Server, seed: int) -> None:
        self._talk = Talk(server, TOPIC)
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None
        self.reads = self.refusals = 0
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                first, last = bound(self._talk, EARLIEST), bound(self._talk, LATEST)
                offset: int | None = self._chance.choice((first, first, last))
                for _ in range(self._chance.randrange(1, 8)):
                    assert offset is not None
                    offset = read_once(self._talk, offset)
                    self.reads += 1
                    if offset is None:
                        self.refusals += 1
                        break
        except (AssertionError, OSError) as error:
            self.error = error
        finally:
            self._talk.close()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        if self.error is not None:
            raise self.error


def wait_for_start(talk: Talk, offset: int) -> None:
    until(lambda: bound(talk, EARLIEST) >= offset, "something is deleted")


@pytest.mark.usefixtures("odradek_only")
def test_readers_get_records_or_hear_that_they_are_gone(start_server: StartServer) -> None:
    server = start_server(ALWAYS)
    create_topic(server.bootstrap_servers, TOPIC, config=SMALL)
    talk = Talk(server, TOPIC)
    with LibrdkafkaLoad(server.bootstrap_servers, TOPIC, IDEMPOTENT) as load:
        readers = [Reader(server, number) for number in range(READERS)]
        wait_for_start(talk, 20_000)
        for reader in readers:
            reader.finish()
        load.finish()
        assert not load.failed
    assert all(reader.reads > 20 for reader in readers)
    talk.close()


def deleted_names(server: Server) -> list[str]:
    directory = server.data_dir / f"{TOPIC}-0"
    return [name for name in os.listdir(directory) if name.endswith(".deleted")]


def check_after_kill(server: Server, start_before: int, acked: list[int]) -> None:
    """No gap, nothing doubled, nothing back, nothing acknowledged missing."""
    talk = Talk(server, TOPIC)
    first, last = bound(talk, EARLIEST), bound(talk, LATEST)
    assert first >= start_before, "deleted records are back"
    assert last > max(acked)
    offset = first
    while offset < last:
        next_offset = read_once(talk, offset)
        if next_offset is None:  # it goes on deleting
            next_offset = bound(talk, EARLIEST)
        assert next_offset > offset
        offset = next_offset
    talk.close()


class Forgetting(Workload):
    """A producer, whose oldest segments are deleted all the time."""

    def __init__(self, server: Server) -> None:
        create_topic(server.bootstrap_servers, TOPIC, config=SMALL)
        self._server = server
        self._load = LibrdkafkaLoad(server.bootstrap_servers, TOPIC, IDEMPOTENT)
        self._start = 0
        self._acked: list[int] = []

    def approach(self, chance: random.Random) -> float:
        """A deletion begins; every second time it is to be met at once."""
        before = set(deleted_names(self._server))
        until(lambda: set(deleted_names(self._server)) - before, "something is deleted")
        return chance.choice((0.0, 0.02))

    def killed(self) -> None:
        logs = [int(name[:20]) for name in deleted_names(self._server) if ".log." in name]
        self._start = max(logs) + 1 if logs else 0
        self._acked = self._load.acked[:]

    def check(self) -> None:
        check_after_kill(self._server, self._start, self._acked)

    def finish(self) -> None:
        self._load.finish()
        assert not self._load.failed
        check_after_kill(self._server, 1, self._load.acked)
        assert sorted(self._load.acked) == list(range(len(self._load.acked)))

    def close(self) -> None:
        self._load.close()


@pytest.mark.usefixtures("odradek_only")
@repeated(in_test=4, in_soak=60)
def test_kill_while_segments_are_deleted(start_server: StartServer, repeats: Repeats) -> None:
    server = start_server(ALWAYS)
    kill_again_and_again(server, Forgetting(server), repeats)
