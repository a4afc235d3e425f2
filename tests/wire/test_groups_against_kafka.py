"""The same conversations about groups with Apache Kafka and with Odradek, compared.

Classic groups are compared with Kafka 3.9.2, consumer groups (KIP-848) with 4.3.1. With
`--target kafka-3.9` or `kafka-4.3` two Kafkas are compared, which shows that what is compared is
the same every time. What may differ stands in `allowed_groups.py`, with the reason.
"""

from collections.abc import Callable, Iterator
from typing import Final

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
from tests.wire.comparing import NAME, SIDES, Pair, Suite, compare, started_pair
from tests.wire.group_talk import GroupTalk, wait_until_groups_are_served

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


# They let sessions and rebalances end, or wait for topics to be looked for again.
WAITING: Final[tuple[Conversation, ...]] = (
    conversations_groups_rebalance.member_times_out,
    conversations_groups_rebalance.only_member_times_out,
    conversations_groups_rebalance.heartbeats_keep_a_member,
    conversations_groups_rebalance.rebalance_times_out,
    conversations_groups_rebalance.sync_times_out,
    conversations_groups_static.static_session_ends,
    conversations_consumer_groups.session_ends,
    conversations_consumer_groups_topics.pattern_and_topics_to_come,
)


def _suite(name: str, kafka: str, settings: dict[str, str], more: dict[str, str]) -> Suite:
    return Suite(
        name,
        kafka,
        GroupTalk,
        settings,
        ALLOWED,
        more,
        WAITING,
        wait_until_groups_are_served,
    )


CLASSIC_GROUPS: Final = _suite("classic", "kafka-3.9", CLASSIC_SETTINGS, {})
CONSUMER_GROUPS: Final = _suite("consumer", "kafka-4.3", CONSUMER_SETTINGS, KAFKA_43_ONLY)
# Groups may not change their protocol while they live.
SEPARATE_GROUPS: Final = _suite(
    "separate",
    "kafka-4.3",
    {**CONSUMER_SETTINGS, "group.consumer.migration.policy": "disabled"},
    KAFKA_43_ONLY,
)
HELD: Final = (
    (CLASSIC_GROUPS, CLASSIC),
    (CONSUMER_GROUPS, CONSUMER),
    (SEPARATE_GROUPS, (conversations_consumer_groups_mixed.migration_disabled,)),
)


@pytest.fixture(scope="module", params=SIDES)
def classic_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Beside Kafka 3.9.2."""
    yield from started_pair(CLASSIC_GROUPS, request)


@pytest.fixture(scope="module", params=SIDES)
def consumer_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Beside Kafka 4.3.1."""
    yield from started_pair(CONSUMER_GROUPS, request)


@pytest.fixture(params=SIDES)
def separate_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The same, the protocols apart."""
    yield from started_pair(SEPARATE_GROUPS, request)


@pytest.mark.parametrize("conversation", CLASSIC, ids=NAME)
def test_classic_groups_are_kafkas(
    conversation: Conversation, classic_pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, classic_pair, request)


@pytest.mark.parametrize("conversation", CONSUMER, ids=NAME)
def test_consumer_groups_are_kafkas(
    conversation: Conversation, consumer_pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, consumer_pair, request)


def test_protocols_apart_are_kafkas(separate_pair: Pair, request: pytest.FixtureRequest) -> None:
    compare(conversations_consumer_groups_mixed.migration_disabled, separate_pair, request)
