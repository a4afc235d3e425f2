"""Who is no broker gets the same refusals from Kafka and from us.

Kafka refuses what brokers say to each other if it has an authorizer that allows nothing; ours where
clients have a listener of their own.
"""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

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
from tests.broker.running import HOST, running

from .comparing import Kafka
from .controlled import answers_of_kafka, answers_to, compare_with_kafka
from .fences import EPOCH, OTHER, OURS, Script, Step
from .message_json import VECTORS
from .recording import Answers

VECTOR: Final = VECTORS / "cluster_actions.json"
SETTINGS: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
OUR_SETTINGS: Final = {
    "listeners": f"CLIENTS://{HOST}:0,BROKERS://{HOST}:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
TOPIC: Final = "t"


class Refused:
    """Every request that only a broker may send, in every version."""

    def __init__(self, broker_epoch: int) -> None:
        self._script = Script(broker_epoch)

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


def answers_of_ours(directory: Path) -> Answers:
    """What we answer to each step, by its name."""

    async def main() -> Answers:
        async with running(directory, OUR_SETTINGS) as broker:
            broker.node.local.is_alone = False
            return await answers_to(await broker.client(), Refused(-1))

    return asyncio.run(main())


def test_the_same_answers_as_kafka(
    mode: Kafka, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ours, kafka = partial(answers_of_ours, tmp_path), partial(answers_of_kafka, SETTINGS, Refused)
    compare_with_kafka(ours, kafka, VECTOR, mode, request)
