"""Clusters under measurement: three brokers and a ZooKeeper, ours or Apache Kafka 3.9.2's.

Each broker is a process of its own, Kafka's with the flags of its start script; or all three of
ours are one process over the embedded store. Both kinds get the same settings, and only one cluster
is up at a time.
"""

import contextlib
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.schema import Message
from tests.kafka.apache import java_command
from tests.kafka.process import ServerProcess, free_port, serves_metadata
from tests.kafka.zookeeper import HOST, LOG4J_1, ZooKeeper
from tests.lab.asking import ask
from tests.support.waiting import until

from .brokers import KAFKA_FLAGS, KAFKA_HEAP_MB, Kind
from .connection import Address

KAFKA: Final = "3.9.2"
BROKERS: Final = 3
PARTITIONS: Final = 6
MIN_IN_SYNC: Final = 2
START_TIMEOUT_S: Final = 90.0
TIMEOUT_S: Final = 300.0
SETTINGS: Final = {
    "offsets.topic.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
}
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PSS: Final = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


class Layout(StrEnum):
    """Where the brokers run."""

    PROCESSES = "processes"
    ONE_PROCESS = "one process"


class Started:
    """A cluster that runs; made by `running`."""

    def __init__(self, directory: Path, addresses: dict[int, Address], pids: list[int]) -> None:
        self._directory = directory
        self.addresses = addresses
        """By broker id."""
        self._pids = pids

    @property
    def bootstrap_servers(self) -> str:
        """All brokers."""
        return ",".join(map(str, self.addresses.values()))

    def cpu_s(self) -> float:
        """User and system time of all brokers so far, without ZooKeeper's."""
        return sum(map(_cpu_s, self._pids))

    def pss_bytes(self) -> int:
        """Memory of all brokers together; what they share counts once."""
        rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self._pids)
        return sum(int(_PSS.findall(rollup)[0]) * 1024 for rollup in rollups)

    def create(self, topic: str, *, replicas: int = BROKERS) -> None:
        """Create a topic on the first so many brokers; all partitions are led in the end."""
        ids = list(self.addresses)[:replicas]
        assignments = [
            CreatableReplicaAssignment(
                partition_index=number,
                broker_ids=[ids[(number + place) % replicas] for place in range(replicas)],
            )
            for number in range(PARTITIONS)
        ]
        config = CreatableTopicConfig(name="min.insync.replicas", value=str(MIN_IN_SYNC))
        new = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[config],
        )
        answer = self._ask_controller(CreateTopicsRequest(topics=[new], timeout_ms=60_000), 7)
        if answer.topics[0].error_code:
            raise RuntimeError(f"CreateTopics: {answer.topics[0].error_message}")
        until(lambda: self.in_sync(topic) == replicas * PARTITIONS, "all are in sync", TIMEOUT_S)

    def add_replicas(self, topic: str) -> None:
        """Have every partition on all brokers; who had none of it begins to copy."""
        partitions = [
            ReassignablePartition(partition_index=number, replicas=list(self.addresses))
            for number in range(PARTITIONS)
        ]
        moved = ReassignableTopic(name=topic, partitions=partitions)
        answer = self._ask_controller(AlterPartitionReassignmentsRequest(topics=[moved]), 0)
        problems = [p.error_message for t in answer.responses for p in t.partitions if p.error_code]
        if answer.error_code or problems:
            raise RuntimeError(f"AlterPartitionReassignments: {answer.error_message} {problems}")

    def leaders(self, topic: str) -> dict[int, Address]:
        """The leader of each partition."""
        answer = self._metadata(next(iter(self.addresses.values())), topic)
        partitions = answer.topics[0].partitions
        return {p.partition_index: self.addresses[p.leader_id] for p in partitions}

    def in_sync(self, topic: str) -> int:
        """The sizes of all in-sync sets together, as that broker sees it that sees least."""
        sizes = []
        for address in self.addresses.values():
            found = self._metadata(address, topic).topics
            partitions = found[0].partitions if found else []
            sizes.append(sum(len(p.isr_nodes) for p in partitions if p.leader_id in self.addresses))
        return min(sizes)

    def copied_bytes(self, topic: str, broker: int) -> int:
        """The size of the broker's segments of a topic."""
        place = self._directory / f"broker-{broker}"
        sizes = 0
        for number in range(PARTITIONS):
            for segment in place.glob(f"data/{topic}-{number}/*.log"):
                sizes += segment.stat().st_size
        return sizes

    def _metadata(self, address: Address, topic: str) -> MetadataResponse:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer: MetadataResponse = ask(address, request, 12)
        answer.topics = [found for found in answer.topics if found.name == topic]
        return answer

    def _ask_controller(self, request: Message, version: int) -> Any:
        first = next(iter(self.addresses.values()))
        found = ask(first, MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
        return ask(self.addresses[found.controller_id], request, version)


@contextmanager
def running(kind: Kind, layout: Layout, directory: Path) -> Iterator[Started]:
    """A cluster that is ended and whose files are removed at the end.  Raises: ServerFailed."""
    directory.mkdir(exist_ok=True)
    processes: list[ServerProcess] = []
    try:
        if layout is Layout.ONE_PROCESS:
            yield _start_one_process(directory, processes)
        else:
            yield _start_processes(kind, directory, processes)
    finally:
        for process in processes:
            process.kill()
        shutil.rmtree(directory, ignore_errors=True)


def _start_processes(kind: Kind, directory: Path, processes: list[ServerProcess]) -> Started:
    zookeeper = ZooKeeper(directory / "zookeeper")
    processes.append(zookeeper.process)
    zookeeper.start()
    settings = {"zookeeper.connect": zookeeper.address, **SETTINGS}
    addresses, pids = {}, []
    for broker in range(BROKERS):
        address = addresses[broker] = Address(HOST, free_port())
        place = directory / f"broker-{broker}"
        place.mkdir()
        command = (_kafka if kind is Kind.KAFKA else _odradek)(broker, address, place, settings)
        pids.append(_start(command, place, [address], processes))
    return Started(directory, addresses, pids)


def _start_one_process(directory: Path, processes: list[ServerProcess]) -> Started:
    port = _free_ports(BROKERS)
    addresses = {broker: Address(HOST, port + broker) for broker in range(BROKERS)}
    command = _odradek(0, addresses[0], directory, SETTINGS, "--brokers", str(BROKERS))
    pid = _start(command, directory, list(addresses.values()), processes)
    for broker in addresses:
        (directory / f"broker-{broker}").mkdir()
        (directory / f"broker-{broker}" / "data").symlink_to(directory / f"data/broker-{broker}")
    return Started(directory, addresses, [pid])


def _free_ports(count: int) -> int:
    """The first of so many ports in a row that were free a moment ago."""
    while True:
        first = free_port()
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, OverflowError):
            for port in range(first + 1, first + count):
                stack.enter_context(socket.socket()).bind((HOST, port))
            return first


