"""ACLs as a test writes them."""

import pytest

from odradek.broker.core.acls.terms import (
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from odradek.testing.acls import parse_acls, users_of

ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


def test_every_part_is_read() -> None:
    assert parse_acls(
        [
            "User:alice read,Write topic:orders",
            "deny User:bob all topic:* from 10.0.0.1",
            "allow User:carol describe-configs transactional-id:app-*",
            "User:* IDEMPOTENT_WRITE cluster",
        ]
    ) == [
        Binding(Pattern(TOPIC, "orders"), Entry("User:alice", ALLOW, Operation.READ)),
        Binding(Pattern(TOPIC, "orders"), Entry("User:alice", ALLOW, Operation.WRITE)),
        Binding(Pattern(TOPIC, "*"), Entry("User:bob", DENY, Operation.ALL, "10.0.0.1")),
        Binding(
            Pattern(ResourceType.TRANSACTIONAL_ID, "app-", PatternType.PREFIXED),
            Entry("User:carol", ALLOW, Operation.DESCRIBE_CONFIGS),
        ),
        Binding(
            Pattern(CLUSTER, "kafka-cluster"),
            Entry("User:*", ALLOW, Operation.IDEMPOTENT_WRITE),
        ),
    ]


def test_users_are_those_with_a_name() -> None:
    bindings = parse_acls(["User:alice read topic:a", "User:* read topic:a"])
    assert users_of(bindings) == {"alice"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alice read topic:a", "is not like"),
        ("User:alice topic:a", "is not like"),
        ("User:alice reed topic:a", "an operation 'reed', which Kafka has not"),
        ("User:alice any topic:a", "an operation 'any', which Kafka has not"),
        ("User:alice read table:a", "is about 'table', which Kafka has not"),
        ("User:alice read topic", "does not name its topic"),
    ],
)
def test_others_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_acls([text])
