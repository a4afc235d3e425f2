"""A script of requests gets the same answers from a Kafka with a fake controller and from us.

What Kafka answered is recorded, as that of conversations is (`comparing.py`).
"""

import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import pytest
from kazoo.client import KazooClient

from tests.kafka.apache import HOST, START_TIMEOUT_S, Kafka39
from tests.support.client import Client
from tests.support.connections import RawConnection
from tests.support.frames import answer_in, request_bytes, response_class

from .comparing import Kafka, lines_of, need_kafka, report_stale, same
from .fences import OURS, Step, told
from .fingerprint import fingerprint
from .recording import Answers, Recording, as_recorded

FAKE_CONTROLLER: Final = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'


class Requests(Protocol):
    """What is asked, and how answers are told."""

    def steps(self) -> Iterator[Step]:
        """In order."""

    def names(self) -> Mapping[bytes, str]:
        """The topics by their ids."""


class ControlledKafka(Kafka39):
    """A broker that finds a controller in ZooKeeper, which is the test."""

    def start(self) -> None:
        """Start and return when it is registered and accepts connections."""
        self.start_zookeeper()
        self.session = KazooClient(self.zookeeper)
        self.session.start()
        self.session.create("/controller", FAKE_CONTROLLER, ephemeral=True)
        self.session.create("/controller_epoch", b"1000")
        text = "".join(f"{name}={value}\n" for name, value in self._properties().items())
        (self.directory / "server.properties").write_text(text)
        self._process.start(self._is_registered, timeout_s=START_TIMEOUT_S)

    def close(self) -> None:
        self.session.stop()
        self.session.close()
        super().close()

    def _is_registered(self) -> bool:
        if self.session.exists(f"/brokers/ids/{OURS}") is None:
            return False
        try:
            socket.create_connection((self.host, self.port), timeout=5).close()
        except OSError:
            return False
        return True

    @property
    def broker_epoch(self) -> int:
        stat = self.session.exists(f"/brokers/ids/{OURS}")
        epoch: int = stat.czxid
        return epoch


def answers_of_kafka(
    settings: Mapping[str, str], requests_of: Callable[[int], Requests]
) -> Answers:
    """What Kafka answers to each step, by its name; the requests are those of its broker epoch."""
    home = Path(tempfile.mkdtemp(prefix="controlled-kafka-"))
    broker = ControlledKafka(home, settings, heap_mb=256)
    try:
        broker.start()
        requests, answers = requests_of(broker.broker_epoch), Answers()
        with RawConnection(HOST, broker.port) as connection:
            for step in requests.steps():
                connection.send_frame(request_bytes(step.request, step.version, 1))
                response = answer_in(
                    connection.read_frame(), response_class(type(step.request)), step.version
                )
                answers[step.name] = told(response, requests.names())
        return as_recorded(answers)
    finally:
        broker.close()
        shutil.rmtree(home, ignore_errors=True)


async def answers_to(client: Client, requests: Requests) -> Answers:
    """What our broker answers to each step, by its name."""
    answers = Answers()
    for step in requests.steps():
        response = await client.ask(step.request, step.version)
        answers[step.name] = told(response, requests.names())
    return as_recorded(answers)


def compare_with_kafka(
    ours: Callable[[], Answers],
    kafka: Callable[[], Answers],
    vector: Path,
    mode: Kafka,
    request: pytest.FixtureRequest,
) -> None:
    """Fail over each difference; `kafka` is asked if the mode or the recording's hash says so."""
    now = fingerprint(kafka, Kafka39.fixed, Kafka39.version)
    recording = Recording.read(vector, now)
    if recording is None and mode is not Kafka.RECORDING:
        report_stale(mode, request)
    if recording is not None and mode is Kafka.RECORDED:
        theirs = recording.answers
    else:
        need_kafka(Kafka39.version)
        theirs = kafka()
    same("we differ from Kafka", list(lines_of(ours(), theirs)))
    if mode is Kafka.RECORDING:
        Recording(now, theirs, []).write(vector)
    elif recording is not None:
        same("Kafka no longer answers as recorded", list(lines_of(theirs, recording.answers)))
