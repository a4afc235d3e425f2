"""The same conversations with Apache Kafka 3.9.2 and with Odradek, compared field by field.

What may differ stands in `allowed.py`, with the reason; docs/differences.md says it to users.
A rule that no longer allows anything fails too.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.kafka.apache import Kafka39
from tests.wire import (
    conversations_admin,
    conversations_brokers,
    conversations_configs,
    conversations_dead_brokers,
    conversations_files,
    conversations_others,
    conversations_produce,
    conversations_quotas,
    conversations_read,
    conversations_records,
    conversations_retention,
    conversations_topics,
)
from tests.wire.allowed import ALLOWED
from tests.wire.servers import OdradekServer
from tests.wire.talk import Talk, differences

SETTINGS: Final = {
    "log.retention.ms": "-1",  # most records here are years old
    "log.message.downconversion.enable": "false",
    "log.segment.delete.delay.ms": "1000",
}
Conversation = Callable[[Talk], None]
CONVERSATIONS: Final[tuple[Conversation, ...]] = (
    *conversations_produce.CONVERSATIONS,
    *conversations_read.CONVERSATIONS,
    *conversations_others.CONVERSATIONS,
    *conversations_topics.CONVERSATIONS,
    *conversations_admin.CONVERSATIONS,
    *conversations_configs.CONVERSATIONS,
    *conversations_brokers.CONVERSATIONS,
    *conversations_records.CONVERSATIONS,
    *conversations_quotas.CONVERSATIONS,
    *conversations_retention.CONVERSATIONS,
    *conversations_dead_brokers.CONVERSATIONS,  # last
)

pytestmark = pytest.mark.java


class Pair(NamedTuple):
    """The two brokers."""

    ours: OdradekServer
    kafka: Kafka39


@pytest.fixture(scope="module")
def pair(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Brokers for all conversations that let them live."""
    if target != "odradek":
        pytest.skip("starts both brokers itself")
    yield from _started(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def mortal_pair(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Brokers that may be stopped and killed."""
    if target != "odradek":
        pytest.skip("starts both brokers itself")
    yield from _started(tmp_path_factory.mktemp("mortal"))


def _started(directory: Path) -> Iterator[Pair]:
    brokers = Pair(
        OdradekServer(directory / "odradek", SETTINGS), Kafka39(directory / "kafka", SETTINGS)
    )
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            broker.close()


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda c: c.__name__)
def test_answers_are_kafkas(conversation: Conversation, pair: Pair) -> None:
    _compare(conversation, pair)


@pytest.mark.parametrize(
    "conversation", conversations_files.CONVERSATIONS, ids=lambda c: c.__name__
)
def test_files_are_kafkas(conversation: Conversation, mortal_pair: Pair) -> None:
    for broker in mortal_pair:
        if not broker.alive:
            broker.start()
    _compare(conversation, mortal_pair)


def _compare(conversation: Conversation, pair: Pair) -> None:
    talks = [Talk(broker, conversation.__name__) for broker in pair]
    for talk in talks:
        try:
            conversation(talk)
        finally:
            talk.close()
    ours, kafka = (talk.answers for talk in talks)
    assert list(ours) == list(kafka), "the conversations took different turns"
    rules = [rule for rule in ALLOWED if rule.conversation in (None, conversation.__name__)]
    used = set()
    unexpected = []
    for label, answer in ours.items():
        for difference in differences(answer, kafka[label]):
            line = f"{label}: {difference}"
            matching = [rule for rule in rules if re.search(rule.pattern, line)]
            used.update(matching)
            if not matching:
                unexpected.append(line)
    assert not unexpected, "\n".join(unexpected)
    unused = [rule.pattern for rule in rules if rule.conversation and rule not in used]
    assert not unused, f"nothing differs so any more: {unused}"
