"""The same conversations with Apache Kafka 3.9.2 and with Odradek, compared field by field.

What may differ stands in `allowed.py`, with the reason; docs/differences.md says it to users.
A rule that no longer allows anything fails too, and so does a difference that is not as recorded.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.wire import (
    conversations_admin,
    conversations_brokers,
    conversations_compression,
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
from tests.wire.comparing import NAME, SIDES, Pair, Suite, compare, started_pair
from tests.wire.talk import Talk

SETTINGS: Final = {
    "log.retention.ms": "-1",  # most records here are years old
    "log.message.downconversion.enable": "false",
    "log.segment.delete.delay.ms": "1000",
}
Conversation = Callable[[Talk], None]
CONVERSATIONS: Final[tuple[Conversation, ...]] = (
    *conversations_produce.CONVERSATIONS,
    *conversations_compression.CONVERSATIONS,
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

ANSWERS: Final = Suite("answers", "kafka-3.9", Talk, SETTINGS, ALLOWED)
FILES: Final = Suite("files", "kafka-3.9", Talk, SETTINGS, ALLOWED)
LOG_STARTS: Final = Suite("log_starts", "kafka-3.9", Talk, conversations_retention.OFTEN, ALLOWED)
HELD: Final = (
    (ANSWERS, CONVERSATIONS),
    (FILES, conversations_files.CONVERSATIONS),
    (LOG_STARTS, conversations_retention.LOG_STARTS),
)


@pytest.fixture(scope="module", params=SIDES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers for all conversations that let them live."""
    yield from started_pair(ANSWERS, request)


@pytest.fixture(scope="module", params=SIDES)
def mortal_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers that may be stopped and killed."""
    yield from started_pair(FILES, request)


@pytest.fixture(params=SIDES)
def busy_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers that look for old segments all the time."""
    yield from started_pair(LOG_STARTS, request)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=NAME)
def test_answers_are_kafkas(
    conversation: Conversation, pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, pair, request)


@pytest.mark.parametrize("conversation", conversations_files.CONVERSATIONS, ids=NAME)
def test_files_are_kafkas(
    conversation: Conversation, mortal_pair: Pair, request: pytest.FixtureRequest
) -> None:
    mortal_pair.revive()
    compare(conversation, mortal_pair, request)


@pytest.mark.parametrize("conversation", conversations_retention.LOG_STARTS, ids=NAME)
def test_the_same_segments_go_as_in_kafka(
    conversation: Conversation, busy_pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, busy_pair, request)
