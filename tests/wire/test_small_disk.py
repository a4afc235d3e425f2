"""A file system of 32 MiB that is filled, three times: no lie, no damage, and it goes on by itself.

Each round fills the disk up, sees the producer told, frees space (a foreign file, or a topic), and
sees that exactly what was acknowledged is there; the last look follows a `kill -9`.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.support.brokers import create_topic
from tests.support.waiting import until
from tests.wire.clients import librdkafka
from tests.wire.load import numbers_in
from tests.wire.servers import OdradekServer

DISK_BYTES: Final = 32 << 20
LEFT_BYTES: Final = 5 << 20
VALUE_BYTES: Final = 20_000
TOPIC: Final = "kept"
SETTINGS: Final = {
    "log.segment.bytes": "1048576",
    "log.segment.delete.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("odradek_only")]


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where a small file system is mounted."""
    kind: str = request.param
    path = tmp_path / "disk"
    path.mkdir()
    try:
        if kind == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path))
        else:
            image = tmp_path / "image"
            image.touch()
            os.truncate(image, DISK_BYTES)
            run("mkfs.ext4", "-q", "-F", str(image))
            run("mount", "-o", "loop", str(image), str(path))
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"no {kind} of this size can be mounted: {error}")
    try:
        yield path
    finally:
        run("umount", "-l", str(path))


class Writer:
    """Writes numbers, each of VALUE_BYTES, one after the other's answer."""

    def __init__(self, servers: str) -> None:
        # No answer is lost to a pause, nor the time for one to a client that waits to reconnect.
        settings = {"message.timeout.ms": 40_000, "reconnect.backoff.max.ms": 100}
        settings |= {"retries": 0, "linger.ms": 0}
        self._producer = Producer(librdkafka(servers, acks="all", **settings))
        self._numbers = itertools.count()
        self.acked: list[int] = []

    def write(self, topic: str = TOPIC) -> KafkaError | None:
        """Write the next number; return what the broker says."""
        number, said = next(self._numbers), []

        def delivered(error: KafkaError | None, _: Message) -> None:
            said.append(error)

        value = f"{number:<{VALUE_BYTES}d}"
        self._producer.produce(topic, value, partition=0, on_delivery=delivered)
        assert self._producer.flush(60) == 0
        if said[0] is None and topic == TOPIC:
            self.acked.append(number)
        return said[0]

    def fill(self) -> KafkaError:
        """Write until there is no room."""
        for _ in range(DISK_BYTES // VALUE_BYTES):
            error = self.write()
            if error is not None:
                return error
        raise AssertionError("the disk has more room than it should")


def occupy(path: Path) -> None:
    """A foreign file takes all but LEFT_BYTES."""
    size_bytes = shutil.disk_usage(path.parent).free - LEFT_BYTES
    path.write_bytes(bytes(max(0, size_bytes)))


def assert_exactly(server: OdradekServer, writer: Writer) -> None:
    found = Counter(numbers_in(server.bootstrap_servers, TOPIC))
    assert found == Counter(writer.acked)


def test_a_disk_that_fills_up_again_and_again(disk: Path, tmp_path: Path) -> None:
    server = OdradekServer(tmp_path / "server", SETTINGS)
    server.data_dir = disk / "data"
    filler = disk / "filler"
    with contextlib.closing(server):
        server.start()
        admin = AdminClient(librdkafka(server.bootstrap_servers))
        create_topic(server.bootstrap_servers, TOPIC, admin=admin)
        writer = Writer(server.bootstrap_servers)
        for frees_topic in (False, True, False):
            if frees_topic:
                create_topic(server.bootstrap_servers, "gone", admin=admin)
                for _ in range(100):
                    assert writer.write("gone") is None
            occupy(filler)
            for _ in range(3):
                assert writer.fill().code() == KafkaError.KAFKA_STORAGE_ERROR
            assert server.alive, server.output
            if frees_topic:
                admin.delete_topics(["gone"])["gone"].result(timeout=30)
            else:
                filler.unlink()
            until(lambda: writer.write() is None)
            assert_exactly(server, writer)
            filler.unlink(missing_ok=True)
        assert "Traceback" not in server.output
        server.kill()
        server.start()
        assert_exactly(server, writer)
        assert writer.write() is None
        server.stop()
