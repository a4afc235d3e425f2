"""Who is no broker gets the same refusals from Kafka and from us.

Kafka refuses what brokers say to each other if it has an authorizer that allows nothing; ours where
clients have a listener of their own. `python -m tests.wire.test_cluster_actions` records Kafka's
answers anew.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from odradek.protocol.messages.k07_controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    PartitionData,
    TopicData,
)
from odradek.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.schema import Message
from tests.broker.running import running
from tests.kafka.apache import HOST
from tests.support.connections import RawConnection
from tests.support.frames import answer_in, request_bytes, response_class

from .fences import EPOCH, OTHER, OURS, Script, Step, told
from .message_json import VECTORS
from .test_control_fences import ControlledKafka, written

VECTOR: Final = VECTORS / "cluster_actions.json"
SETTINGS: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
TOPIC: Final = "t"


class Refused:
    """Every request that only a broker may send, in every version."""

    def __init__(self) -> None:
        self._script = Script(-1)

    def names(self) -> Mapping[bytes, str]:
        """The topics by their ids."""
        return self._script.names()

    def steps(self) -> Iterator[Step]:
        """In order."""
        script = self._script
        for version in range(8):
            yield _step(script.lead(TOPIC), version)
        for version in range(5):
            yield _step(script.stop(TOPIC, delete=True), version)
        for version in range(9):
            yield _step(script.update(), version)
        for version in range(4):
            yield _step(ControlledShutdownRequest(broker_id=OURS), version)
        for version in range(4):
            yield _step(self._alter(), version)
        yield _step(AllocateProducerIdsRequest(broker_id=OURS), 0)
        for version in range(4, 18):
            yield _step(self._fetch(), version)

    def _alter(self) -> AlterPartitionRequest:
        wanted = PartitionData(leader_epoch=EPOCH, partition_epoch=EPOCH)
        topic = TopicData(
            topic_name=TOPIC, topic_id=self._script.topic_id(TOPIC), partitions=[wanted]
        )
        return AlterPartitionRequest(broker_id=OURS, topics=[topic])

    def _fetch(self) -> FetchRequest:
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic_id = self._script.topic_id(TOPIC)
        return FetchRequest(
            replica_id=OTHER,
            replica_state=ReplicaState(replica_id=OTHER),
            session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[asked])],
        )


def _step(request: Message, version: int) -> Step:
    return Step(f"{type(request).__name__} v{version}", version, request)


def answers_of_kafka() -> list[list[Any]]:
    """Each step's name, and what Kafka answers."""
    home = Path(tempfile.mkdtemp(prefix="cluster-actions-"))
    broker = ControlledKafka(home, SETTINGS, heap_mb=256)
    try:
        broker.start()
        refused, answers = Refused(), []
        with RawConnection(HOST, broker.port) as connection:
            for step in refused.steps():
                connection.send_frame(request_bytes(step.request, step.version, 1))
                response = answer_in(
                    connection.read_frame(), response_class(type(step.request)), step.version
                )
                answers.append([step.name, told(response, refused.names())])
        return answers
    finally:
        broker.close()
        shutil.rmtree(home, ignore_errors=True)


def answers_of_ours(directory: Path) -> list[list[Any]]:
    """Each step's name, and what we answer."""

    async def main() -> list[list[Any]]:
        async with running(directory) as broker:
            refused, answers, client = Refused(), [], await broker.client()
            for step in refused.steps():
                response = await client.ask(step.request, step.version)
                answers.append([step.name, told(response, refused.names())])
            return answers

    return asyncio.run(main())


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
