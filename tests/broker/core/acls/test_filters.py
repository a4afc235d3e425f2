"""Which ACLs a filter matches."""

import pytest

from odradek.broker.core.acls.filters import Filter
from odradek.broker.core.acls.terms import (
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

ANY, MATCH = PatternType.ANY, PatternType.MATCH
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC = ResourceType.TOPIC
ENTRY = Entry("User:alice", Permission.ALLOW, Operation.READ)
LITERAL_AB = Pattern(TOPIC, "ab")
EACH = Pattern(TOPIC, "*")
PREFIX_A = Pattern(TOPIC, "a", PREFIXED)
EVERYTHING = Filter(ResourceType.ANY, None, ANY, None, None, Operation.ANY, Permission.ANY)


@pytest.mark.parametrize(
    ("name", "pattern_type", "matched"),
    [
        (None, ANY, {LITERAL_AB, EACH, PREFIX_A}),
        (None, LITERAL, {LITERAL_AB, EACH}),
        ("ab", ANY, {LITERAL_AB}),
        ("a", ANY, {PREFIX_A}),
        ("ab", MATCH, {LITERAL_AB, EACH, PREFIX_A}),
        ("b", MATCH, {EACH}),
        ("ab", PREFIXED, set()),
        ("*", LITERAL, {EACH}),
    ],
)
def test_patterns_that_match(
    name: str | None, pattern_type: PatternType, matched: set[Pattern]
) -> None:
    asked = EVERYTHING._replace(resource_type=TOPIC, name=name, pattern_type=pattern_type)
    found = {p for p in (LITERAL_AB, EACH, PREFIX_A) if asked.matches(Binding(p, ENTRY))}
    assert found == matched


@pytest.mark.parametrize(
    "other",
    [
        {"resource_type": ResourceType.GROUP},
        {"principal": "User:bob"},
        {"host": "10.0.0.1"},
        {"operation": Operation.WRITE},
        {"permission": Permission.DENY},
    ],
)
def test_each_field_must_match(other: dict[str, object]) -> None:
    binding = Binding(LITERAL_AB, ENTRY)
    same = EVERYTHING._replace(
        resource_type=TOPIC,
        principal="User:alice",
        host="*",
        operation=Operation.READ,
        permission=Permission.ALLOW,
    )
    assert same.matches(binding)
    assert not same._replace(**other).matches(binding)  # type: ignore[arg-type]


def test_patterns_that_a_filter_names() -> None:
    named = EVERYTHING._replace(resource_type=TOPIC, name="a")
    assert named.exact_patterns() == [Pattern(TOPIC, "a"), PREFIX_A]
    assert named._replace(pattern_type=PREFIXED).exact_patterns() == [PREFIX_A]
    assert named._replace(pattern_type=MATCH).exact_patterns() == []
    assert EVERYTHING.exact_patterns() == []


def test_numbers_that_this_broker_does_not_know() -> None:
    assert not EVERYTHING.has_unknown
    assert EVERYTHING._replace(operation=Operation.of_code(99)).has_unknown


def test_names_as_kafka_writes_them() -> None:
    assert ResourceType.TRANSACTIONAL_ID.text == "TransactionalId"
    assert Operation.of_text("IDEMPOTENTWRITE") is Operation.IDEMPOTENT_WRITE
    assert Permission.of_text("maybe") is None
