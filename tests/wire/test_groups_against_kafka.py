"""The same conversations about groups with Apache Kafka and with Odradek, compared.

Classic groups are compared with Kafka 3.9.2, consumer groups (KIP-848) with 4.3.1. With
`--target kafka-3.9` or `kafka-4.3` two Kafkas are compared, which shows that what is compared is
the same every time. What may differ stands in `allowed_groups.py`, with the reason.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.wire import (
    conversations_consumer_groups,
    conversations_consumer_groups_mixed,
    conversations_consumer_groups_topics,
    conversations_groups,
    conversations_groups_rebalance,
    conversations_groups_restart,
    conversations_groups_seen,
    conversations_groups_static,
    conversations_offsets,
)
from tests.wire.allowed_groups import ALLOWED
from tests.wire.group_talk import GroupTalk, wait_until_groups_are_served
from tests.wire.servers import OdradekServer, Server, make_server
from tests.wire.talk import Plain, differences

Conversation = Callable[[GroupTalk], None]

CLASSIC_SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "4",
}
CONSUMER_SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.max.size": "4",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.assignment.interval.ms": "0",
}
# Assignments in the coordinator's thread, so that answers do not depend on time.
KAFKA_43_ONLY: Final = {
    "group.consumer.assignor.offload.enable": "false",
}
CLASSIC: Final[tuple[Conversation, ...]] = (
    *conversations_groups.CONVERSATIONS,
    *conversations_groups_rebalance.CONVERSATIONS,
    *conversations_groups_static.CONVERSATIONS,
    *conversations_groups_seen.CONVERSATIONS,
    *conversations_offsets.CONVERSATIONS,
    *conversations_groups_restart.CONVERSATIONS,
)
CONSUMER: Final[tuple[Conversation, ...]] = (
    *conversations_consumer_groups.CONVERSATIONS,
    *conversations_consumer_groups_topics.CONVERSATIONS,
    *conversations_consumer_groups_mixed.CONVERSATIONS,
)

pytestmark = pytest.mark.java


class Pair(NamedTuple):
    """The two brokers."""

    ours: Server
    kafka: Server


def _started(
    target: str, kafka: str, directory: Path, settings: Mapping[str, str], more: Mapping[str, str]
) -> Iterator[Pair]:
    if target not in ("odradek", kafka):
        pytest.skip(f"is about {kafka}")
    own = settings if target == "odradek" else {**settings, **more}
    brokers = Pair(
        make_server(target, directory / "ours", own),
        make_server(kafka, directory / "kafka", {**settings, **more}),
    )
    try:
        for broker in brokers:
            broker.start()
            wait_until_groups_are_served(broker)
        yield brokers
    finally:
        for broker in brokers:
            broker.close()


@pytest.fixture(scope="module")
def classic_pair(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Beside Kafka 3.9.2."""
    directory = tmp_path_factory.mktemp("classic")
    yield from _started(target, "kafka-3.9", directory, CLASSIC_SETTINGS, {})


@pytest.fixture(scope="module")
def consumer_pair(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Beside Kafka 4.3.1."""
    directory = tmp_path_factory.mktemp("consumer")
    yield from _started(target, "kafka-4.3", directory, CONSUMER_SETTINGS, KAFKA_43_ONLY)


@pytest.mark.parametrize("conversation", CLASSIC, ids=lambda c: c.__name__)
def test_classic_groups_are_kafkas(conversation: Conversation, classic_pair: Pair) -> None:
    _compare(conversation, classic_pair)


@pytest.mark.parametrize("conversation", CONSUMER, ids=lambda c: c.__name__)
def test_consumer_groups_are_kafkas(conversation: Conversation, consumer_pair: Pair) -> None:
    _compare(conversation, consumer_pair)


@pytest.fixture(scope="module")
def separate_pair(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Beside Kafka 4.3.1, groups not allowed to change their protocol while they live."""
    directory = tmp_path_factory.mktemp("separate")
    settings = {**CONSUMER_SETTINGS, "group.consumer.migration.policy": "disabled"}
    yield from _started(target, "kafka-4.3", directory, settings, KAFKA_43_ONLY)


def test_protocols_apart_are_kafkas(separate_pair: Pair) -> None:
    _compare(conversations_consumer_groups_mixed.migration_disabled, separate_pair)


def _hold(conversation: Conversation, broker: Server) -> dict[str, Plain]:
    talk = GroupTalk(broker, conversation.__name__)
    try:
        conversation(talk)
    finally:
        talk.close()
    return talk.answers


def _lines(ours: dict[str, Plain], kafka: dict[str, Plain]) -> Iterator[str]:
    for label in dict.fromkeys([*ours, *kafka]):
        if label in ours and label in kafka:
            for difference in differences(ours[label], kafka[label]):
                yield f"{label}: {difference}"
        else:
            whose, answer = ("theirs", kafka[label]) if label in kafka else ("ours", ours[label])
            yield f"{label}: only in {whose}: {answer!r}"


def _compare(conversation: Conversation, pair: Pair) -> None:
    with ThreadPoolExecutor(len(pair)) as threads:
        held = [threads.submit(_hold, conversation, broker) for broker in pair]
    ours, kafka = (answers.result() for answers in held)
    rules = [rule for rule in ALLOWED if rule.conversation in (None, conversation.__name__)]
    used = set()
    unexpected = []
    for line in _lines(ours, kafka):
        matching = [rule for rule in rules if re.search(rule.pattern, line)]
        used.update(matching)
        if not matching:
            unexpected.append(line)
    assert not unexpected, "\n".join(unexpected)
    unused = [rule.pattern for rule in rules if rule.conversation and rule not in used]
    if isinstance(pair.ours, OdradekServer):
        assert not unused, f"nothing differs so any more: {unused}"
