"""Which rules act on a request, and why others never did."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.faults.faults import FAULTS_MAX, Faults
from odradek.broker.faults.matching import Plan
from odradek.broker.faults.places import WHOLE
from odradek.broker.faults.rule import BadRule, make_rule
from odradek.broker.faults.seen import Seen
from odradek.broker.faults.targets import Target
from odradek.broker.handlers import APIS

API = {api.name: api for api in APIS.values()}
A0, A1, B0 = Target("a", 0), Target("a", 1), Target("b", 0)


def seen(
    name: str = "Produce", targets: Sequence[Target] = (A0,), version: int = 9, **more: Any
) -> Seen:
    given = {
        "client_id": "app",
        "principal": "User:ANONYMOUS",
        "broker_id": 1,
        "is_inter_broker": False,
        **more,
    }
    return Seen(api=API[name], version=version, targets=targets, **given)


class Made:
    """Rules, and requests that meet them."""

    def __init__(self, *rules: dict[str, Any]) -> None:
        self.faults = Faults(lambda bits: 7)
        self.made = [self.add(**rule) for rule in rules]

    def add(self, **fields: Any) -> Any:
        return self.faults.add(make_rule(**{"api": None, "error": None, **fields}))

    def plan(self, request: Seen) -> Plan | None:
        return self.faults.plan(request)

    @property
    def hits(self) -> list[int]:
        return [fault.hits for fault in self.made]


ERROR = {"error": "NOT_LEADER_OR_FOLLOWER"}


@pytest.mark.parametrize(
    ("rule", "request_", "matches"),
    [
        ({"api": "Produce"}, seen(), True),
        ({"api": "Fetch"}, seen(), False),
        ({"topic": "a"}, seen(), True),
        ({"topic": "b"}, seen(), False),
        ({"topic": "?"}, seen(), True),
        ({"topic": "a", "partition": 1}, seen(), False),
        ({"topic": "a", "partition": 1}, seen(targets=(A1, B0)), True),
        ({"topic": "b", "partition": 1}, seen(targets=(A1, B0)), False),
        ({"topic": "a"}, seen("Metadata", (Target(),)), True),
        ({"client_id": "a*"}, seen(), True),
        ({"client_id": "a*"}, seen(client_id=None), False),
        ({"principal": "User:alice"}, seen(), False),
        ({"broker": 1}, seen(), True),
        ({"broker": 2}, seen(), False),
        ({}, seen(is_inter_broker=True), False),
        ({"inter_broker": True}, seen(is_inter_broker=True), True),
        ({"group": "g"}, seen("Heartbeat", (Target(group="g"),)), True),
        ({"group": "g"}, seen("Heartbeat", (Target(group="h"),)), False),
        ({"group": "g"}, seen(), False),
        ({"transactional_id": "x"}, seen(targets=(Target("a", 0, None, "x"),)), True),
    ],
)
def test_matching(rule: dict[str, Any], request_: Seen, matches: bool) -> None:
    assert (Made({**rule, "close": True}).plan(request_) is not None) is matches


def test_only_what_matches_fails() -> None:
    made = Made({**ERROR, "topic": "a", "partition": 1}, {**ERROR, "topic": "b"})
    plan = made.plan(seen(targets=(A0, A1, B0)))
    assert plan is not None
    assert [set(each.targets) for each in plan.refusals] == [{A1}, {B0}]


def test_a_rule_takes_what_it_matches_from_those_after_it() -> None:
    made = Made({**ERROR, "times": 1}, {"drop_response": True, "times": 1})
    first, second, third = (made.plan(seen()) for _ in range(3))
    assert first is not None and first.ending is None
    assert second is not None and second.refusals == [] and second.ending is made.made[1]
    assert third is None
    assert made.hits == [1, 1]


def test_delays_and_throttles_take_nothing() -> None:
    made = Made({"delay_s": 1.0}, {"delay_s": 2.0, "throttle_ms": 5}, {**ERROR})
    plan = made.plan(seen())
    assert plan is not None
    assert (plan.delay_s, plan.throttle_ms, len(plan.refusals)) == (3.0, 5, 1)
    assert made.hits == [1, 1, 1]


def test_an_error_of_a_whole_response_takes_everything() -> None:
    made = Made({"error": "NOT_COORDINATOR"}, {"close": True})
    plan = made.plan(seen("Heartbeat", (Target(group="g"),)))
    assert plan is not None and plan.refusals[0].place is WHOLE and plan.ending is None


@pytest.mark.parametrize(
    ("rule", "fired"),
    [
        ({"nth": 3}, [3]),
        ({"every": 2}, [2, 4, 6]),
        ({"times": 2}, [1, 2]),
        ({"every": 2, "times": 1}, [2]),
        ({}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_when_a_rule_fires(rule: dict[str, Any], fired: list[int]) -> None:
    made = Made({**ERROR, **rule})
    assert [number for number in range(1, 7) if made.plan(seen()) is not None] == fired


@settings(max_examples=20)
@given(st.integers(0, 1 << 31), st.floats(0.1, 0.9))
def test_a_seed_gives_the_same_faults(seed: int, probability: float) -> None:
    rule = {**ERROR, "probability": probability, "seed": seed, "jitter_s": 1.0}
    runs = []
    for _ in range(2):
        made = Made(rule)
        runs.append([(plan and plan.delay_s) for plan in (made.plan(seen()) for _ in range(20))])
    assert runs[0] == runs[1]


def test_a_probability_is_about_a_share() -> None:
    made = Made({**ERROR, "probability": 0.3})
    hits = sum(made.plan(seen()) is not None for _ in range(1000))
    assert 230 < hits < 370


@pytest.mark.parametrize(
    ("rule", "requests", "sentence"),
    [
        ({"api": "Fetch", "topic": "order"}, [], "no Fetch came"),
        (
            {"api": "Fetch", "topic": "order"},
            [seen("Fetch", (Target("orders", 0),))],
            "Fetch of topic `order`, did you mean `orders`?",
        ),
        (
            {"api": "Fetch", "topic": "order"},
            [seen("Fetch", (Target("x", 0),)), seen("Fetch", (Target("orders", 0),)), seen()],
            "Fetch of topic `order`, did you mean `orders`?",
        ),
        ({"api": "Fetch"}, [seen()], "no Fetch came, but Produce"),
        (
            {"api": "Produce", "topic": "a", "partition": 5},
            [seen(targets=(A0, A1))],
            "no Produce of topic `a`, partition 5 came, but with partition `0`, `1`",
        ),
        ({"nth": 3}, [seen(), seen()], "request came 2 times, but nth=3"),
        (
            {"client_id": "ap"},
            [seen()],
            "request of client_id `ap`, did you mean `app`?",
        ),
        (
            {"api": "Fetch"},
            [seen("Fetch", is_inter_broker=True)],
            "Fetch came only from other brokers: give inter_broker=true",
        ),
    ],
)
def test_the_nearest_miss(rule: dict[str, Any], requests: list[Seen], sentence: str) -> None:
    made = Made({**rule, "close": True})
    for request in requests:
        made.plan(request)
    assert made.made[0].nearest_miss == sentence


def test_a_rule_that_fired_has_missed_nothing() -> None:
    made = Made({"close": True})
    made.plan(seen())
    assert made.made[0].nearest_miss is None


def test_rules_are_bounded() -> None:
    made = Made(*({"close": True} for _ in range(FAULTS_MAX)))
    with pytest.raises(BadRule, match="remove some"):
        made.add(close=True)
    assert made.faults.remove("f1") is made.made[0]
    assert made.faults.remove("f1") is None
    made.add(close=True)
    made.faults.clear()
    assert len(made.faults) == 0
