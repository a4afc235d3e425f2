"""The authorizer against a naive model, which looks at each ACL, and examples of Kafka's rules."""

from collections.abc import Iterable
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.acls import authorizer as module
from odradek.broker.core.acls.authorizer import DECISIONS_MAX, HOLDERS_MAX, Authorizer
from odradek.broker.core.acls.hosts import host_in_acls
from odradek.broker.core.acls.terms import (
    EVERYBODY,
    WILDCARD,
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
ALICE, BOB, HOST = "User:alice", "User:bob", "10.0.0.1"
IMPLYING_DESCRIBE = (READ, WRITE, Operation.DELETE, Operation.ALTER)

names = st.sampled_from(["*", "a", "ab", "abc", "b", ""])
operations = st.sampled_from([READ, WRITE, DESCRIBE, ALL, DESCRIBE_CONFIGS, ALTER_CONFIGS])
resource_types = st.sampled_from([TOPIC, GROUP])
patterns = st.builds(Pattern, resource_types, names, st.sampled_from([LITERAL, PREFIXED]))
entries = st.builds(
    Entry,
    st.sampled_from([ALICE, BOB, EVERYBODY]),
    st.sampled_from([ALLOW, DENY]),
    operations,
    st.sampled_from([HOST, "10.0.0.2", WILDCARD]),
)
puts = st.lists(st.tuples(patterns, st.frozensets(entries, max_size=3)), max_size=12)


def authorizer_of(*bindings: Binding, everyone: bool = False) -> Authorizer:
    authorizer = Authorizer(super_users=["User:admin"], allows_everyone_if_none=everyone)
    for pattern, entry in bindings:
        authorizer.put(pattern, {*authorizer.entries_of(pattern), entry})
    return authorizer


def is_about(entry: Entry, operation: Operation) -> bool:
    return (
        entry.principal in (ALICE, EVERYBODY)
        and entry.host in (HOST, WILDCARD)
        and entry.operation in (operation, ALL)
    )


def model(
    acls: dict[Pattern, frozenset[Entry]],
    operation: Operation,
    resource: tuple[ResourceType, str],
    *,
    everyone: bool,
) -> bool:
    """What Alice may do, as the documentation of Kafka says it."""
    found = [e for pattern, held in acls.items() if pattern.covers(*resource) for e in held]
    if not found:
        return everyone
    if any(e.permission is DENY and is_about(e, operation) for e in found):
        return False
    implying = {DESCRIBE: IMPLYING_DESCRIBE, DESCRIBE_CONFIGS: (ALTER_CONFIGS,)}
    wanted = (operation, *implying.get(operation, ()))
    return any(e.permission is ALLOW and is_about(e, each) for e in found for each in wanted)


def model_of_some(
    acls: dict[Pattern, frozenset[Entry]], operation: Operation, kind: ResourceType, everyone: bool
) -> bool:
    def that(permission: Permission) -> Iterable[Pattern]:
        for pattern, held in acls.items():
            if pattern.resource_type is kind and any(
                e.permission is permission and is_about(e, operation) for e in held
            ):
                yield pattern

    denied = list(that(DENY))
    if Pattern(kind, WILDCARD) in denied:
        return False
    return everyone or any(
        allowed == Pattern(kind, WILDCARD)
        or not any(
            deny == allowed if deny.pattern_type is LITERAL else allowed.name.startswith(deny.name)
            for deny in denied
        )
        for allowed in that(ALLOW)
    )


@pytest.mark.slow
@given(puts, st.booleans(), operations.filter(lambda op: op is not ALL), resource_types, names)
def test_index_decides_like_the_model(
    changes: list[tuple[Pattern, frozenset[Entry]]],
    everyone: bool,
    operation: Operation,
    kind: ResourceType,
    name: str,
) -> None:
    authorizer = Authorizer(allows_everyone_if_none=everyone)
    acls: dict[Pattern, frozenset[Entry]] = {}
    for pattern, held in changes:
        authorizer.put(pattern, held)
        acls.pop(pattern, None)
        if held:
            acls[pattern] = held
        alice = authorizer.decisions(ALICE, HOST)
        expected = model(acls, operation, (kind, name), everyone=everyone)
        assert alice.may(operation, kind, name) is expected
        assert alice.may(operation, kind, name) is expected  # as remembered
        assert alice.may_some(operation, kind) is model_of_some(acls, operation, kind, everyone)
    assert {pattern for pattern, _ in authorizer.index} == set(acls)
    assert len(authorizer.index) == sum(map(len, acls.values()))


@pytest.mark.slow
@given(puts)
def test_nothing_is_left_of_acls_that_are_gone(
    changes: list[tuple[Pattern, frozenset[Entry]]],
) -> None:
    authorizer = Authorizer()
    for pattern, held in changes:
        authorizer.put(pattern, held)
    for pattern in list(authorizer.index.entries):
        authorizer.put(pattern, ())
    assert not any(vars(authorizer.index)["_bits"].values())
    assert not any(vars(authorizer.index)["_lengths"].values())


def test_super_users_need_no_acl_and_no_acl_keeps_them_out() -> None:
    authorizer = authorizer_of(Binding(Pattern(TOPIC, "*"), Entry(EVERYBODY, DENY, ALL)))
    admin = authorizer.decisions("User:admin", HOST)
    assert admin.may(READ, TOPIC, "t")
    assert admin.may_some(WRITE, TOPIC)
    assert not authorizer.decisions("user:admin", HOST).may(READ, TOPIC, "t")


@pytest.mark.parametrize("operation", IMPLYING_DESCRIBE)
def test_denying_what_implies_describe_does_not_deny_describe(operation: Operation) -> None:
    pattern = Pattern(TOPIC, "t")
    authorizer = authorizer_of(
        Binding(pattern, Entry(ALICE, ALLOW, operation)),
        Binding(pattern, Entry(ALICE, DENY, operation)),
    )
    alice = authorizer.decisions(ALICE, HOST)
    assert not alice.may(operation, TOPIC, "t")
    assert alice.may(DESCRIBE, TOPIC, "t")


def test_everyone_may_only_use_resources_without_any_acl() -> None:
    pattern = Pattern(TOPIC, "a", PREFIXED)
    authorizer = authorizer_of(Binding(pattern, Entry(BOB, ALLOW, READ)), everyone=True)
    alice = authorizer.decisions(ALICE, HOST)
    assert not alice.may(READ, TOPIC, "ab")
    assert alice.may(READ, TOPIC, "b")
    assert alice.may(READ, GROUP, "ab")


def test_a_change_of_the_acls_counts_at_once() -> None:
    authorizer = authorizer_of(Binding(Pattern(TOPIC, "t"), Entry(ALICE, ALLOW, READ)))
    assert authorizer.decisions(ALICE, HOST).may(READ, TOPIC, "t")
    before = authorizer.version
    authorizer.put(Pattern(TOPIC, "t"), ())
    assert authorizer.version > before
    assert not authorizer.decisions(ALICE, HOST).may(READ, TOPIC, "t")


def test_what_is_remembered_is_bounded() -> None:
    authorizer = authorizer_of()
    for number in range(HOLDERS_MAX + 1):
        authorizer.decisions(f"User:{number}", HOST)
    alice = authorizer.decisions(ALICE, HOST)
    for number in range(DECISIONS_MAX + 1):
        alice.may(READ, TOPIC, str(number))
    alice.may(READ, GROUP, "g" * 10_000)
    assert len(vars(authorizer)["_decisions"]) <= HOLDERS_MAX
    assert 0 < len(alice._known) <= DECISIONS_MAX
    assert all(len(name) < 10_000 for _, _, name in alice._known)


def test_what_is_remembered_of_all_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may have as many addresses as it likes."""
    monkeypatch.setattr(module, "ALL_DECISIONS_MAX", 100)
    authorizer = authorizer_of()
    for holder in range(25):
        for number in range(10):
            decisions = authorizer.decisions(ALICE, f"2001:db8:0:0:0:0:0:{holder:x}")
            decisions.may(READ, TOPIC, str(number))
    kept = vars(authorizer)["_decisions"].values()
    assert 0 < sum(len(each._known) for each in kept) <= 100


def test_a_pattern_may_have_many_entries() -> None:
    """Each change of them once took the square of their number, here minutes."""
    authorizer, topic = authorizer_of(), Pattern(TOPIC, "t")
    users = {Entry(f"User:{number}", ALLOW, READ) for number in range(20_000)}
    began_s = process_time()
    authorizer.put(topic, users)
    authorizer.put(topic, users - {Entry("User:7", ALLOW, READ)} | {Entry("User:8", ALLOW, WRITE)})
    assert process_time() - began_s < 5
    assert not authorizer.decisions("User:7", HOST).may(READ, TOPIC, "t")
    assert authorizer.decisions("User:8", HOST).may(READ, TOPIC, "t")
    assert authorizer.decisions("User:8", HOST).may(WRITE, TOPIC, "t")


def test_whether_some_resource_is_allowed_is_looked_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes as long as the client has ACLs, and every idempotent producer asks."""
    authorizer, asked = authorizer_of(Binding(Pattern(TOPIC, "t"), Entry(ALICE, ALLOW, READ))), []
    look = authorizer.index.allows_some

    def counting(*question: Any, if_none: bool) -> bool:
        asked.append(question)
        return look(*question, if_none=if_none)

    monkeypatch.setattr(authorizer.index, "allows_some", counting)
    for operation in (WRITE, READ) * 3:
        assert authorizer.decisions(ALICE, HOST).may_some(operation, TOPIC) == (operation == READ)
    assert len(asked) == 2
    authorizer.put(Pattern(TOPIC, "t"), [Entry(ALICE, ALLOW, WRITE)])
    assert authorizer.decisions(ALICE, HOST).may_some(WRITE, TOPIC)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("", ""),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a:0:0:1", "2001:db8:0:0:a:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_addresses_are_written_as_by_java(address: str, host: str) -> None:
    assert host_in_acls(address) == host
