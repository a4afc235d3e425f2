"""The same requests of a fake controller get the same answers from Kafka and from us.

`make test` sends them to us and compares with what Kafka has answered; `make soak` asks Kafka too.
`python -m tests.wire.test_control_fences` records Kafka's answers anew.
"""

import asyncio
import json
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from odradek.broker.core.partition_state import TopicPartition
from tests.broker.running import running
from tests.kafka.apache import HOST, START_TIMEOUT_S, Kafka39
from tests.support.connections import RawConnection
from tests.support.frames import answer_in, request_bytes, response_class

from .fences import OURS, Script, told
from .message_json import VECTORS

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


def answers_of_kafka() -> list[list[Any]]:
    """Each step's name, and what Kafka answers."""
    home = Path(tempfile.mkdtemp(prefix="control-fences-"))
    broker = ControlledKafka(home, SETTINGS, heap_mb=256)
    try:
        broker.start()
        script, answers = Script(broker.broker_epoch), []
        with RawConnection(HOST, broker.port) as connection:
            for step in script.steps():
                connection.send_frame(request_bytes(step.request, step.version, 1))
                response = answer_in(
                    connection.read_frame(), response_class(type(step.request)), step.version
                )
                answers.append([step.name, told(response, script.names())])
        return answers
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


def answers_of_ours(directory: Path) -> list[list[Any]]:
    """Each step's name, and what we answer."""

    async def main() -> list[list[Any]]:
        settings = {"auto.create.topics.enable": "false", "controlled.shutdown.enable": "false"}
        async with running(directory, settings) as broker:
            broker.node.replicator = NoReplicator()  # type: ignore[assignment]
            broker.node.broker_epoch = 50
            script, answers = Script(broker.node.broker_epoch), []
            client = await broker.client()
            for step in script.steps():
                response = await client.ask(step.request, step.version)
                answers.append([step.name, told(response, script.names())])
            return answers

    return asyncio.run(main())


def written(answers: list[list[Any]]) -> str:
    """As the vector has them: a line for each step."""
    return "[\n" + ",\n".join(json.dumps(answer, sort_keys=True) for answer in answers) + "\n]\n"


def test_the_same_answers_as_kafka(tmp_path: Path) -> None:
    expected = json.loads(VECTOR.read_text())
    found = json.loads(written(answers_of_ours(tmp_path)))
    assert [name for name, _ in found] == [name for name, _ in expected]
    different = [(a[0], a[1], b[1]) for a, b in zip(found, expected, strict=True) if a != b]
    assert not different, "name, our answer, Kafka's"


@pytest.mark.java
@pytest.mark.soak
def test_kafka_still_answers_so() -> None:
    assert written(answers_of_kafka()) == VECTOR.read_text()


if __name__ == "__main__":
    VECTOR.write_text(written(answers_of_kafka()))
