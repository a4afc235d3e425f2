"""The same conversations about transactions with Apache Kafka 3.9.2 and with Odradek, compared.

What may differ stands in `allowed_transactions.py`, with the reason.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.wire import (
    conversations_transactions,
    conversations_transactions_brokers,
    conversations_transactions_offsets,
    conversations_transactions_records,
    conversations_transactions_restart,
    conversations_transactions_seen,
)
from tests.wire.allowed_transactions import ALLOWED
from tests.wire.comparing import NAME, SIDES, Pair, Suite, compare, started_pair
from tests.wire.conversations_transactions import Conversation
from tests.wire.transaction_talk import TransactionTalk, wait_until_transactions_are_served

SETTINGS: Final = {
    "log.retention.ms": "-1",  # the records here are years old
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
CONVERSATIONS: Final[tuple[Conversation, ...]] = (
    *conversations_transactions.CONVERSATIONS,
    *conversations_transactions_records.CONVERSATIONS,
    *conversations_transactions_offsets.CONVERSATIONS,
    *conversations_transactions_seen.CONVERSATIONS,
)

TRANSACTIONS: Final = Suite(
    "transactions",
    "kafka-3.9",
    TransactionTalk,
    SETTINGS,
    ALLOWED,
    wait_until_ready=wait_until_transactions_are_served,
)
BETWEEN_BROKERS: Final = TRANSACTIONS._replace(name="between_brokers", for_brokers=True)
RESTARTS: Final = TRANSACTIONS._replace(name="transaction_files")
EXPIRING: Final = TRANSACTIONS._replace(
    name="expiring",
    settings={
        **SETTINGS,
        "transactional.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    },
)
HELD: Final = (
    (TRANSACTIONS, CONVERSATIONS),
    (BETWEEN_BROKERS, conversations_transactions_brokers.CONVERSATIONS),
    (RESTARTS, conversations_transactions_restart.FILES),
    (EXPIRING, conversations_transactions_restart.EXPIRING),
)


@pytest.fixture(scope="module", params=SIDES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers for all conversations."""
    yield from started_pair(TRANSACTIONS, request)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=NAME)
def test_answers_are_kafkas(
    conversation: Conversation, pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, pair, request)


@pytest.fixture(scope="module", params=SIDES)
def brokers_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers that take the test for one of them."""
    yield from started_pair(BETWEEN_BROKERS, request)


@pytest.mark.parametrize("conversation", conversations_transactions_brokers.CONVERSATIONS, ids=NAME)
def test_answers_to_brokers_are_kafkas(
    conversation: Conversation, brokers_pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, brokers_pair, request)


@pytest.fixture(scope="module", params=SIDES)
def mortal_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers that may be stopped and killed."""
    yield from started_pair(RESTARTS, request)


@pytest.mark.parametrize("conversation", conversations_transactions_restart.FILES, ids=NAME)
def test_files_are_kafkas(
    conversation: Conversation, mortal_pair: Pair, request: pytest.FixtureRequest
) -> None:
    mortal_pair.revive()
    compare(conversation, mortal_pair, request)


@pytest.fixture(params=SIDES)
def forgetful_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Brokers that soon forget ids."""
    yield from started_pair(EXPIRING, request)


def test_the_same_ids_expire_as_in_kafka(
    forgetful_pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversations_transactions_restart.ids_expire, forgetful_pair, request)
