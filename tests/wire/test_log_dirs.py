"""Several log directories with real clients, kills, a disk that fails, and beside Apache Kafka."""

import contextlib
import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaAdminClient

from tests.kafka.apache import BY_VERSION
from tests.kafka.java import ToolRunner
from tests.seeds import Repeats, repeated
from tests.support.brokers import create_topic
from tests.support.killing import Workload, kill_again_and_again
from tests.support.waiting import until
from tests.wire.clients import librdkafka
from tests.wire.load import LibrdkafkaLoad, numbers_in, wait_for_acks
from tests.wire.servers import OdradekServer, Server

NAMES: Final = ("a", "b", "c")
BUSY: Final = {
    "log.segment.bytes": "200000",
    "log.segment.delete.delay.ms": "50",
    "odradek.flush.ms": "100",
}
IDEMPOTENT: Final = {"acks": "all", "enable.idempotence": "true"}


def server_at(
    directory: Path, names: tuple[str, ...] = NAMES, settings: Mapping[str, str] = BUSY
) -> OdradekServer:
    server = OdradekServer(directory, settings)
    server.data_dir = Path(",".join(str(directory / name) for name in names))
    return server


@pytest.fixture
def server3(tmp_path: Path, odradek_only: None) -> Iterator[OdradekServer]:
    server = server_at(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.close()


class Admin:
    """kafka-python's admin client, as far as log directories go."""

    def __init__(self, server: Server) -> None:
        self._client = KafkaAdminClient(
            bootstrap_servers=server.bootstrap_servers, reconnect_backoff_max_ms=100
        )
        (self._broker,) = self._client.describe_cluster()["brokers"]

    def alter(self, path: Path | str, *partitions: tuple[str, int]) -> list[int]:
        number = self._broker["broker_id"]
        moves = {(topic, partition, number): str(path) for topic, partition in partitions}
        return [error.errno for error in self._client.alter_replica_log_dirs(moves).values()]

    def describe(self) -> dict[str, Any]:
        """By the last part of the path: error code, and by partition (is future, size, lag)."""
        (answer,) = self._client.describe_log_dirs()
        return {
            Path(found["log_dir"]).name: (
                found["error_code"],
                {
                    (topic["name"], p["partition_index"]): (
                        p["is_future_key"],
                        p["partition_size"],
                        p["offset_lag"],
                    )
                    for topic in found["topics"]
                    for p in topic["partitions"]
                },
            )
            for found in answer["log_dirs"]
        }

    def where(self, topic: str, partition: int = 0) -> list[str]:
        """In which directories it is served, or being moved to."""
        return [name for name, (_, ps) in self.describe().items() if (topic, partition) in ps]

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def admin3(server3: OdradekServer) -> Iterator[Admin]:
    admin = Admin(server3)
    yield admin
    admin.close()


class Moving(Workload):
    """An idempotent producer, whose partition is moved from one directory to another."""

    def __init__(self, server: OdradekServer) -> None:
        create_topic(server.bootstrap_servers, "moved")
        self._server = server
        self._load = LibrdkafkaLoad(server.bootstrap_servers, "moved", IDEMPOTENT)
        self._number = 0

    def approach(self, chance: random.Random) -> float:
        """A move has begun; every second one has ended."""
        server, number, self._number = self._server, self._number, self._number + 1
        wait_for_acks(server, self._load, more=4000)
        with contextlib.closing(Admin(server)) as admin:
            before = admin.where("moved")
            target = chance.choice([name for name in NAMES if name not in before])
            assert admin.alter(server.directory / target, ("moved", 0)) == [0]
            if number % 2:
                until(lambda: admin.where("moved") == [target])
        return 0.1

    def finish(self) -> None:
        server, load = self._server, self._load
        with contextlib.closing(Admin(server)) as admin:
            until(lambda: len(admin.where("moved")) == 1)
        sent = load.finish()
        assert not load.failed
        found = numbers_in(server.bootstrap_servers, "moved")
        assert sorted(load.acked) == list(range(sent))
        doubled = [number for number, times in Counter(found).items() if times > 1]
        assert not doubled, doubled[:10]
        missing = set(load.acked) - set(found)
        assert not missing, sorted(missing)[:10]
        until(lambda: partition_directories(server.directory) == ["moved-0"])

    def close(self) -> None:
        self._load.close()


@repeated(in_test=4, in_soak=40)
def test_moves_under_load_with_kills(server3: OdradekServer, repeats: Repeats) -> None:
    kill_again_and_again(server3, Moving(server3), repeats)


def partition_directories(root: Path) -> list[str]:
    return [p.name for name in NAMES for p in (root / name).glob("moved-*")]


def produced(
    server: Server, topic: str, partition: int, *, timeout_s: int = 30
) -> KafkaError | None:
    """Why a record was refused."""
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    settings = {"retries": 0, "message.timeout.ms": timeout_s * 1000}
    producer = Producer(librdkafka(server.bootstrap_servers, **settings))
    producer.produce(topic, bytes(5000), partition=partition, on_delivery=delivered)
    producer.flush(timeout_s + 30)
    return errors[0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """A file system of its own below b; the function mounts it again with other options."""
    path = tmp_path / "b"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")

    def remount(options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(path)], check=True)

    yield remount
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.root
def test_a_disk_that_becomes_read_only(
    odradek_only: None, small_disk: Callable[..., None], tmp_path: Path
) -> None:
    """The kernel refuses to remount for reading as long as a file is open for writing."""
    server = server_at(tmp_path, settings={"log.segment.bytes": "6000"})
    try:
        server.start()
        create_topic(server.bootstrap_servers, "t", partitions=3)
        admin = Admin(server)
        lost = next(p for p in range(3) if admin.where("t", p) == ["b"])
        admin.close()  # it forgets the sockets with which it tries a broker that is gone
        assert [produced(server, "t", p) for p in range(3)] == [None] * 3
        server.kill()
        small_disk("ro")
        server.start()
        refused = produced(server, "t", lost, timeout_s=5)  # nobody leads it
        assert refused is not None
        for partition in {0, 1, 2} - {lost}:
            assert produced(server, "t", partition) is None
        admin = Admin(server)
        assert admin.describe()["b"] == (56, {})
        admin.close()
        assert "log directory offline" in server.output
        server.stop()
        small_disk("rw")
        server.start()
        assert produced(server, "t", lost) is None
    finally:
        server.close()


@pytest.mark.java
def test_kafkas_tool_sees_a_moved_replica(
    server3: OdradekServer, admin3: Admin, runners: Mapping[str, ToolRunner]
) -> None:
    create_topic(server3.bootstrap_servers, "t")
    assert produced(server3, "t", 0) is None
    assert admin3.alter(server3.directory / "c", ("t", 0)) == [0]
    until(lambda: admin3.where("t") == ["c"])
    address = ("--bootstrap-server", server3.bootstrap_servers)
    described = runners["3.9.2"].run("LogDirsCommand", *address, "--describe").stdout
    (broker,) = json.loads(described.splitlines()[-1])["brokers"]
    found = {
        Path(d["logDir"]).name: [(p["partition"], p["isFuture"]) for p in d["partitions"]]
        for d in broker["logDirs"]
    }
    assert found == {"a": [], "b": [], "c": [("t-0", False)]}


def answers(server: Server, root: Path) -> Mapping[str, Any]:
    """What a broker with the directories a and b says to the same requests."""
    admin = Admin(server)
    absent = admin.alter(root / "b", ("early", 0))
    create_topic(server.bootstrap_servers, "early")
    create_topic(server.bootstrap_servers, "t", partitions=3)
    for partition in range(3):
        assert produced(server, "t", partition) is None
    placed = [admin.where("t", partition) for partition in range(3)]
    here, there = placed[0][0], "ab".replace(placed[0][0], "")
    found = {
        "absent": absent,
        "early": admin.where("early"),
        "counts": Counter(name for names in placed for name in names),
        "no directory": admin.alter("/absent", ("t", 0)),
        "relative": admin.alter(here, ("t", 0)),
        "long": admin.alter(root / there, ("x" * 230, 0)),
        "no partition": admin.alter(root / there, ("t", 7)),
        "present": admin.alter(root / here, ("t", 0)),
        "moved": admin.alter(root / there, ("t", 0)),
    }
    until(lambda: admin.where("t") == [there], timeout_s=60)
    described = admin.describe()
    found["described"] = {
        "codes": {name: code for name, (code, _) in described.items()},
        "t-0": described[there][1]["t", 0],
        "names": sorted(described),
    }
    assert produced(server, "t", 0) is None
    found["back"] = admin.alter(root / here, ("t", 0))
    until(lambda: admin.where("t") == [here], timeout_s=60)
    admin.close()
    return found


@pytest.mark.java
def test_answers_are_kafkas(odradek_only: None, tmp_path: Path) -> None:
    ours = server_at(tmp_path / "ours", ("a", "b"))
    root = tmp_path / "kafka"
    kafka = BY_VERSION["3.9.2"](root, {"log.dirs": f"{root}/a,{root}/b"})
    found = []
    for server, place in ((ours, tmp_path / "ours"), (kafka, root)):
        try:
            server.start()
            found.append(answers(server, place))
        finally:
            server.close()
    assert found[0] == found[1]
