"""The same requests of a fake controller get the same answers from Kafka and from us.

What Kafka answered is recorded, as that of conversations is (`comparing.py`).
"""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from odradek.broker.core.partition_state import TopicPartition
from tests.broker.running import running
from tests.kafka.apache import HOST, START_TIMEOUT_S, Kafka39
from tests.support.connections import RawConnection
from tests.support.frames import answer_in, request_bytes, response_class

from .comparing import SIDES, Kafka, lines_of, mode_of, need_kafka, report_stale, same
from .fences import OURS, Script, told
from .fingerprint import fingerprint
from .message_json import VECTORS
from .recording import Answers, Recording, as_recorded

VECTOR: Final = VECTORS / "control_fences.json"
SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "replica.fetch.backoff.ms": "60000",  # nobody is there to be fetched from
}
FAKE_CONTROLLER: Final = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'


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


def answers_of_kafka() -> Answers:
    """What Kafka answers to each step, by its name."""
    home = Path(tempfile.mkdtemp(prefix="control-fences-"))
    broker = ControlledKafka(home, SETTINGS, heap_mb=256)
    try:
        broker.start()
        script, answers = Script(broker.broker_epoch), Answers()
        with RawConnection(HOST, broker.port) as connection:
            for step in script.steps():
                connection.send_frame(request_bytes(step.request, step.version, 1))
                response = answer_in(
                    connection.read_frame(), response_class(type(step.request)), step.version
                )
                answers[step.name] = told(response, script.names())
        return as_recorded(answers)
    finally:
        broker.close()
        shutil.rmtree(home, ignore_errors=True)


class NoReplicator:
    """There is nobody to replicate from."""

    def roles_changed(self, keys: Sequence[TopicPartition]) -> None:
        """Nothing."""

    def stopped(self, keys: Sequence[TopicPartition]) -> None:
        """Nothing."""

    def brokers_changed(self) -> None:
        """Nothing."""


def answers_of_ours(directory: Path) -> Answers:
    """What we answer to each step, by its name."""

    async def main() -> Answers:
        settings = {"auto.create.topics.enable": "false", "controlled.shutdown.enable": "false"}
        async with running(directory, settings) as broker:
            broker.node.replicator = NoReplicator()  # type: ignore[assignment]
            broker.node.broker_epoch = 50
            script, answers = Script(broker.node.broker_epoch), Answers()
            client = await broker.peer()
            for step in script.steps():
                response = await client.ask(step.request, step.version)
                answers[step.name] = told(response, script.names())
            return as_recorded(answers)

    return asyncio.run(main())


@pytest.fixture(params=SIDES)
def mode(request: pytest.FixtureRequest) -> Kafka:
    """How Kafka's answers are got."""
    return mode_of(request)


def test_the_same_answers_as_kafka(
    mode: Kafka, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    now = fingerprint(answers_of_kafka, Kafka39.fixed, Kafka39.version)
    recording = Recording.read(VECTOR, now)
    if recording is None and mode is not Kafka.RECORDING:
        report_stale(mode, request)
    if recording is not None and mode is Kafka.RECORDED:
        kafka = recording.answers
    else:
        need_kafka(Kafka39.version)
        kafka = answers_of_kafka()
    same("we differ from Kafka", list(lines_of(answers_of_ours(tmp_path), kafka)))
    if mode is Kafka.RECORDING:
        Recording(now, kafka, []).write(VECTOR)
    elif recording is not None:
        same("Kafka no longer answers as recorded", list(lines_of(kafka, recording.answers)))
