"""What is said about settings of brokers, and what settings do once they are changed.

Who changes what all brokers share puts it back, so that the conversations do not disturb others.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from odradek.protocol.errors import ErrorCode
from tests.support.messages import fetch_request, produce_request
from tests.wire.admin_talk import (
    APPEND,
    BROKER,
    DELETE,
    PRODUCE_VERSION,
    SUBTRACT,
    TOPIC,
    Conversation,
    Op,
    Resource,
    change,
    change_quietly,
    eventually,
    named,
    produce,
    replace,
    show,
    value_of,
    wait_for,
)
from tests.wire.talk import Talk, batch, batches, versions

ALTER, INCREMENTAL = 33, 44
CLUSTER: Final = ""
OWN: Final = "0"
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
SEGMENT, MESSAGE = "log.segment.bytes", "message.max.bytes"
FETCH_VERSION: Final = 11

REFUSED: Final[dict[str, Sequence[Op]]] = {
    "read_only": [Op("num.partitions", "3")],
    "read_only_and_a_good_one": [Op("num.partitions", "3"), Op(SEGMENT, "30000")],
    "read_only_as_it_is": [Op("num.partitions", "1")],
    "delete_read_only": [Op("num.partitions", None, DELETE)],
    "no_number": [Op(SEGMENT, "many")],
    "too_small": [Op(SEGMENT, "1")],
    "null": [Op(SEGMENT, None)],
    "empty": [Op(SEGMENT, "")],
    "twice": [Op(SEGMENT, "30000"), Op(SEGMENT, "40000")],
    "append_to_no_list": [Op(SEGMENT, "1", APPEND)],
    "subtract_from_no_list": [Op(SEGMENT, "1", SUBTRACT)],
    "operation_9": [Op(SEGMENT, "1", 9)],
    "bad_policy": [Op("log.cleanup.policy", "burn")],
}


@contextmanager
def _restored(talk: Talk, *keys: str) -> Iterator[None]:
    """Delete these keys of this broker and of all brokers at the end."""
    try:
        yield
    finally:
        for name in (OWN, CLUSTER):
            change_quietly(talk, Resource(BROKER, name, [Op(key, None, DELETE) for key in keys]))
        for key in keys:
            _wait_until_deleted(talk, key)


def _wait_for_value(talk: Talk, segment_bytes: str) -> None:
    """Return once this broker has this setting from wherever."""
    eventually(lambda: value_of(talk, BROKER, OWN, SEGMENT)[0] == segment_bytes)


def _wait_until_deleted(talk: Talk, key: str) -> None:
    eventually(lambda: value_of(talk, BROKER, OWN, key)[1] >= STATIC)


def _refusing(ops: Sequence[Op]) -> Conversation:
    def talk_about(talk: Talk) -> None:
        for version in versions(INCREMENTAL):
            for name in (OWN, CLUSTER):
                for only in (True, False):
                    label = f"v{version} {name!r} {'validated' if only else 'done'}"
                    resource = Resource(BROKER, name, ops)
                    change(talk, label, resource, version=version, validate_only=only)
                show(talk, f"v{version} {name!r} shown", BROKER, name, *(op.key for op in ops))
                deleted = [Op(key, None, DELETE) for key in {op.key for op in ops}]
                change(talk, f"v{version} {name!r} deleted", Resource(BROKER, name, deleted))

    return talk_about


def broker_refuses_a_key_of_topics(talk: Talk) -> None:
    """A key that brokers do not have; Kafka takes it, and shows it or not, a little later."""
    ops = [Op("segment.bytes", "30000")]
    for version in versions(INCREMENTAL):
        for name in (OWN, CLUSTER):
            for only in (True, False):
                label = f"v{version} {name!r} {'validated' if only else 'done'}"
                resource = Resource(BROKER, name, ops)
                change(talk, label, resource, version=version, validate_only=only)
            deleted = Resource(BROKER, name, [Op("segment.bytes", None, DELETE)])
            change(talk, f"v{version} {name!r} deleted", deleted)


def broker_bad_names(talk: Talk) -> None:
    """Brokers that are not this one."""
    ops = [Op(SEGMENT, "30000")]
    for name in ("7", "-1", "x", "0.5", "99999999999"):
        for only in (True, False):
            label = f"{name} {'validated' if only else 'done'}"
            change(talk, f"changed {label}", Resource(BROKER, name, ops), validate_only=only)
            replace(talk, f"replaced {label}", Resource(BROKER, name, ops), validate_only=only)


def broker_set_and_delete(talk: Talk) -> None:
    """A setting of this broker only, in each version."""
    with _restored(talk, SEGMENT):
        for version in versions(INCREMENTAL):
            own = Resource(BROKER, OWN, [Op(SEGMENT, "30000")])
            change(talk, f"v{version} validated", own, version=version, validate_only=True)
            show(talk, f"v{version} as it was", BROKER, OWN, SEGMENT)
            change(talk, f"v{version} set", own, version=version)
            wait_for(talk, BROKER, OWN, SEGMENT, "30000", DYNAMIC_BROKER)
            show(talk, f"v{version} own", BROKER, OWN, SEGMENT)
            show(talk, f"v{version} of all", BROKER, CLUSTER, SEGMENT)
            deleted = Resource(BROKER, OWN, [Op(SEGMENT, None, DELETE)])
            change(talk, f"v{version} deleted", deleted, version=version)
            wait_for(talk, BROKER, OWN, SEGMENT, "1073741824", DEFAULT)
            show(talk, f"v{version} after", BROKER, OWN, SEGMENT)


def broker_layers(talk: Talk) -> None:
    """Its own setting comes before that of all brokers, which comes before the default."""
    topic = talk.create("t")
    with _restored(talk, SEGMENT):
        change(talk, "of all", Resource(BROKER, CLUSTER, [Op(SEGMENT, "40000")]))
        wait_for(talk, BROKER, OWN, SEGMENT, "40000", DYNAMIC_DEFAULT)
        show(talk, "one layer", BROKER, OWN, SEGMENT)
        show(talk, "one layer, of all", BROKER, CLUSTER, SEGMENT)
        show(talk, "one layer, whole cluster", BROKER, CLUSTER)
        change(talk, "own", Resource(BROKER, OWN, [Op(SEGMENT, "30000")]))
        wait_for(talk, BROKER, OWN, SEGMENT, "30000", DYNAMIC_BROKER)
        show(talk, "two layers", BROKER, OWN, SEGMENT)
        wait_for(talk, TOPIC, topic, "segment.bytes", "30000", DYNAMIC_BROKER)
        show(talk, "a topic below them", TOPIC, topic, "segment.bytes")
        change_quietly(talk, Resource(TOPIC, topic, [Op("segment.bytes", "20000")]))
        show(talk, "a topic with its own", TOPIC, topic, "segment.bytes")
        change(talk, "own deleted", Resource(BROKER, OWN, [Op(SEGMENT, None, DELETE)]))
        wait_for(talk, BROKER, OWN, SEGMENT, "40000", DYNAMIC_DEFAULT)
        show(talk, "one layer again", BROKER, OWN, SEGMENT)
    show(talk, "no layer", BROKER, OWN, SEGMENT)


def broker_replaced(talk: Talk) -> None:
    """AlterConfigs deletes what it does not name."""
    with _restored(talk, SEGMENT, MESSAGE):
        for version in versions(ALTER):
            both = [Op(SEGMENT, "30000"), Op(MESSAGE, "900000")]
            for label, ops, expected in (
                ("both", both, "30000"),
                ("one", [Op(SEGMENT, "31000")], "31000"),
                ("bad", [Op(SEGMENT, "x")], "31000"),
                ("null", [Op(SEGMENT, None)], "31000"),
                ("read-only", [Op("num.partitions", "3")], "31000"),
                ("none", [], "1073741824"),
            ):
                replace(
                    talk, f"v{version} {label}", Resource(BROKER, CLUSTER, ops), version=version
                )
                eventually(lambda value=expected: value_of(talk, BROKER, OWN, SEGMENT)[0] == value)  # type: ignore[misc]
                show(talk, f"v{version} {label} shown", BROKER, CLUSTER, SEGMENT, MESSAGE)


def broker_and_topic_together(talk: Talk) -> None:
    """Resources of several kinds in one request; each is changed or refused for itself."""
    topic = talk.create("t")
    with _restored(talk, SEGMENT):
        change(
            talk,
            "changed",
            Resource(TOPIC, topic, [Op("message.timestamp.before.max.ms", "7000")]),
            Resource(BROKER, CLUSTER, [Op(SEGMENT, "40000")]),
            Resource(BROKER, "7", [Op(SEGMENT, "40000")]),
            Resource(BROKER, OWN, [Op("num.partitions", "3")]),
        )
        wait_for(talk, BROKER, OWN, SEGMENT, "40000", DYNAMIC_DEFAULT)
        show(talk, "topic", TOPIC, topic, "message.timestamp.before.max.ms", "segment.bytes")


# What the settings do.


def _produces(talk: Talk, label: str, topic: str, size_bytes: int, expected: int) -> None:
    """Note what becomes of a batch, once it becomes that."""
    value = b"x" * size_bytes
    eventually(lambda: produce(talk, topic, value) == expected)
    talk.note(label, produce(talk, topic, value))


def effect_of_max_message_bytes(talk: Talk) -> None:
    """A batch that was small enough is too large, and small enough again."""
    topic = talk.create("t")
    too_large = ErrorCode.MESSAGE_TOO_LARGE
    _produces(talk, "at first", topic, 5000, 0)
    change(talk, "lowered", Resource(TOPIC, topic, [Op("max.message.bytes", "1000")]))
    _produces(talk, "large", topic, 5000, too_large)
    _produces(talk, "small", topic, 500, 0)
    change(talk, "reset", Resource(TOPIC, topic, [Op("max.message.bytes", None, DELETE)]))
    _produces(talk, "large again", topic, 5000, 0)


def effect_of_message_max_bytes(talk: Talk) -> None:
    """The same for all topics that have no setting of their own."""
    plain, own = talk.create("plain"), talk.create("own", max_message_bytes="10000")
    too_large = ErrorCode.MESSAGE_TOO_LARGE
    with _restored(talk, MESSAGE):
        change(talk, "lowered", Resource(BROKER, CLUSTER, [Op(MESSAGE, "1000")]))
        _produces(talk, "plain", plain, 5000, too_large)
        _produces(talk, "own", own, 5000, 0)
        change(talk, "own lowered", Resource(TOPIC, own, [Op("max.message.bytes", "2000")]))
        _produces(talk, "own now", own, 5000, too_large)
        change(talk, "raised for this broker", Resource(BROKER, OWN, [Op(MESSAGE, "20000")]))
        _produces(talk, "plain now", plain, 5000, 0)
    _produces(talk, "plain in the end", plain, 20_000, 0)


def effect_of_timestamp_type(talk: Talk) -> None:
    """Times of records become those of their arrival, and the producer's again."""
    topic = talk.create("t")
    key = "message.timestamp.type"
    produce(talk, topic, b"0")
    for value, is_now in (("LogAppendTime", True), ("CreateTime", False)):
        change(talk, value, Resource(TOPIC, topic, [Op(key, value)]))
        talk.note(f"{value} produced", _becomes_timed_by_broker(talk, topic, is_now))


