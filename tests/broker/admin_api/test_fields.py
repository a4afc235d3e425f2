"""Fields of requests: what is accepted, and the sentence for what is not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.admin_api.fields import (
    BOOLEAN,
    DURATION,
    TEXT,
    Field,
    Kind,
    either,
    list_of,
    map_of,
    nullable,
    number,
    object_of,
    one_of,
    pair_of,
    parse_body,
    parse_query,
    whole,
)
from odradek.broker.admin_api.problems import Problem

NO_DURATION = " is not a duration such as '250ms', '60s', '5m' or 1.5"
PERSON = object_of(Field("name", TEXT, ""), Field("age", whole(0, 150), "", 0))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
FIELDS = (
    Field("text", TEXT, "", None),
    Field("whole", whole(-1, 10), "", 0),
    Field("number", number(0, 1), "", 0.5),
    Field("boolean", BOOLEAN, "", False),
    Field("duration", nullable(DURATION), "", None),
    Field("texts", list_of(TEXT, at_most=3), "", ()),
    Field("map", map_of(whole(0, 3), at_most=3), "", {}),
    Field("one", one_of("a", "b"), "", "a"),
    Field("either", either(TEXT, whole(0, 3)), "", 0),
    Field("pair", pair_of(TEXT, nullable(TEXT)), "", None),
    Field("person", PERSON, "", None),
)


@pytest.mark.parametrize(
    ("kind", "value", "parsed"),
    [
        (TEXT, "é", "é"),
        (whole(1, 5), 5, 5),
        (number(0, 1), 1, 1.0),
        (BOOLEAN, True, True),
        (DURATION, "250ms", 0.25),
        (DURATION, "1.5m", 90.0),
        (DURATION, 2, 2),
        (nullable(TEXT), None, None),
        (list_of(whole(0, 9), at_most=2), [1, 2], [1, 2]),
        (map_of(TEXT, at_most=2), {"a": "b"}, {"a": "b"}),
        (either(TEXT, whole(0, 9)), 3, 3),
        (either(TEXT, whole(0, 9)), "3", "3"),
        (pair_of(TEXT, whole(0, 9)), ["a", 1], ("a", 1)),
        (PERSON, {"name": "Ann"}, {"name": "Ann", "age": 0}),
    ],
)
def test_a_value_of_its_kind_is_accepted(kind: Kind, value: Any, parsed: Any) -> None:
    body = json.dumps({"field": value}).encode()
    assert parse_body(body, [Field("field", kind, "")]) == {"field": parsed}


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (TEXT, 1, "field must be text"),
        (TEXT, "\ud800", "field must be text"),
        (whole(1, 5), 6, "field must be a whole number from 1 to 5"),
        (whole(1, 5), True, "field must be a whole number from 1 to 5"),
        (whole(1, 5), 1.0, "field must be a whole number from 1 to 5"),
        (whole(1, 5), "1", "field must be a whole number from 1 to 5"),
        (number(0, 1), 10**400, "field must be a number from 0 to 1"),
        (BOOLEAN, 0, "field must be true or false"),
        (
            DURATION,
            "1 hour",
            "field: '1 hour' is not a duration such as '250ms', '60s', '5m' or 1.5",
        ),
        (DURATION, -1, "field: -1 is not a duration from 0 to ten years"),
        (DURATION, 10**400, None),
        (DURATION, True, f"field: True{NO_DURATION}"),
        (TEXT, None, "field must be text"),
        (list_of(TEXT, at_most=1), ["a", "b"], "field must be a list of at most 1, each text"),
        (one_of("a", "b"), "c", "field must be one of a, b"),
        (one_of("a", "b"), ["a"], "field must be one of a, b"),
        (
            PERSON,
            {"name": "Ann", "ag": 3},
            "field: 'ag' is not a field of this request: did you mean age? It has name, age",
        ),
        (PERSON, {}, "field: name is missing: text"),
    ],
)
def test_another_value_is_refused_with_a_sentence(
    kind: Kind, value: Any, sentence: str | None
) -> None:
    body = json.dumps({"field": value}).encode()
    with pytest.raises(Problem) as refused:
        parse_body(body, [Field("field", kind, "")])
    assert refused.value.status == 400
    assert sentence is None or refused.value.sentence == sentence


def test_a_query_has_texts_and_json() -> None:
    fields = [
        Field("text", TEXT, ""),
        Field("count", whole(0, 10), "", 7),
        Field("deep", BOOLEAN, "", False),
        Field("by", DURATION, "", 0),
        Field("id", either(TEXT, whole(0, 9)), "", ""),
    ]
    given = parse_query("text=1&count=5&deep=true&by=60s&id=a%20b", fields)
    assert given == {"text": "1", "count": 5, "deep": True, "by": 60.0, "id": "a b"}


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("5", 5), ("1.5", 1.5), ("250ms", 0.25)])
def test_a_query_has_durations_as_a_body_does(text: str, seconds: float) -> None:
    assert parse_query(f"timeout={text}", [Field("timeout", DURATION, "")]) == {"timeout": seconds}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("", "text is missing: text"),
        ("text=a&text=b", "text is given twice"),
        ("text=%ff", "the query is not text, or has too many fields"),
        ("text=a&" * 101, "the query is not text, or has too many fields"),
        ("text=a&count=x", "count must be a whole number from 0 to 10"),
        ("text=a&other=1", "'other' is not a field of this request: text, count"),
    ],
)
def test_a_bad_query_is_refused(query: str, sentence: str) -> None:
    fields = [Field("text", TEXT, ""), Field("count", whole(0, 10), "", 0)]
    with pytest.raises(Problem) as refused:
        parse_query(query, fields)
    assert (refused.value.status, refused.value.sentence) == (400, sentence)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([field.name for field in FIELDS]), JSON))
def test_any_json_is_parsed_or_refused(value: dict[str, Any]) -> None:
    try:
        parsed = parse_body(json.dumps(value).encode(), FIELDS)
    except Problem as problem:
        assert problem.status == 400
    else:
        assert list(parsed) == [field.name for field in FIELDS]


@pytest.mark.slow
@given(st.binary())
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    try:
        parse_body(body, FIELDS)
    except Problem as problem:
        assert problem.status == 400


@pytest.mark.slow
@given(st.text())
def test_any_query_is_parsed_or_refused(query: str) -> None:
    try:
        parse_query(query, FIELDS)
    except Problem as problem:
        assert problem.status == 400
