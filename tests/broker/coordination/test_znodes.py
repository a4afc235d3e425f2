"""Kafka's znodes.  Texts marked as captured were written by Apache Kafka 3.9.2."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.coordination import znodes
from odradek.broker.coordination.json_fields import MalformedZnode
from odradek.broker.coordination.znodes import (
    BrokerRegistration,
    ControllerNode,
    Feature,
    LogDirEvent,
    PartitionStateNode,
    ProducerIdBlock,
    RegisteredEndpoint,
    TopicAssignment,
    VersionRange,
)
from odradek.protocol.primitives import uuid_bytes

TOPIC_ID = uuid_bytes("aaXkN2VZTMSJItpqf7dIyA")

# captured
CLUSTER_ID = b'{"version":"1","id":"DF6CJiF1SOisoG3tlt_D8A"}'
CONTROLLER = b'{"version":2,"brokerid":1,"timestamp":"1795218970141","kraftControllerEpoch":-1}'
BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:29191"],"jmx_port":-1,"port":29191,'
    b'"host":"127.0.0.1","version":5,"timestamp":"1795218970067"}'
)
TOPIC = (
    b'{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"aaXkN2VZTMSJItpqf7dIyA",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1]}'
PRODUCER_IDS = b'{"version":1,"broker":2,"block_start":"0","block_end":"999"}'
TOPIC_CONFIG = (
    b'{"version":1,"config":{"min.insync.replicas":"1","segment.bytes":"20000",'
    b'"index.interval.bytes":"200"}}'
)
NO_CONFIG = b'{"version":1,"config":{}}'
CONFIG_CHANGE = b'{"version":2,"entity_path":"users/u%20ser"}'
FEATURE = b'{"features":{},"version":2,"status":1}'

ENDPOINT = RegisteredEndpoint("PLAINTEXT", "127.0.0.1", 29191, "PLAINTEXT")
CAPTURED: list[tuple[object, Callable[[bytes], object], bytes]] = [
    (ControllerNode(1, 1795218970141), ControllerNode.decode, CONTROLLER),
    (BrokerRegistration((ENDPOINT,), 1795218970067), BrokerRegistration.decode, BROKER),
    (TopicAssignment({0: (1, 2), 1: (2, 1)}, TOPIC_ID), TopicAssignment.decode, TOPIC),
    (PartitionStateNode(1, 1, (1,), 1), PartitionStateNode.decode, STATE),
    (ProducerIdBlock(2, 0, 999), ProducerIdBlock.decode, PRODUCER_IDS),
]


@pytest.mark.parametrize(
    ("value", "decode", "data"), CAPTURED, ids=lambda each: type(each).__name__
)
def test_captured_values(
    value: ControllerNode | BrokerRegistration, decode: Callable[[bytes], object], data: bytes
) -> None:
    assert value.encode() == data
    assert decode(data) == value


def test_captured_texts() -> None:
    assert znodes.encode_cluster_id("DF6CJiF1SOisoG3tlt_D8A") == CLUSTER_ID
    assert znodes.decode_cluster_id(CLUSTER_ID) == "DF6CJiF1SOisoG3tlt_D8A"
    assert znodes.encode_controller_epoch(1) == b"1"
    assert znodes.decode_controller_epoch(b"1") == 1
    config = znodes.decode_config(TOPIC_CONFIG)
    assert config["segment.bytes"] == "20000"
    assert znodes.encode_config(config) == TOPIC_CONFIG
    assert znodes.encode_config({}) == NO_CONFIG
    assert znodes.decode_config(NO_CONFIG) == znodes.decode_config(b"") == {}
    assert znodes.encode_config_change("users/u%20ser") == CONFIG_CHANGE
    assert znodes.decode_config_change(CONFIG_CHANGE) == "users/u%20ser"
    assert znodes.EMPTY_FEATURE == FEATURE
    assert Feature.decode(FEATURE) == Feature(enabled=True, version_levels_max={})


def test_notifications() -> None:
    log_dir = b'{"version":1,"broker":3,"event":1}'
    assert LogDirEvent(3).encode() == log_dir
    assert LogDirEvent.decode(log_dir) == LogDirEvent(3)
    isr = b'{"version":1,"partitions":[{"topic":"T","partition":0},{"topic":"U","partition":7}]}'
    assert znodes.encode_isr_change([("T", 0), ("U", 7)]) == isr
    assert znodes.decode_isr_change(isr) == [("T", 0), ("U", 7)]


def test_paths() -> None:
    assert znodes.broker_path(7) == "/brokers/ids/7"
    assert znodes.topic_path("t") == "/brokers/topics/t"
    assert znodes.partitions_path("t") == "/brokers/topics/t/partitions"
    assert znodes.partition_path("t", 3) == "/brokers/topics/t/partitions/3"
    assert znodes.partition_state_path("t", 3) == "/brokers/topics/t/partitions/3/state"
    assert znodes.topic_config_path("t") == "/config/topics/t"
    assert znodes.broker_config_path(7) == "/config/brokers/7"
    assert znodes.broker_config_path(None) == "/config/brokers/<default>"
    assert znodes.delete_topic_path("t") == "/admin/delete_topics/t"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("config_change_0000000012", 12),
        ("/config/changes/config_change_0000000012", 12),
        ("0000000000", 0),
        ("isr_change_12345678901", 2345678901),
        ("after_overflow_-2147483648", -2147483648),
    ],
)
def test_sequence_number(name: str, number: int) -> None:
    assert znodes.sequence_number(name) == number


def test_a_registration_with_everything() -> None:
    registration = BrokerRegistration(
        endpoints=(
            RegisteredEndpoint("CLIENTS", "broker.example", 9093, "SASL_SSL"),
            RegisteredEndpoint("LOCAL", "::1", 9092, "PLAINTEXT"),
            RegisteredEndpoint("SSL", "", 9094, "SSL"),
        ),
        timestamp_ms=1,
        jmx_port=9999,
        rack="r\u00e4ck",
        features={"group.version": VersionRange(0, 1)},
    )
    data = registration.encode()
    values = json.loads(data)
    assert values["endpoints"] == [
        "CLIENTS://broker.example:9093",
        "LOCAL://[::1]:9092",
        "SSL://:9094",
    ]
    assert (values["host"], values["port"], values["rack"]) == ("::1", 9092, "r\u00e4ck")
    assert values["features"] == {"group.version": {"min_version": 0, "max_version": 1}}
    assert BrokerRegistration.decode(data) == registration


def test_a_registration_without_plaintext() -> None:
    registration = BrokerRegistration((RegisteredEndpoint("SSL", "h", 1, "SSL"),), 1)
    values = json.loads(registration.encode())
    assert (values["host"], values["port"]) == (None, -1)
    assert "rack" not in values
    assert BrokerRegistration.decode(registration.encode()) == registration


def test_older_registrations() -> None:
    v1 = b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666"}'
    v2 = v1[:-1].replace(b":1,", b":2,", 1) + b',"endpoints":["PLAINTEXT://h:9092"]}'
    v3 = v2[:-1].replace(b":2,", b":3,", 1) + b',"rack":"dc1"}'
    expected = BrokerRegistration(
        (RegisteredEndpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),), 2233345666, 9999
    )
    assert BrokerRegistration.decode(v1) == expected
    assert BrokerRegistration.decode(v2) == expected
    assert BrokerRegistration.decode(v3) == expected._replace(rack="dc1")
    with pytest.raises(MalformedZnode, match="version 0"):
        BrokerRegistration.decode(v1.replace(b":1,", b":0,", 1))


def test_older_topics() -> None:
    v1 = TopicAssignment.decode(b'{"version":1,"partitions":{"10":[1],"2":[3]}}')
    assert v1 == TopicAssignment({2: (3,), 10: (1,)}, None)
    assert list(v1.partitions) == [2, 10]
    assert b"topic_id" not in v1.encode()
    v2 = b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]}}'
    assert TopicAssignment.decode(v2) == TopicAssignment({0: (1, 2)}, None, {0: (2,)})


def test_older_texts() -> None:
    v1 = b'{"version":1,"brokerid":4,"timestamp":"17"}'
    assert ControllerNode.decode(v1) == ControllerNode(4, 17, -1)
    change = b'{"version":1,"entity_type":"topics","entity_name":"T"}'
    assert znodes.decode_config_change(change) == "topics/T"
    v1 = b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
    assert Feature.decode(v1) == Feature(enabled=False, version_levels_max={"f": 2})


def test_recovering_partition() -> None:
    state = PartitionStateNode(1, 5, (1,), 9, leader_recovery_state=1)
    assert json.loads(state.encode())["leader_recovery_state"] == 1
    assert PartitionStateNode.decode(state.encode()) == state


SECRET = znodes.encode_scram_secret(bytes(17))
DECODERS: list[Callable[[bytes], object]] = [
    ControllerNode.decode,
    BrokerRegistration.decode,
    TopicAssignment.decode,
    PartitionStateNode.decode,
    ProducerIdBlock.decode,
    LogDirEvent.decode,
    Feature.decode,
    znodes.decode_cluster_id,
    znodes.decode_scram_secret,
    znodes.decode_controller_epoch,
    znodes.decode_config,
    znodes.decode_config_change,
    znodes.decode_isr_change,
]
GOOD = [each[2] for each in CAPTURED] + [CLUSTER_ID, TOPIC_CONFIG, CONFIG_CHANGE, FEATURE]
NO_OBJECTS = (
    *(b"\xff", b"nul", b"[]", b"7.5", b'"text"', b"[" * 100_000, b"9" * 10_000),
    *(b"null", b"\x00"),
)


@pytest.mark.parametrize("decode", DECODERS)
def test_data_that_is_no_object(decode: Callable[[bytes], object]) -> None:
    assert not [data for data in NO_OBJECTS if not is_malformed(decode, data)]


def is_malformed(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except MalformedZnode:
        return True
    return False


@pytest.mark.parametrize(
    ("decode", "captured", "good", "bad"),
    [
        (PartitionStateNode.decode, STATE, b'"leader":1', b'"leader":true'),
        (PartitionStateNode.decode, STATE, b'"leader":1', b'"leader":2147483648'),
        (PartitionStateNode.decode, STATE, b'"leader":1', b'"leader":"1"'),
        (PartitionStateNode.decode, STATE, b'"leader":1', b'"leader":1.0'),
        (PartitionStateNode.decode, STATE, b'"leader":1,', b""),
        (PartitionStateNode.decode, STATE, b"[1]", b'["1"]'),
        (PartitionStateNode.decode, STATE, b"[1]", b"{}"),
        (TopicAssignment.decode, TOPIC, b'"0"', b'"x"'),
        (TopicAssignment.decode, TOPIC, b'"0"', '"\u0664"'.encode()),
        (TopicAssignment.decode, TOPIC, b'"0"', b'"-"'),
        (TopicAssignment.decode, TOPIC, b"[1,2]", b"7"),
        (TopicAssignment.decode, TOPIC, b"aaXk", b"aa"),
        (TopicAssignment.decode, TOPIC, b"aaXkN2VZTMSJItpqf7dIyA", b""),
        (TopicAssignment.decode, TOPIC, b"aaXkN2VZTMSJItpqf7dIyA", b"aaXk*N2VZTMSJItpqf7dIyA"),
        (TopicAssignment.decode, TOPIC, b"{}", b"[]"),
        (TopicAssignment.decode, TOPIC, b"partitions", b"participants"),
        (BrokerRegistration.decode, BROKER, b"PLAINTEXT://127.0.0.1:29191", b"127.0.0.1:29191"),
        (BrokerRegistration.decode, BROKER, b":29191", b":99999999999999999999"),
        (BrokerRegistration.decode, BROKER, b'"PLAINTEXT":"PLAINTEXT"', b'"PLAINTEXT":"ROT13"'),
        (BrokerRegistration.decode, BROKER, b'"PLAINTEXT":"PLAINTEXT"', b'"PLAINTEXT":7'),
        (BrokerRegistration.decode, BROKER, b'["PLAINTEXT://127.0.0.1:29191"]', b"[7]"),
        (ProducerIdBlock.decode, PRODUCER_IDS, b'"0"', b'"zero"'),
        (ProducerIdBlock.decode, PRODUCER_IDS, b'"999"', b'"9223372036854775808"'),
        (znodes.decode_config, TOPIC_CONFIG, b'"20000"', b"20000"),
        (znodes.decode_config, TOPIC_CONFIG, b'"20000"', b'"\\ud800"'),
        (znodes.decode_scram_secret, SECRET, b"AAA=", b"AAA"),
        (znodes.decode_scram_secret, SECRET, b"AAAA", b""),
        (znodes.decode_cluster_id, CLUSTER_ID, b'"DF6CJiF1SOisoG3tlt_D8A"', b"null"),
    ],
)
def test_wrong_fields(
    decode: Callable[[bytes], object], captured: bytes, good: bytes, bad: bytes
) -> None:
    assert good in captured
    decode(captured)
    with pytest.raises(MalformedZnode):
        decode(captured.replace(good, bad, 1))


def test_escapes_that_are_whole_characters() -> None:
    config = znodes.decode_config(b'{"config":{"k":"\\u00e4\\ud83d\\ude00"}}')
    assert config == {"k": "\u00e4\U0001f600"}


@pytest.mark.slow
@given(data=st.binary(max_size=40) | st.sampled_from(GOOD).flatmap(lambda good: cut(good)))
def test_anything_else_is_one_error(data: bytes) -> None:
    for decode in DECODERS:
        try:
            decode(data)
        except MalformedZnode:
            continue


def cut(good: bytes) -> st.SearchStrategy[bytes]:
    """`good` with one byte replaced."""
    position = st.integers(0, len(good) - 1)
    return st.builds(
        lambda at, byte: good[:at] + byte + good[at + 1 :], position, st.binary(max_size=1)
    )


int32s = st.integers(-(2**31), 2**31 - 1)
replicas = st.dictionaries(st.integers(0, 2**31 - 1), st.lists(int32s).map(tuple), max_size=3)


@pytest.mark.slow
@given(
    assignment=st.builds(
        TopicAssignment,
        replicas,
        st.none() | st.binary(min_size=16, max_size=16),
        replicas,
        replicas,
    ),
    state=st.builds(
        PartitionStateNode, int32s, int32s, st.lists(int32s).map(tuple), int32s, st.integers(0, 1)
    ),
    config=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
def test_round_trips(
    assignment: TopicAssignment, state: PartitionStateNode, config: dict[str, str]
) -> None:
    assert TopicAssignment.decode(assignment.encode()) == assignment
    assert PartitionStateNode.decode(state.encode()) == state
    assert znodes.decode_config(znodes.encode_config(config)) == config