def _becomes_timed_by_broker(talk: Talk, topic: str, expected: bool) -> bool:
    eventually(lambda: _is_timed_by_broker(talk, topic) == expected)
    return _is_timed_by_broker(talk, topic)


def _is_timed_by_broker(talk: Talk, topic: str) -> bool:
    """Whether a record gets the time of its arrival when it is written."""
    answer = talk.exchange(produce_request(topic, {0: batch(b"x")}), PRODUCE_VERSION)
    offset = answer.responses[0].partition_responses[0].base_offset
    answer = talk.exchange(fetch_request(topic, offset), FETCH_VERSION)
    found = batches(answer.responses[0].partitions[0].records)
    assert isinstance(found, list) and isinstance(found[0], dict)
    return bool(found[0]["max_timestamp"] == "(now)")


def effect_of_timestamp_bounds(talk: Talk) -> None:
    """Records that are too old are refused."""
    topic = talk.create("t")
    before = "message.timestamp.before.max.ms"
    _produces(talk, "at first", topic, 1, 0)
    change(talk, "bounded", Resource(TOPIC, topic, [Op(before, "60000")]))
    _produces(talk, "old", topic, 1, ErrorCode.INVALID_TIMESTAMP)
    change(talk, "reset", Resource(TOPIC, topic, [Op(before, None, DELETE)]))
    _produces(talk, "old again", topic, 1, 0)


def effect_of_segment_bytes(talk: Talk) -> None:
    """A batch larger than a segment may be is refused."""
    topic = talk.create("t")
    change(talk, "lowered", Resource(TOPIC, topic, [Op("segment.bytes", "2000")]))
    _produces(talk, "large", topic, 5000, ErrorCode.RECORD_LIST_TOO_LARGE)
    _produces(talk, "small", topic, 500, 0)


CONVERSATIONS: tuple[Callable[[Talk], None], ...] = (
    *(named(f"broker_refuses_{name}", _refusing(ops)) for name, ops in REFUSED.items()),
    broker_refuses_a_key_of_topics,
    broker_bad_names,
    broker_set_and_delete,
    broker_layers,
    broker_replaced,
    broker_and_topic_together,
    effect_of_max_message_bytes,
    effect_of_message_max_bytes,
    effect_of_timestamp_type,
    effect_of_timestamp_bounds,
    effect_of_segment_bytes,
)
