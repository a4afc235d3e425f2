"""Asking brokers for their replicas' log end offsets, for partitions without a leader."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k20002_describe_log_ends import (
    DescribeLogEndsRequest,
    DescribeLogEndsResponse,
    LogEndsTopic,
)

from ..core.controller.context import LiveBroker
from ..core.controller.last_replicas import LogEnd, LogEnds
from ..core.partition_state import TopicPartition
from ..peers.peer import PeerFailed
from .channels import Links

logger = logging.getLogger(__name__)

PARTITIONS_MAX: Final = 500
TIMEOUT_S: Final = 5.0
VERSION: Final = 0


async def ask_log_ends(
    links: Links,
    brokers: Mapping[int, LiveBroker],
    wanted: Mapping[TopicPartition, Sequence[int]],
) -> LogEnds:
    """Ask the brokers for the log ends of these replicas; those not answered in time are missing.

    Apache Kafka's brokers do not know this request.
    """
    asked: dict[LiveBroker, list[TopicPartition]] = {}
    for key, replicas in wanted.items():
        for broker_id in replicas:
            if broker_id in brokers:
                asked.setdefault(brokers[broker_id], []).append(key)
    told = await asyncio.gather(*(_ask(links, broker, keys) for broker, keys in asked.items()))
    ends: dict[TopicPartition, dict[int, LogEnd]] = {}
    for broker, its in zip(asked, told, strict=True):
        for key, end in its.items():
            ends.setdefault(key, {})[broker.broker_id] = end
    return ends


async def _ask(
    links: Links, broker: LiveBroker, keys: Sequence[TopicPartition]
) -> dict[TopicPartition, LogEnd]:
    link = links(broker)
    ends: dict[TopicPartition, LogEnd] = {}
    try:
        async with asyncio.timeout(TIMEOUT_S):
            for start in range(0, len(keys), PARTITIONS_MAX):
                answer = await link.ask(_request(keys[start : start + PARTITIONS_MAX]), VERSION)
                assert isinstance(answer, DescribeLogEndsResponse)
                ends |= _ends(answer, broker.epoch)
    except (PeerFailed, TimeoutError) as error:
        reason = str(error) or "did not answer in time"
        logger.warning("log ends not received broker=%d error=%s", broker.broker_id, reason)
    finally:
        link.close()
    return ends


def _request(keys: Iterable[TopicPartition]) -> DescribeLogEndsRequest:
    topics: dict[str, LogEndsTopic] = {}
    for name, index in keys:
        topics.setdefault(name, LogEndsTopic(name=name)).partition_indexes.append(index)
    return DescribeLogEndsRequest(topics=list(topics.values()))


def _ends(answer: DescribeLogEndsResponse, epoch: int) -> dict[TopicPartition, LogEnd]:
    return {
        (topic.name, told.partition_index): LogEnd(
            told.last_epoch, told.log_end_offset, epoch, told.is_suspect
        )
        for topic in answer.topics
        for told in topic.partitions
        if told.error_code == ErrorCode.NONE
    }
