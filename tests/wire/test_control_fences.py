"""The same requests of a fake controller get the same answers from Kafka and from us."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.core.partition_state import TopicPartition
from tests.broker.running import running

from .comparing import Kafka
from .controlled import answers_of_kafka, answers_to, compare_with_kafka
from .fences import Script
from .message_json import VECTORS
from .recording import Answers

VECTOR: Final = VECTORS / "control_fences.json"
SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "replica.fetch.backoff.ms": "60000",  # nobody is there to be fetched from
}


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
            broker.node.control._replicator = NoReplicator()  # type: ignore[assignment]
            broker.node.local.broker_epoch = 50
            return await answers_to(await broker.peer(), Script(broker.node.local.broker_epoch))

    return asyncio.run(main())


def test_the_same_answers_as_kafka(
    mode: Kafka, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ours, kafka = partial(answers_of_ours, tmp_path), partial(answers_of_kafka, SETTINGS, Script)
    compare_with_kafka(ours, kafka, VECTOR, mode, request)
