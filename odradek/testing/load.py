"""Fills a broker with topics and records, without any Kafka client installed.

A file is JSON:

    {"topics": {"orders": {"partitions": 2, "records": [{"key": "a", "value": "1"}]}}}

A record may have `partition` (0 by default), `timestamp` (in milliseconds), `headers`; key, value
and headers are text, and a key or value may be null.
"""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.records import Record, build_batch

from . import isr
from .connection import Connection
from .errors import BrokerFailed, hides
from .marker import Refused

if TYPE_CHECKING:
    from .broker import Broker

__tracebackhide__ = hides
TIMEOUT_S: Final = 10.0
CREATE_VERSION: Final = 7
PRODUCE_VERSION: Final = 9
ALL_IN_SYNC: Final = -1
BY_DEFAULT: Final = -1
_TOPIC_FIELDS: Final = {"partitions", "records"}
_RECORD_FIELDS: Final = {"key", "value", "partition", "timestamp", "headers"}


def create_topics(broker: "Broker", topics: Iterable[tuple[str, int]]) -> None:
    """Create topics of so many partitions.  Raises: BrokerFailed."""
    wanted = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=BY_DEFAULT)
        for name, count in topics
    ]
    if not wanted:
        return
    address = isr.controller(broker._live_addresses(), broker._access, timeout_s=TIMEOUT_S)
    request = CreateTopicsRequest(topics=wanted, timeout_ms=int(TIMEOUT_S * 1000))
    with Connection(address, broker._access, timeout_s=TIMEOUT_S) as connection:
        answer = connection.ask(request, CREATE_VERSION, CreateTopicsResponse)
    for topic in answer.topics:
        if topic.error_code:
            reason = topic.error_message or ErrorCode(topic.error_code).name
            raise BrokerFailed(f"topic {topic.name} can't be created: {reason}")


def load_file(broker: "Broker", path: Path) -> None:
    """Create the topics of a file, with their records.  Raises: Refused, BrokerFailed."""
    try:
        given = json.loads(path.read_text())
        topics = _members(given, {"topics"}).get("topics", {})
        counts = {name: _members(each, _TOPIC_FIELDS) for name, each in topics.items()}
        create_topics(broker, [(name, its.get("partitions", 1)) for name, its in counts.items()])
        for name, its in counts.items():
            for partition, records in _by_partition(its.get("records", [])).items():
                _append(broker, name, partition, records)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise Refused(f"odradek_load: {path}: {error}") from error


def _members(given: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{given!r} is not an object")
    if unknown := sorted(given.keys() - known):
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(sorted(known))}")
    return given


def _by_partition(records: Iterable[Any]) -> Mapping[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for given in records:
        its = _members(given, _RECORD_FIELDS)
        group = found.setdefault(int(its.get("partition", 0)), [])
        headers = [(name, _bytes(value)) for name, value in its.get("headers", {}).items()]
        stamp = int(its.get("timestamp", time.time() * 1000))
        group.append(
            Record(len(group), stamp, _bytes(its.get("key")), _bytes(its.get("value")), headers)
        )
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _append(broker: "Broker", topic: str, partition: int, records: list[Record]) -> None:
    leader = broker.leader(topic, partition)
    data = PartitionProduceData(index=partition, records=build_batch(records))
    request = ProduceRequest(
        acks=ALL_IN_SYNC,
        timeout_ms=int(TIMEOUT_S * 1000),
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    with Connection(broker.address(leader), broker._access, timeout_s=TIMEOUT_S) as connection:
        answer = connection.ask(request, PRODUCE_VERSION, ProduceResponse)
    result = answer.responses[0].partition_responses[0]
    if result.error_code:
        reason = result.error_message or ErrorCode(result.error_code).name
        raise BrokerFailed(f"{topic}-{partition} can't be filled: {reason}")
