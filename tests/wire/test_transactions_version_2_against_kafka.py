"""The same conversations about version 2 of transactions with Apache Kafka 4.3.1 and with Odradek.

What may differ stands in `allowed_transactions.py`, with the reason.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.wire.allowed_transactions import ALLOWED_OF_VERSION_2
from tests.wire.comparing import NAME, SIDES, Pair, Suite, compare, started_pair
from tests.wire.conversations_transactions_version_2 import (
    CONVERSATIONS,
    KILLED,
    Conversation,
    TalkOfVersion2,
)
from tests.wire.transaction_talk import wait_until_transactions_are_served

VERSION_2: Final = Suite(
    "transactions_version_2",
    "kafka-4.3",
    TalkOfVersion2,
    {
        "log.retention.ms": "-1",  # the records here are years old
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        "group.initial.rebalance.delay.ms": "0",
        "odradek.transaction.version": "2",  # unknown to Kafka, whose feature has this level
    },
    ALLOWED_OF_VERSION_2,
    wait_until_ready=wait_until_transactions_are_served,
)
KILLS: Final = VERSION_2._replace(name="transaction_files_version_2")
HELD: Final = ((VERSION_2, CONVERSATIONS), (KILLS, KILLED))


@pytest.fixture(scope="module", params=SIDES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers for all conversations."""
    yield from started_pair(VERSION_2, request)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=NAME)
def test_answers_are_kafkas(
    conversation: Conversation, pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, pair, request)


@pytest.fixture(scope="module", params=SIDES)
def mortal_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers that may be killed."""
    yield from started_pair(KILLS, request)


@pytest.mark.parametrize("conversation", KILLED, ids=NAME)
def test_answers_after_a_kill_are_kafkas(
    conversation: Conversation, mortal_pair: Pair, request: pytest.FixtureRequest
) -> None:
    mortal_pair.revive()
    compare(conversation, mortal_pair, request)
