"""Apache Kafka itself: 3.9.2 beside its ZooKeeper, 4.3.1 alone in KRaft mode.

The wire tests run against it to prove that they ask for what Kafka does, and the benchmarks to
compare. `python -m tests.kafka.apache 4.3.1` runs one until Ctrl-C.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from .jars import classpath
from .jvm import quick
from .process import BrokerServer, ServerFailed, free_port, serves_metadata
from .zookeeper import LOG4J_1, ZooKeeper

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 60.0
# A JVM that is only stopped for a moment stays.
SESSION_MS: Final = 6_000
CLUSTER_ID: Final = "b2RyYWRlay10ZXN0cy0wMQ"
SMALL: Final = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
}


class ApacheKafka(BrokerServer, ABC):
    """One broker of Apache Kafka, in a JVM that starts soon unless `jvm_options` are given."""

    version: str
    fixed: ClassVar[Mapping[str, str]]
    """What each has unless its settings say otherwise, but for addresses and directories: with the
    settings, what Kafka's answers depend on."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
        jvm_options: Sequence[str] | None = None,
    ):
        super().__init__(directory, HOST, free_port())
        self.settings = dict(settings or {})
        self.heap_mb = heap_mb
        self._process.command = java_command(
            self.version,
            "kafka.Kafka",
            str(directory / "server.properties"),
            heap_mb=heap_mb,
            log_config=directory / "log4j.properties",
            jvm_options=quick_broker(self.version) if jvm_options is None else jvm_options,
        )

    def start(self) -> None:
        """Start and return when it serves.  Raises: ServerFailed, JarsMissing."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j.properties").write_text(LOG4J_1)
        self._prepare()
        (self.directory / "server.properties").write_text(
            "".join(f"{name}={value}\n" for name, value in self._properties().items())
        )
        self._process.start(
            lambda: serves_metadata(self.host, self.port), timeout_s=START_TIMEOUT_S
        )

    def stop(self) -> None:
        self._process.stop()

    def close(self) -> None:
        """End everything that was started."""
        self._process.kill()

    @abstractmethod
    def _prepare(self) -> None: ...

    @abstractmethod
    def _properties(self) -> dict[str, str]: ...


class Kafka39(ApacheKafka):
    """Apache Kafka 3.9.2 in ZooKeeper mode, with a ZooKeeper of its own."""

    version = "3.9.2"
    fixed: ClassVar[Mapping[str, str]] = {
        **SMALL,
        "broker.id": "0",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
        jvm_options: Sequence[str] | None = None,
    ):
        super().__init__(directory, settings, heap_mb=heap_mb, jvm_options=jvm_options)
        self._zookeeper = ZooKeeper(directory)
        self.zookeeper_port = self._zookeeper.port

    @property
    def zookeeper(self) -> str:
        """The connect string of the ZooKeeper beside it."""
        return self._zookeeper.address

    def close(self) -> None:
        super().close()
        self._zookeeper.kill()

    def _prepare(self) -> None:
        if self._zookeeper.alive:
            self.end_registration()
        else:
            self.start_zookeeper()

    def start_zookeeper(self) -> None:
        """Start only ZooKeeper, for who wants to fill it before `start`.  Raises: as `start`."""
        self._zookeeper.start()

    def end_registration(self) -> None:
        """Delete what a killed broker's session keeps; until that is gone, a start is refused."""
        properties = self._properties()
        registration = f"/brokers/ids/{properties['broker.id']}"
        client = KazooClient(properties["zookeeper.connect"])
        client.start()
        try:
            if (held := client.exists(registration)) is None:
                return
            for path in ("/controller", registration):
                stat = client.exists(path)
                if stat is not None and stat.ephemeralOwner == held.ephemeralOwner:
                    with suppress(NoNodeError):  # the session has just expired
                        client.delete(path)
        finally:
            client.stop()
            client.close()

    def _properties(self) -> dict[str, str]:
        return {
            **self.fixed,
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_dir),
            "zookeeper.connect": self.zookeeper,
            **self.settings,
        }


class Kafka43(ApacheKafka):
    """Apache Kafka 4.3.1, broker and controller in one process."""

    version = "4.3.1"
    fixed: ClassVar[Mapping[str, str]] = {
        **SMALL,
        "process.roles": "broker,controller",
        "node.id": "1",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        # A killed broker stays fenced until its session ends.
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": "500",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
        jvm_options: Sequence[str] | None = None,
    ):
        super().__init__(directory, settings, heap_mb=heap_mb, jvm_options=jvm_options)
        self.controller_port = free_port()

    def _prepare(self) -> None:
        if (self.data_dir / "meta.properties").exists():
            return
        config = self.directory / "format.properties"
        config.write_text("".join(f"{k}={v}\n" for k, v in self._properties().items()))
        arguments = ["format", "--config", str(config), "--cluster-id", CLUSTER_ID]
        done = subprocess.run(
            java_command(
                self.version,
                "kafka.tools.StorageTool",
                *arguments,
                heap_mb=128,
                jvm_options=quick_broker(self.version),  # it loads much of what the broker does
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise ServerFailed(f"StorageTool: {done.stdout[-2000:]}")

    def _properties(self) -> dict[str, str]:
        controller = f"{self.host}:{self.controller_port}"
        return {
            **self.fixed,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self.data_dir),
            **self.settings,
        }


BY_VERSION: Final[dict[str, type[ApacheKafka]]] = {"3.9.2": Kafka39, "4.3.1": Kafka43}


@contextmanager
def apache_kafka(
    version: str,
    *,
    directory: Path | None = None,
    settings: Mapping[str, str] | None = None,
    heap_mb: int = 512,
    jvm_options: Sequence[str] | None = None,
) -> Iterator[ApacheKafka]:
    """A running Apache Kafka on free ports; without `directory` its files are deleted at the end.

    Raises: ServerFailed, JarsMissing.
    """
    home = directory or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
    broker = BY_VERSION[version](home, settings, heap_mb=heap_mb, jvm_options=jvm_options)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


def quick_broker(version: str) -> list[str]:
    """Options of a JVM that makes a broker of the tests start soon.  Raises: JarsMissing."""
    return quick(f"broker-{version}", classpath(version))


def java_command(
    version: str,
    main_class: str,
    *arguments: str,
    heap_mb: int,
    log_config: Path | None = None,
    jvm_options: Sequence[str] = (),
) -> list[str]:
    """The command line of a class from Kafka's jars, with a heap of `heap_mb` MB."""
    return [
        "java",
        f"-Xms{min(heap_mb, 64)}m",
        f"-Xmx{heap_mb}m",
        *jvm_options,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *([f"-Dlog4j.configuration=file:{log_config}"] if log_config else []),
        "-cp",
        classpath(version),
        main_class,
        *arguments,
    ]


def main() -> None:
    """Run one broker in the foreground."""
    version = sys.argv[1] if len(sys.argv) > 1 else "4.3.1"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # through the `with`, which ends the JVMs
    with apache_kafka(version) as broker:
        print(f"Apache Kafka {version} at {broker.bootstrap_servers}, pid {broker.pid}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
