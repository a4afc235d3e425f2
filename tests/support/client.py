"""A client that speaks only `odradek.protocol`, with short ways to ask for what is asked often."""

import asyncio
from typing import Any

from odradek.protocol.messages.k00_produce import (
    PartitionProduceResponse,
    ProduceResponse,
)
from odradek.protocol.messages.k01_fetch import (
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from .connections import TIMEOUT_S, AsyncConnection
from .messages import creatable, fetch_request, produce_request


class Client(AsyncConnection):
    """A connection of one that makes topics, writes and reads."""

    async def create_topic(
        self, name: str, partitions: int = 1, *, configs: dict[str, str] | None = None
    ) -> CreatableTopicResult:
        """Create a topic; it must succeed, once one of that name is deleted."""
        topic = creatable(name, partitions, configs=configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_S * 1000)
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                answer: CreateTopicsResponse = await self.ask(request, 7)
                if "is being deleted" not in (answer.topics[0].error_message or ""):
                    break
                await asyncio.sleep(0.005)
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        return answer.topics[0]

    async def produce(
        self,
        topic: str,
        batch: bytes | bytearray | None,
        *,
        partition: int = 0,
        version: int = 11,
        acks: int = -1,
    ) -> PartitionProduceResponse:
        """Produce one batch; return the partition's result."""
        request = produce_request(topic, {partition: batch}, acks=acks)
        answer: ProduceResponse = await self.ask(request, version)
        return answer.responses[0].partition_responses[0]

    async def append(
        self, topic: str, batch: bytes | bytearray, *, partition: int = 0, acks: int = -1
    ) -> int:
        """Produce one batch, which must succeed; return its base offset."""
        result = await self.produce(topic, batch, partition=partition, acks=acks)
        assert result.error_code == 0, result.error_message
        return result.base_offset

    async def fetch(
        self, topic: str, offset: int = 0, *, partition: int = 0, version: int = 12, **more: Any
    ) -> PartitionData:
        """Fetch from one partition; return the partition's result."""
        request = fetch_request(topic, offset, partition=partition, **more)
        answer: FetchResponse = await self.ask(request, version)
        assert answer.error_code == 0
        return answer.responses[0].partitions[0]
