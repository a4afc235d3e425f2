"""Rules that make sense, and what is said of those that do not."""

from typing import Any

import pytest

from odradek.broker.faults.rule import BadRule, fits, make_rule
from odradek.protocol.errors import ErrorCode


def rule(**fields: Any) -> Any:
    return make_rule(**{"api": None, "error": None, **fields})


def test_apis_and_errors_by_name_or_number() -> None:
    for api in ("Produce", 0, "0"):
        for error in ("NOT_LEADER_OR_FOLLOWER", 6, "6"):
            made = rule(api=api, error=error)
            assert (made.api, made.error) == ("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "the rule has no effect: give error"),
        ({"api": "Heartbeat", "topic": "t", "close": True}, "topic: Heartbeat has no topics"),
        ({"api": "Fetch", "group": "g", "close": True}, "group: Fetch has no groups"),
        ({"api": "CreateAcls", "partition": 1, "close": True}, "partition: CreateAcls has no"),
        ({"api": "Heartbeat", "transactional_id": "x", "close": True}, "has no transactional ids"),
        ({"api": "Prodcue", "close": True}, "api: there is no 'Prodcue': did you mean Produce?"),
        ({"api": 999, "close": True}, "api: there is no 999"),
        (
            {"api": "Fetch", "error": "NOT_LEADER"},
            "there is no 'NOT_LEADER': did you mean NOT_LEADER_OR_FOLLOWER?",
        ),
        ({"error": 0}, "error: NONE is not an error"),
        ({"api": "LeaderAndIsr", "close": True}, "only brokers send LeaderAndIsr: give inter_b"),
        ({"api": "SaslHandshake", "close": True}, "SaslHandshake is part of a login"),
        ({"close": True, "drop_response": True}, "close and drop_response exclude each other"),
        ({"close": True, "error": 6}, "close and error exclude each other: no answer is sent"),
        ({"drop_response": True, "error": 6}, "drop_response and error exclude each other"),
        (
            {"api": "Produce", "close": True, "answer": {"base_offset": 1}},
            "close and answer exclude each other",
        ),
        ({"delay_s": 1.0, "applied": True}, "applied: only error and close"),
        ({"close": True, "nth": 0}, "nth must be at least 1"),
        ({"close": True, "times": 0}, "times must be at least 1"),
        ({"close": True, "probability": 0.0}, "probability must be above 0"),
        ({"close": True, "nth": 1, "every": 2}, "nth and every exclude each other"),
        ({"close": True, "nth": 2, "times": 3}, "nth and times exclude each other"),
        ({"close": True, "topic": ""}, "topic is empty: no request would match"),
        ({"close": True, "principal": ""}, "principal is empty"),
        ({"close": True, "seed": 1}, "seed: only probability and jitter are random"),
        ({"answer": {"a": 1}}, "answer: give the api"),
        ({"api": "Produce", "answer": {}}, "answer: no field is given"),
        ({"api": "Produce", "answer": {"a": 1}}, "answer: ProduceResponse has no field 'a'"),
        ({"api": "Produce", "answer": {"error_code": 1}}, "answer: error_code is set by error"),
        (
            {"api": "Produce", "answer": {"throttle_time_ms": 1 << 31}},
            "answer: throttle_time_ms: it must be a whole number from -2147483648 to 2147483647",
        ),
        ({"api": "Produce", "answer": {"responses": 1}}, "responses: it must be a list"),
        ({"api": "Fetch", "answer": {"records": "x"}}, "records: records can't be given"),
        (
            {"api": "Metadata", "answer": {"brokers": [{"node": 1}]}},
            "brokers: MetadataResponseBroker has no field 'node'",
        ),
        ({"api": "Metadata", "answer": {"brokers": [1]}}, "brokers: it must be an object"),
        ({"api": "Metadata", "answer": {"brokers": None}}, "brokers: it can't be null"),
        ({"api": "JoinGroup", "answer": {"leader": 1}}, "leader: it must be of Kafka's type str"),
        ({"api": "SyncGroup", "answer": {"assignment": "?"}}, "assignment: bytes are given in ba"),
        ({"api": "Metadata", "answer": {"topic_id": "x"}}, "topic_id: it must be a uuid"),
    ],
)
def test_one_sentence_says_what_is_wrong(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRule) as refused:
        rule(**fields)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_texts_with_wildcards() -> None:
    assert fits(None, None)
    assert fits("app*", "app-1")
    assert fits("a[b", "a[b")
    assert not fits("app*", None)
    assert not fits("app", "app-1")