def _start(
    command: list[str], place: Path, addresses: list[Address], processes: list[ServerProcess]
) -> int:
    process = ServerProcess(command, place / "broker.out")
    processes.append(process)
    process.start(
        lambda: all(serves_metadata(*address) for address in addresses), timeout_s=START_TIMEOUT_S
    )
    return process.pid


def _odradek(
    broker: int, address: Address, place: Path, settings: Mapping[str, str], *more: str
) -> list[str]:
    command = [sys.executable, "-m", "odradek", "serve", "--data-dir", str(place / "data")]
    command += ["--listen", str(address), "--broker-id", str(broker), *more]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return command


def _kafka(broker: int, address: Address, place: Path, settings: Mapping[str, str]) -> list[str]:
    properties = {
        "broker.id": str(broker),
        "listeners": f"PLAINTEXT://{address}",
        "log.dirs": str(place / "data"),
        **settings,
    }
    (place / "log4j.properties").write_text(LOG4J_1)
    config = place / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    java, *rest = java_command(
        KAFKA,
        "kafka.Kafka",
        str(config),
        heap_mb=KAFKA_HEAP_MB,
        log_config=place / "log4j.properties",
    )
    own_flags = [word for word in rest if not word.startswith(("-Xm", "-Dorg.slf4j"))]
    return [java, *KAFKA_FLAGS, *own_flags]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
