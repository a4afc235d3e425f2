"""Quotas of users and client ids: which one counts, who shares it, and what is kept of clients."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core import client_rates as module
from odradek.broker.core.client_quotas import Entity
from odradek.broker.core.client_rates import (
    FETCH,
    IDLE_MS_MAX,
    MUTATION,
    PRODUCE,
    REQUEST,
    ClientRates,
    Limits,
)
from tests.kafka.java import run_program

USERS = CLIENTS = ("-", "<default>", "a", "b")
ENTITIES = [pair for pair in itertools.product(USERS, CLIENTS) if pair != ("-", "-")]


def entity_of(user: str, client: str) -> Entity:
    return {
        kind: None if name == "<default>" else name
        for kind, name in (("user", user), ("client-id", client))
        if name != "-"
    }


def limits_of(entries: dict[tuple[str, str], float]) -> Limits:
    limits = Limits()
    for (user, client), rate in entries.items():
        limits.change(entity_of(user, client), {PRODUCE: rate})
    return limits


def ours(entries: dict[tuple[str, str], float], user: str, client: str) -> str:
    limit = limits_of(entries).find(PRODUCE, user, client)
    if limit is None:
        return "none"
    _, *shared = limit.shared_by
    return "\t".join([str(limit.rate), *(str(part or "") for part in shared)])


@pytest.mark.java
def test_precedence_is_kafkas() -> None:
    """Every two levels beside each other, for a client that both match, and for others."""
    cases = [
        ({one: 1.0, other: 2.0}, user, client)
        for one, other in itertools.combinations(ENTITIES, 2)
        for user, client in (("a", "a"), ("c", "b"))
    ]
    lines = (
        "\t".join([",".join(f"{u}/{c}={rate}" for (u, c), rate in entries.items()), user, client])
        for entries, user, client in cases
    )
    answers = run_program("3.9.2", "Precedence", stdin="\n".join(lines).encode()).stdout
    found = answers.splitlines()
    assert found == [ours(*case) for case in cases]
    assert 0 < found.count("none") < len(cases) / 2


@pytest.mark.slow
@given(rates=st.dictionaries(st.sampled_from(ENTITIES), st.integers(1, 99)))
def test_the_first_of_eight_levels_counts(rates: dict[tuple[str, str], float]) -> None:
    levels = [("a", "b"), ("a", "<default>"), ("a", "-"), ("<default>", "b")]
    levels += [("<default>", "<default>"), ("<default>", "-"), ("-", "b"), ("-", "<default>")]
    expected = next((rates[level] for level in levels if level in rates), None)
    limits = limits_of(rates)
    found = limits.find(PRODUCE, "a", "b")
    assert (None if found is None else found.rate) == expected
    assert limits.find(FETCH, "a", "b") is None
    assert limits.are_set == bool(rates)
    for user, client in rates:
        assert limits.change(entity_of(user, client), {})
        assert not limits.change(entity_of(user, client), {})
    assert not limits.are_set


def test_each_kind_counts_by_itself() -> None:
    limits = Limits()
    limits.change({"user": "a"}, {PRODUCE: 1.0})
    limits.change({"client-id": None}, {PRODUCE: 2.0, FETCH: 3.0})
    found = [limits.find(kind, "a", "x") for kind in (PRODUCE, FETCH, REQUEST)]
    assert [each and each.rate for each in found] == [1.0, 3.0, None]
    limits.change({"user": "a"}, {"producer_byte_rate_": 1.0})
    found = [limits.find(PRODUCE, "a", "x")]
    assert [each and each.rate for each in found] == [2.0]


def rates() -> ClientRates:
    return ClientRates(11, 1000, mutation_span_ms=11_000)


def test_those_that_share_a_quota_are_counted_together() -> None:
    clients = rates()
    clients.limits.change({"user": None}, {PRODUCE: 100.0})
    for client_id in ("x", "y"):
        limit = clients.limit(PRODUCE, "a", client_id)
        assert limit is not None
        throttle_ms = clients.record(limit, 600, 0)
    assert throttle_ms == 2000  # 1200 bytes in the ten seconds before, and 1000 are allowed
    other = clients.limit(PRODUCE, "b", "y")
    assert other is not None
    assert clients.record(other, 600, 0) == 0


@pytest.mark.parametrize("rate", [0.0, -1.0, float("-inf")])
def test_with_a_quota_of_nothing_nothing_may_be_used_at_once(rate: float) -> None:
    measured = rates()
    measured.limits.change({"user": "u"}, {FETCH: rate})
    limit = measured.limit(FETCH, "u", None)
    assert limit is not None
    assert measured.at_once(limit) == 0
    assert measured.record(limit, 1.0, 0) > 0


def test_time_throttles_for_one_sample_at_most() -> None:
    clients = rates()
    clients.limits.change({"client-id": None}, {REQUEST: 1.0, PRODUCE: 1.0})
    throttles = []
    for kind in (REQUEST, PRODUCE):
        limit = clients.limit(kind, "a", None)
        assert limit is not None
        throttles.append(clients.record(limit, 10_000, 0))
    assert throttles == [1000, 9_990_000]


def test_hostile_client_ids_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 100)
    clients = rates()
    clients.limits.change({"user": None, "client-id": None}, {PRODUCE: 1.0, MUTATION: 1.0})
    for number in range(250):
        for kind in (PRODUCE, MUTATION):
            limit = clients.limit(kind, "a", f"{number}-{'x' * 200}")
            assert limit is not None
            assert len(str(limit.shared_by)) < 200
            if kind == PRODUCE:
                clients.record(limit, 1, 0)
            else:
                clients.change_topics(limit, 1, 0, is_strict=True)
    assert len(clients) == 2 * 100
    limit = clients.limit(PRODUCE, "b", "x")
    assert limit is not None
    clients.record(limit, 1, IDLE_MS_MAX + 1)
    assert len(clients) == 100 + 1, "an hour later the others are forgotten"


def test_a_quota_of_a_long_name() -> None:
    clients = rates()
    names = [letter * 300 for letter in "xy"]
    clients.limits.change({"user": names[0]}, {PRODUCE: 5.0})
    found = [clients.limit(PRODUCE, name, "") for name in names]
    assert [each and each.rate for each in found] == [5.0, None]


def test_strict_changes_are_refused_and_others_are_not() -> None:
    clients = rates()
    clients.limits.change({"client-id": "a"}, {MUTATION: 2.0})
    limit = clients.limit(MUTATION, "u", "a")
    assert limit is not None
    assert clients.change_topics(limit, 30, 0, is_strict=True) == (True, 0)  # 22 were saved up
    assert clients.change_topics(limit, 1, 0, is_strict=True) == (False, 4000)
    assert clients.change_topics(limit, 2, 0, is_strict=False) == (True, 5000)
    assert clients.change_topics(limit, 1, 5000, is_strict=True) == (True, 0)
    assert clients.change_topics(limit, 1, 5000, is_strict=True) == (False, 500)
