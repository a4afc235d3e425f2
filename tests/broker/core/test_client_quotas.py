import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.client_quotas import (
    Change,
    Entity,
    changed,
    decode_name,
    encode_name,
    entity_of,
    entity_path,
    java_double,
    matches,
    parse_components,
    quotas_in,
)
from odradek.protocol.errors import ErrorCode, Refused

USER: Entity = {"user": "u"}
IP: Entity = {"ip": "10.0.0.1"}


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ({"user": "u"}, "users/u"),
        ({"client-id": "c", "user": "u"}, "users/u/clients/c"),
        ({"user": None, "client-id": None}, "users/<default>/clients/<default>"),
        ({"client-id": "c"}, "clients/c"),
        ({"ip": "10.0.0.1"}, "ips/10.0.0.1"),
        ({"ip": "1.2"}, "ips/1.2"),
        ({"ip": None}, "ips/<default>"),
        ({"user": "a b*+ä/%~:ü"}, "users/a%20b%2A%2B%C3%A4%2F%25%7E%3A%C3%BC"),
        ({"user": "<default>"}, "users/%3Cdefault%3E"),
    ],
)
def test_where_quotas_lie(entity: Entity, path: str) -> None:
    assert entity_path(entity) == path  # as read from Kafka 3.9.2's ZooKeeper


@pytest.mark.parametrize(
    "entity",
    [
        {},
        {"group": "g"},
        {"": "g"},
        {"user": ""},
        {"user": "."},
        {"user": ".."},
        {"ip": "10.0.0.1", "user": "u"},
        {"ip": "::1"},
        {"ip": "10.0.0.256"},
        {"ip": "256.0.0.1"},
        {"ip": "4294967296"},
        {"ip": "1.2.3.4.5"},
        {"ip": "a.host"},
        {"ip": "1.2.3.4\n"},
        {"ip": "\u0661.2.3.4"},
    ],
)
def test_entities_that_are_none(entity: Entity) -> None:
    with pytest.raises(Refused) as refused:
        entity_path(entity)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_names_come_back(name: str) -> None:
    node = encode_name(name)
    assert decode_name(node) == name
    assert "/" not in node and node.isascii() and node != "<default>"
    assert decode_name(encode_name(None)) is None


@pytest.mark.parametrize(
    ("entity", "key", "value", "stored"),
    [
        (USER, "producer_byte_rate", 1000.0, "1000"),
        (USER, "producer_byte_rate", 0.0, "0"),
        (USER, "producer_byte_rate", 1.9999999, "2"),
        (USER, "producer_byte_rate", 2.0**63, "9223372036854775807"),
        (USER, "request_percentage", 12.5, "12.5"),
        (USER, "request_percentage", -12.5, "-12.5"),
        (USER, "request_percentage", math.inf, "Infinity"),
        (USER, "controller_mutation_rate", 2.0, "2.0"),
        (IP, "connection_creation_rate", 5.0, "5"),
        (IP, "connection_creation_rate", 2.0**31 - 1, "2147483647"),
    ],
)
def test_values(entity: Entity, key: str, value: float, stored: str) -> None:
    config = changed({"SCRAM-SHA-256": "kept"}, entity, [Change(key, value)])
    assert config == {"SCRAM-SHA-256": "kept", key: stored}
    assert quotas_in(config, entity) == {key: float(stored)}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER, "producer_byte_rate", -1.0),
        (USER, "producer_byte_rate", 1.5),
        (USER, "producer_byte_rate", 1e19),
        (USER, "producer_byte_rate", math.inf),
        (USER, "producer_byte_rate", -math.inf),
        (USER, "producer_byte_rate", math.nan),
        (USER, "request_percentage", math.nan),
        (USER, "connection_creation_rate", 1.0),
        (USER, "SCRAM-SHA-256", 1.0),
        (IP, "connection_creation_rate", 2.0**31),
        (IP, "producer_byte_rate", 1.0),
    ],
)
def test_values_that_are_none(entity: Entity, key: str, value: float) -> None:
    with pytest.raises(Refused) as refused:
        changed({}, entity, [Change(key, value)])
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_removing() -> None:
    old = {"producer_byte_rate": "1", "consumer_byte_rate": "2", "SCRAM-SHA-256": "kept"}
    names = ("producer_byte_rate", "no.such", "SCRAM-SHA-256")
    removed = [Change(name, None) for name in names]
    assert changed(old, USER, removed) == {"consumer_byte_rate": "2", "SCRAM-SHA-256": "kept"}
    assert old["producer_byte_rate"] == "1"


def test_what_is_no_quota_is_not_shown() -> None:
    stored = {"SCRAM-SHA-256": "x", "producer_byte_rate": "many", "consumer_byte_rate": "2"}
    assert quotas_in(stored, USER) == {"consumer_byte_rate": 2.0}
    assert quotas_in(stored, IP) == {}
    assert quotas_in({"request_percentage": "NaN"}, USER) == {}, "Kafka stores it"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e7, "1.0E7"), (9999999.5, "9999999.5"), (1.25e-7, "1.25E-7"), (-3.5e10, "-3.5E10")],
)
def test_numbers_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False))
def test_numbers_come_back(value: float) -> None:
    assert float(java_double(value)) == value


BOTH: Entity = {"user": "u", "client-id": "c"}
DEFAULTS: Entity = {"user": None, "client-id": None}
ENTITIES = [USER, {"user": None}, {"client-id": "c"}, {"client-id": None}, BOTH, DEFAULTS, IP]


@pytest.mark.parametrize(
    ("components", "found", "found_strictly"),
    [
        ([], ENTITIES, []),
        ([("user", 0, "u")], [USER, BOTH], [USER]),
        ([("user", 1, None)], [{"user": None}, DEFAULTS], [{"user": None}]),
        (
            [("user", 2, None)],
            [USER, {"user": None}, BOTH, DEFAULTS],
            [USER, {"user": None}],
        ),
        ([("user", 0, "u"), ("client-id", 2, None)], [BOTH], [BOTH]),
        ([("user", 2, "u"), ("client-id", 1, "c")], [DEFAULTS], [DEFAULTS]),
        ([("client-id", 0, "c")], [{"client-id": "c"}, BOTH], [{"client-id": "c"}]),
        ([("ip", 2, None)], [IP], [IP]),
        ([("user", 0, "")], [], []),
    ],
)
def test_matching(
    components: list[tuple[str, int, str | None]],
    found: list[Entity],
    found_strictly: list[Entity],
) -> None:
    parsed = parse_components(components)
    assert [e for e in ENTITIES if matches(e, parsed, strict=False)] == found
    assert [e for e in ENTITIES if matches(e, parsed, strict=True)] == found_strictly


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", -1, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 2, None), ("ip", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("group", 2, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_components_that_are_none(
    components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(Refused) as refused:
        parse_components(components)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("path", "entity"),
    [
        ("users/u", {"user": "u"}),
        ("users/<default>", {"user": None}),
        ("users/a%40b/clients/c%2Fd", {"user": "a@b", "client-id": "c/d"}),
        ("clients/<default>", {"client-id": None}),
        ("ips/10.0.0.1", {"ip": "10.0.0.1"}),
        ("users", None),
        ("users/u/clients", None),
        ("clients/c/users/u", None),
        ("users/u/clients/c/clients/d", None),
        ("ips/1.2.3.4/clients/c", None),
        ("users/u/topics/t", None),
        ("", None),
    ],
)
def test_the_entity_of_a_changed_path(path: str, entity: Entity | None) -> None:
    assert entity_of(path) == entity
    if entity is not None:
        assert entity_path(entity) == path
