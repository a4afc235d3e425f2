"""The two brokers under measurement, started alike: fresh directory, own process, one line awaited.

Apache Kafka runs with the flags of its own start script (1 GB heap, G1); its storage is formatted
before the clock starts.  Both log warnings only and keep their files below the given directory.
"""

import collections
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.kafka.apache import Kafka43, java_command
from tests.kafka.process import free_port

from .certificates import Certificates
from .connection import Address

START_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 60.0
KAFKA_HEAP_MB: Final = 1024
KAFKA_FLAGS: Final = (
    "-server",
    f"-Xms{KAFKA_HEAP_MB}m",
    f"-Xmx{KAFKA_HEAP_MB}m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
)
KAFKA_READY: Final = re.compile(rb"Kafka Server started")
ODRADEK_READY: Final = re.compile(rb"odradek ready: PLAINTEXT://(\S+:\d+) ")


class Kind(StrEnum):
    """Who is measured."""

    KAFKA = "kafka"
    ODRADEK = "odradek"
    FLOOR = "floor"


class StartFailed(Exception):
    """A broker printed no ready line; the message ends with what it printed instead."""


class RunningBroker:
    """One broker process, ready to serve."""

    def __init__(
        self,
        kind: Kind,
        address: Address,
        process: subprocess.Popen[bytes],
        ready_s: float,
        data_dir: Path,
        tls_address: Address | None = None,
    ) -> None:
        assert process.stdout is not None
        self.data_dir = data_dir
        self.kind = kind
        self.address = address
        self.tls_address = tls_address
        self.process = process
        self.ready_s = ready_s
        # What it prints later must not fill the pipe and stop it.
        self._drain = threading.Thread(target=collections.deque, args=(process.stdout, 0))
        self._drain.start()

    def memory_bytes(self) -> int:
        """VmRSS of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def cpu_s(self) -> float:
        """The processor time of the process so far."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not end it in time."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._drain.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class BenchKafka(Kafka43):
    """Apache Kafka's directory and configuration, without starting it."""

    def prepare(self) -> list[str]:
        """Write the configuration, format the storage; return the command that starts it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._prepare()
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._properties().items()))
        java, *rest = java_command(
            self.version, "kafka.Kafka", str(properties), heap_mb=KAFKA_HEAP_MB
        )
        own_flags = [word for word in rest if not word.startswith(("-Xm", "-Dorg.slf4j"))]
        return [java, *KAFKA_FLAGS, *own_flags]


def start_kafka(
    directory: Path,
    *,
    env: dict[str, str] | None = None,
    certificates: Certificates | None = None,
) -> RunningBroker:
    """Apache Kafka 4.3.1 in KRaft mode; with certificates, it also listens for TLS.

    Raises: StartFailed.
    """
    kafka = BenchKafka(directory)
    address, tls_address = Address(kafka.host, kafka.port), None
    if certificates is not None:
        tls_address = Address(kafka.host, free_port())
        protocols = kafka.fixed["listener.security.protocol.map"]
        for_clients = f"PLAINTEXT://{address},SSL://{tls_address}"
        kafka.settings = {
            "listeners": f"{for_clients},CONTROLLER://{kafka.host}:{kafka.controller_port}",
            "advertised.listeners": for_clients,
            "listener.security.protocol.map": f"{protocols},SSL:SSL",
            **certificates.broker_settings(),
        }
    process, _, ready_s = _launch(kafka.prepare(), KAFKA_READY, directory, env)
    return RunningBroker(Kind.KAFKA, address, process, ready_s, directory / "data", tls_address)


def start_odradek(
    directory: Path,
    *,
    env: dict[str, str] | None = None,
    certificates: Certificates | None = None,
) -> RunningBroker:
    """Odradek as `odradek serve` starts it; with certificates, it also listens for TLS.

    Raises: StartFailed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    data_dir = directory / "data"
    command = [sys.executable, "-m", "odradek", "serve", "--data-dir", str(data_dir)]
    tls_address = None
    if certificates is None:
        command += ["--listen", "127.0.0.1:0"]
    else:
        tls_address = Address("127.0.0.1", free_port())
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:0,SSL://{tls_address}",
            **certificates.broker_settings(),
        }
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
    process, ready, ready_s = _launch(command, ODRADEK_READY, directory, env)
    address = Address.parse(ready[1].decode())
    return RunningBroker(Kind.ODRADEK, address, process, ready_s, data_dir, tls_address)


def start(kind: Kind, directory: Path, certificates: Certificates | None = None) -> RunningBroker:
    """The broker of this kind, its files below the directory.  Raises: StartFailed."""
    starting = start_kafka if kind is Kind.KAFKA else start_odradek
    return starting(directory, certificates=certificates)


@contextmanager
def running(kind: Kind, directory: Path) -> Iterator[RunningBroker]:
    """A broker that is stopped and whose files are removed at the end.  Raises: StartFailed."""
    broker = start(kind, directory)
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _launch(
    command: list[str], ready: re.Pattern[bytes], directory: Path, env: dict[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], re.Match[bytes], float]:
    """Start it; return once it printed the ready line, with the seconds from exec to the line."""
    with (directory / "stderr.txt").open("ab") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=env
        )
    assert process.stdout is not None
    printed = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.perf_counter() < began + START_TIMEOUT_S:
            if not selector.select(timeout=1.0):
                continue
            chunk = process.stdout.read1(65536)  # type: ignore[attr-defined]
            printed += chunk
            if found := ready.search(printed):
                return process, found, time.perf_counter() - began
            if not chunk:
                break
    process.kill()
    process.wait()
    complaint = (directory / "stderr.txt").read_text(errors="replace")
    tail = "\n".join((printed.decode(errors="replace") + complaint).splitlines()[-15:])
    raise StartFailed(f"{command[0]} printed no ready line\n{tail}")
