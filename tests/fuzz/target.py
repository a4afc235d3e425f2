"""The broker that is attacked, in a process of its own, and a client that wants nothing bad."""

import json
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import psutil

from odradek.broker.settings.sasl import SIGNED_HANDLER
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.kafka.process import ServerProcess, free_port
from tests.support.certificates import Certificates
from tests.support.connections import RawConnection
from tests.support.messages import (
    batch_of,
    creatable,
    fetch_request,
    produce_request,
    records_in,
)
from tests.support.secrets import plant
from tests.support.tokens import jwk, jwks
from tests.support.waiting import until

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 60.0
SETTINGS: Final = {
    "num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
}
"""So that random requests are served rather than refused."""
OF_ODRADEK: Final = {
    **SETTINGS,
    "odradek.topic.partitions.max": "50",
    "odradek.transaction.version": "2",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
}
PASSWORD: Final = plant(secrets.token_hex())
"""Of alice, the only user."""
OF_SASL: Final = {
    "plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    ),
    "oauthbearer.sasl.server.callback.handler.class": SIGNED_HANDLER,
}
"""Of each listener with SASL."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Its listeners have their names."""
BUGS: Final = re.compile(r"Traceback|was never (retrieved|awaited)|was destroyed|BrokerBug")
DATA: Final = "data"
KEYS: Final = "keys.json"
COUNTED: Final = "counted"
OWN: Final = frozenset({DATA, "broker.out", COUNTED, KEYS})
OURS: Final = re.compile(r"[a-zA-Z0-9._-]{1,255}").fullmatch
"""Names in a data directory: of partitions, and the broker's own files."""
NOTHING_ELSE: Final[Mapping[str, str]] = {}
TOPIC: Final = "of-the-good-client"
PAUSE_S: Final = 0.02
"""Of the good client, before it works again."""


class Target:
    """A running broker with a listener of each kind."""

    def __init__(
        self, directory: Path, certificates: Certificates, settings: Mapping[str, str]
    ) -> None:
        self.ports = {protocol: free_port() for protocol in PROTOCOLS}
        self._directory = directory
        self._counted = directory / COUNTED
        directory.mkdir(exist_ok=True)
        (directory / KEYS).write_bytes(jwks(jwk("ES256")))
        keys = f"file://{directory / KEYS}"
        settings = {
            **OF_ODRADEK,
            "ssl.keystore.location": str(certificates.broker.store),
            **settings,
            **{
                f"listener.name.{protocol.lower()}.{name}": value
                for protocol in PROTOCOLS
                if protocol.startswith("SASL")
                for name, value in OF_SASL.items()
            },
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.oauthbearer.jwks.endpoint.url": keys,
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys,
        }
        command = [sys.executable, "-m", "tests.lab.counted", str(self._counted), "serve"]
        command += ["--data-dir", str(directory / DATA)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self.process = ServerProcess(command, directory / "broker.out")

    @property
    def plain_port(self) -> int:
        """Of the listener without TLS and SASL."""
        return self.ports["PLAINTEXT"]

    @property
    def tls_port(self) -> int:
        """Of the one with TLS and without SASL."""
        return self.ports["SSL"]

    @property
    def output(self) -> str:
        """What the broker has logged."""
        return self.process.output.read_text(errors="replace")

    @property
    def bugs(self) -> list[str]:
        """Where it says that something went wrong in it, with what follows."""
        return [self.output[found.start() :][:3000] for found in BUGS.finditer(self.output)]

    @property
    def memory_bytes(self) -> int:
        """Its resident memory."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def cpu_s(self) -> float:
        """What it has computed so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(each.status == psutil.CONN_ESTABLISHED for each in found)

    @property
    def stray_files(self) -> list[Path]:
        """What no broker creates, whatever the names in requests."""
        beside = [path for path in self._directory.iterdir() if path.name not in OWN]
        within = [path for path in (self._directory / DATA).iterdir() if not OURS(path.name)]
        return beside + within

    def tasks(self) -> int:
        """How many tasks it has."""
        return int(self._asked()["tasks"])

    def longest_turn_ms(self) -> float:
        """How long its loop has computed at most before it served others, since it was asked."""
        return self._asked()["turn_ms"]

    def _asked(self) -> dict[str, float]:
        self._counted.unlink(missing_ok=True)
        self.process.popen.send_signal(signal.SIGUSR1)  # type: ignore[union-attr]
        until(self._counted.exists, "the broker counts")
        counted: dict[str, float] = json.loads(self._counted.read_text())
        return counted


@contextmanager
def attacked(
    directory: Path, certificates: Certificates, settings: Mapping[str, str] = NOTHING_ELSE
) -> Iterator[Target]:
    """Start a broker, which must stop as usual at the end and have logged no bug."""
    target = Target(directory, certificates, settings)
    try:
        target.process.start(lambda: "odradek ready" in target.output, timeout_s=START_TIMEOUT_S)
        yield target
        assert target.process.stop() == 0
        assert "broker stopped cleanly" in target.output
        assert not target.bugs, target.bugs[0]
        assert not target.stray_files
    finally:
        target.process.kill()


class GoodClient:
    """Writes and reads its own topic over one connection, and measures how long that takes."""

    def __init__(self, port: int) -> None:
        self._connection = RawConnection(HOST, port)
        self._connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next_offset = 0
        self.topic = TOPIC
        self.seconds: list[float] = []
        # Its batches have an old timestamp, and the first retention is 30 s after the start.
        topic = creatable(TOPIC, 1, configs={"retention.ms": "-1", "retention.bytes": "-1"})
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        answer: CreateTopicsResponse = self._connection.exchange(request, 7)
        assert answer.topics[0].error_code == 0, answer

    def work(self) -> None:
        """Append a record and read it back."""
        value, began_s = b"record %d" % self._next_offset, time.perf_counter()
        offset = self.write(value)
        fetch = fetch_request(TOPIC, offset)
        fetched: FetchResponse = self._connection.exchange(fetch, 12)
        found = fetched.responses[0].partitions[0]
        assert records_in(found.records) == [(offset, value)], (offset, found)
        self.seconds.append(time.perf_counter() - began_s)

    def write(self, value: bytes) -> int:
        """Append a record and return its offset."""
        produce = produce_request(TOPIC, {0: batch_of(value)})
        produced: ProduceResponse = self._connection.exchange(produce, 11)
        result = produced.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, self._next_offset)
        self._next_offset += 1
        return self._next_offset - 1

    def work_with_pauses(self, count: int) -> None:
        """Work so many times, as often as beside hostile frames."""
        for _ in range(count):
            time.sleep(PAUSE_S)
            self.work()

    def waits_ms(self) -> list[float]:
        """How long everything took that was done since the last call."""
        seconds, self.seconds = self.seconds, []
        return [each * 1000 for each in seconds]

    def p99_ms(self) -> float:
        """Of what was done since the last call."""
        waits_ms = sorted(self.waits_ms())
        return waits_ms[len(waits_ms) * 99 // 100]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.socket.close()
