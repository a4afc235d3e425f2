"""Java, librdkafka and aiokafka read from the replica in their rack, and through its death."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.kafka.java import command_line
from tests.lab import admin
from tests.lab.brokers import KAFKA
from tests.lab.cluster import Cluster
from tests.lab.near_reads import RACKS, SETTINGS
from tests.lab.traffic import Traffic
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(300)]

TOPIC: Final = "wide"
PARTITIONS: Final = 3
RECORD_BYTES: Final = 4096
COUNT: Final = 1500
"""Records of a partition written at a time: 18 MB in all."""
PART: Final = PARTITIONS * COUNT
LEADER, NEAR = 0, 1
WRITE_S: Final = 2.0
NEAR_SHARE_MIN: Final = 0.75
"""When a replica is not in sync for a moment, the leader answers, with up to 1 MiB a partition."""
CLIENTS: Final = ("java", "librdkafka", "aiokafka")


class Reader:
    """A client in a process of its own."""

    def __init__(self, client: str, servers: str) -> None:
        self.client = client
        self.count = 0
        self._output: list[str] = []
        told = [servers, TOPIC, str(PARTITIONS), f"r{NEAR}"]
        python = [sys.executable, "-m", "tests.lab.near_reader", client]
        command = command_line(KAFKA, "NearReader") if client == "java" else python
        self._process = subprocess.Popen(
            [*command, *told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self.traffic = Traffic(self._process.pid)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip().isdigit():
                self.count = int(line)
            else:
                self._output.append(line)

    def has_read(self, count: int) -> bool:
        """Also counts its traffic.  Raises: AssertionError, if it has ended."""
        assert self._process.poll() is None, f"{self.client}: {''.join(self._output)[-3000:]}"
        assert self.count <= count, f"{self.client} has read {self.count} of {count}"
        is_done = self.count == count
        self.traffic.look()
        return is_done

    def end(self) -> None:
        """It ends well."""
        self._process.communicate("\n", timeout=30)
        assert self._process.returncode == 0, f"{self.client}: {''.join(self._output)[-3000:]}"

    def kill(self) -> None:
        """Whatever it does; nothing of it stays open."""
        with self._process:
            self._process.kill()
            self._thread.join()


@contextmanager
def reading(lab: Cluster) -> Iterator[Sequence[Reader]]:
    """All clients."""
    with ExitStack() as stack:
        readers = []
        for client in CLIENTS:
            readers.append(Reader(client, lab.bootstrap_servers))
            stack.callback(readers[-1].kill)
        yield readers


def write(lab: Cluster, first: int, may_end: Callable[[], object]) -> None:
    """COUNT records more to each partition; `may_end` is called halfway, and may wait."""
    settings = {"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "log_level": 0}
    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 20})
    begin_s = time.monotonic()
    for number in range(first, first + COUNT):
        time.sleep(max(0.0, begin_s + WRITE_S * (number - first) / COUNT - time.monotonic()))
        if number - first == COUNT // 2:
            may_end()
        for partition in range(PARTITIONS):
            value = (b"%d " % number).ljust(RECORD_BYTES, b"x")
            producer.produce(TOPIC, value, partition=partition)
        producer.poll(0)
    producer.flush(60)


def received(lab: Cluster, readers: Sequence[Reader]) -> Mapping[str, Counter[int]]:
    """Bytes from each broker, by client."""
    ports = {process.port: broker for broker, process in lab.brokers.items()}
    found = {}
    for reader in readers:
        counts: Counter[int] = Counter()
        for port, size_bytes in reader.traffic.received().items():
            counts[ports[port]] += size_bytes
        found[reader.client] = counts
    return found


def read_all(
    lab: Cluster,
    readers: Sequence[Reader],
    parts: int,
    may_end: Callable[[], object] = lambda: None,
) -> Mapping[str, Counter[int]]:
    """Wait until everybody has read so many parts; what was received for the last of them."""
    before = received(lab, readers)
    writing = threading.Thread(target=write, args=[lab, (parts - 1) * COUNT, may_end])
    writing.start()
    count = parts * PART
    until(lambda: sum(r.has_read(count) for r in readers) == len(readers), "all is read", 90)
    writing.join()
    return {client: now - before[client] for client, now in received(lab, readers).items()}


def kill_near(lab: Cluster, readers: Sequence[Reader]) -> None:
    """Kill the near broker when everybody has begun with the second part."""
    until(lambda: all(r.count > PART for r in readers), "everybody reads", 60)
    lab.kill(NEAR)


def share(counts: Counter[int], broker: int) -> float:
    """Of all that was received."""
    size_bytes = PART * RECORD_BYTES
    assert size_bytes <= counts.total() < 1.5 * size_bytes, counts
    return counts[broker] / counts.total()


def test_all_read_near_and_through_a_death(tmp_path: Path) -> None:
    with Cluster("odradek", directory=tmp_path, settings=SETTINGS, own_settings=RACKS) as lab:
        lab.start_zookeeper()
        lab.start()
        replicas = [LEADER, NEAR, 2]
        admin.create_topic(lab, TOPIC, assignment=[replicas] * PARTITIONS)
        lab.settle()
        with reading(lab) as readers:
            for client, counts in read_all(lab, readers, 1).items():
                assert share(counts, NEAR) >= NEAR_SHARE_MIN, (client, counts)
            killing = threading.Thread(target=kill_near, args=[lab, readers])
            killing.start()
            for client, counts in read_all(lab, readers, 2, killing.join).items():
                assert counts[LEADER], (client, counts)
            lab.start(NEAR)
            lab.settle()
            for client, counts in read_all(lab, readers, 3).items():
                assert share(counts, NEAR) >= NEAR_SHARE_MIN, (client, counts)
            for reader in readers:
                reader.end()
