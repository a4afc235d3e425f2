"""What is said about settings of topics: changed, replaced, refused, and shown afterwards."""

from collections.abc import Callable, Sequence
from typing import Final

from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.wire.admin_talk import (
    APPEND,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    SUBTRACT,
    TOPIC,
    Conversation,
    Op,
    Resource,
    change,
    named,
    replace,
    show,
)
from tests.wire.talk import Talk, versions

ALTER, INCREMENTAL = 33, 44
SHOWN: Final = (
    "message.timestamp.before.max.ms",
    "cleanup.policy",
    "segment.bytes",
    "max.message.bytes",
)

# Sent to a topic that has message.timestamp.before.max.ms=5000 and cleanup.policy=compact.
CHANGES: Final[dict[str, Sequence[Op]]] = {
    "set": [Op("segment.bytes", "20000")],
    "set_again": [Op("message.timestamp.before.max.ms", "6000")],
    "set_the_same": [Op("message.timestamp.before.max.ms", "5000")],
    "set_to_the_default": [Op("segment.bytes", "1073741824")],
    "delete": [Op("message.timestamp.before.max.ms", None, DELETE)],
    "delete_with_a_value": [Op("message.timestamp.before.max.ms", "7", DELETE)],
    "delete_what_is_not_set": [Op("segment.bytes", None, DELETE)],
    "delete_an_unknown_key": [Op("no.such", None, DELETE)],
    "append": [Op("cleanup.policy", "delete", APPEND)],
    "append_what_is_there": [Op("cleanup.policy", "compact", APPEND)],
    "append_two": [Op("cleanup.policy", "delete,compact", APPEND)],
    "append_nothing": [Op("cleanup.policy", "", APPEND)],
    "append_a_bad_value": [Op("cleanup.policy", "burn", APPEND)],
    "append_to_what_is_no_list": [Op("segment.bytes", "20000", APPEND)],
    "append_null": [Op("cleanup.policy", None, APPEND)],
    "subtract": [Op("cleanup.policy", "compact,delete"), Op("segment.bytes", "20000")],
    "subtract_the_last": [Op("cleanup.policy", "compact", SUBTRACT)],
    "subtract_what_is_not_there": [Op("cleanup.policy", "delete", SUBTRACT)],
    "subtract_from_what_is_no_list": [Op("message.timestamp.before.max.ms", "5000", SUBTRACT)],
    "set_an_unknown_key": [Op("no.such", "1")],
    "set_an_empty_key": [Op("", "1")],
    "set_no_number": [Op("segment.bytes", "many")],
    "set_too_small_a_number": [Op("segment.bytes", "1")],
    "set_too_large_a_number": [Op("segment.bytes", "99999999999")],
    "set_a_bad_choice": [Op("message.timestamp.type", "Yesterday")],
    "set_no_truth": [Op("preallocate", "maybe")],
    "set_null": [Op("segment.bytes", None)],
    "set_nothing": [Op("segment.bytes", "")],
    "set_with_spaces": [Op("segment.bytes", " 20000 ")],
    "set_a_list_with_spaces": [Op("cleanup.policy", " compact , delete ")],
    "operation_4": [Op("segment.bytes", "20000", 4)],
    "operation_minus_1": [Op("segment.bytes", "20000", -1)],
    "a_key_twice": [Op("segment.bytes", "20000"), Op("segment.bytes", "30000")],
    "a_good_one_and_a_bad_one": [
        Op("segment.bytes", "20000"),
        Op("message.timestamp.before.max.ms", "x"),
    ],
    "several": [
        Op("segment.bytes", "20000"),
        Op("message.timestamp.before.max.ms", None, DELETE),
        Op("cleanup.policy", "delete", APPEND),
        Op("max.message.bytes", "2000"),
    ],
    "no_changes": [],
    "a_key_of_brokers": [Op("log.segment.bytes", "20000")],
    "throttled_replicas": [Op("leader.replication.throttled.replicas", "0:0", APPEND)],
}


def _topic(talk: Talk, stem: str) -> str:
    return talk.create(stem, message_timestamp_before_max_ms="5000", cleanup_policy="compact")


def _changing(ops: Sequence[Op]) -> Conversation:
    """The changes in each version, only validated and then done, and what is shown after each."""

    def talk_about(talk: Talk) -> None:
        for version in versions(INCREMENTAL):
            name = _topic(talk, f"t{version}")
            for only in (True, False):
                label = f"v{version} {'validated' if only else 'done'}"
                resource = Resource(TOPIC, name, ops)
                change(talk, label, resource, version=version, validate_only=only)
                show(talk, f"{label}, shown", TOPIC, name, *SHOWN, *(op.key for op in ops))

    return talk_about


def _replacing(ops: Sequence[Op]) -> Conversation:
    """The same with AlterConfigs, which resets what is not named."""

    def talk_about(talk: Talk) -> None:
        for version in versions(ALTER):
            name = _topic(talk, f"t{version}")
            for only in (True, False):
                label = f"v{version} {'validated' if only else 'done'}"
                resource = Resource(TOPIC, name, ops)
                replace(talk, label, resource, version=version, validate_only=only)
                show(talk, f"{label}, shown", TOPIC, name, *SHOWN, *(op.key for op in ops))

    return talk_about


REPLACEMENTS: Final[dict[str, Sequence[Op]]] = {
    "one": [Op("segment.bytes", "20000")],
    "nothing": [],
    "two": [Op("segment.bytes", "20000"), Op("message.timestamp.before.max.ms", "8000")],
    "unknown_key": [Op("no.such", "1"), Op("segment.bytes", "20000")],
    "bad_value": [Op("segment.bytes", "many")],
    "null_value": [Op("segment.bytes", None)],
    "key_twice": [Op("segment.bytes", "20000"), Op("segment.bytes", "30000")],
    "list": [Op("cleanup.policy", "compact,delete")],
}


def incremental_subtract_one_of_two(talk: Talk) -> None:
    """A list that keeps an element, and loses the one that is named."""
    name = talk.create("t", cleanup_policy="compact,delete")
    for label, value in (("one", "compact"), ("again", "compact"), ("both", "delete,compact")):
        change(talk, label, Resource(TOPIC, name, [Op("cleanup.policy", value, SUBTRACT)]))
        show(talk, f"{label}, shown", TOPIC, name, "cleanup.policy")


def incremental_append_to_a_default(talk: Talk) -> None:
    """A list that is not set begins with its default."""
    name = talk.create("t")
    change(talk, "append", Resource(TOPIC, name, [Op("cleanup.policy", "compact", APPEND)]))
    show(talk, "shown", TOPIC, name, "cleanup.policy")


def incremental_several_topics(talk: Talk) -> None:
    """Each topic is changed or refused for itself."""
    first, second = talk.create("a"), talk.create("b")
    good, bad = (
        [Op("message.timestamp.before.max.ms", "7000")],
        [Op("message.timestamp.before.max.ms", "x")],
    )
    change(
        talk,
        "good, bad, absent",
        Resource(TOPIC, first, good),
        Resource(TOPIC, second, bad),
        Resource(TOPIC, talk.topic("absent"), good),
    )
    for name in (first, second):
        show(talk, name, TOPIC, name, "message.timestamp.before.max.ms")
    change(talk, "none")


def incremental_a_topic_twice(talk: Talk) -> None:
    """The same topic with different changes in one request."""
    name = talk.create("t")
    first = Resource(TOPIC, name, [Op("message.timestamp.before.max.ms", "7000")])
    second = Resource(TOPIC, name, [Op("segment.bytes", "20000")])
    change(talk, "twice", first, second)
    show(talk, "shown", TOPIC, name, *SHOWN)


def _bad_resources(ask: Callable[..., None], talk: Talk, api_key: int) -> None:
    ops = [Op("message.timestamp.before.max.ms", "7000")]
    for version in versions(api_key):
        for label, kind, name in (
            ("absent", TOPIC, talk.topic("absent")),
            ("bad name", TOPIC, "a b"),
            ("empty name", TOPIC, ""),
            ("kind 0", 0, "x"),
            ("kind 1", 1, "x"),
            ("kind 3", 3, "x"),
            ("kind 99", 99, "x"),
            ("kind -1", -1, "x"),
            ("client metrics", CLIENT_METRICS, "x"),
            ("group", GROUP, "x"),
        ):
            for only in (True, False):
                resource = Resource(kind, name, ops)
                label_only = f"v{version} {label} {'validated' if only else 'done'}"
                ask(talk, label_only, resource, version=version, validate_only=only)


def incremental_bad_resources(talk: Talk) -> None:
    """Topics that are not there, and kinds of resources that have no such settings."""
    _bad_resources(change, talk, INCREMENTAL)


def replace_bad_resources(talk: Talk) -> None:
    """The same with AlterConfigs."""
    _bad_resources(replace, talk, ALTER)


def incremental_internal_topic_names(talk: Talk) -> None:
    """Topics of the broker's own that were not made yet."""
    for name in ("__consumer_offsets_x", "__transaction_state"):
        change(talk, name, Resource(TOPIC, name, [Op("message.timestamp.before.max.ms", "7000")]))


def replace_several_topics(talk: Talk) -> None:
    """Each topic is replaced or refused for itself."""
    first, second = _topic(talk, "a"), _topic(talk, "b")
    replace(
        talk,
        "good, bad, absent",
        Resource(TOPIC, first, [Op("segment.bytes", "20000")]),
        Resource(TOPIC, second, [Op("segment.bytes", "x")]),
        Resource(TOPIC, talk.topic("absent"), []),
    )
    for name in (first, second):
        show(talk, name, TOPIC, name, *SHOWN)
    replace(talk, "none")


def loggers_of_an_unknown_broker(talk: Talk) -> None:
    """Levels of loggers, of a broker that is not this one."""
    for name in ("7", "x", ""):
        change(talk, f"changed {name!r}", Resource(LOGGER, name, [Op("root", "INFO")]))
        replace(talk, f"replaced {name!r}", Resource(LOGGER, name, [Op("root", "INFO")]))


def describe_a_whole_topic_after_changes(talk: Talk) -> None:
    """Every setting of a topic, of which some were set at its making and some later."""
    name = _topic(talk, "t")
    ops = [
        Op("segment.bytes", "20000"),
        Op("message.timestamp.before.max.ms", None, DELETE),
        Op("max.message.bytes", "5000"),
    ]
    change(talk, "changed", Resource(TOPIC, name, ops))
    show(talk, "shown", TOPIC, name)


def describe_after_deleting_and_making_again(talk: Talk) -> None:
    """A topic that is made again begins without the settings of the old one."""
    name = _topic(talk, "t")
    change(talk, "changed", Resource(TOPIC, name, [Op("segment.bytes", "20000")]))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
    assert talk.exchange(request, 6).responses[0].error_code == 0
    show(talk, "deleted", TOPIC, name, *SHOWN)
    again = talk.create("t")
    show(talk, "made again", TOPIC, again, *SHOWN)


CREATED_WITH: Final[dict[str, dict[str, str | None]]] = {
    "several": {
        "segment.bytes": "20000",
        "message.timestamp.before.max.ms": "3",
        "min.insync.replicas": "1",
    },
    "a_list": {"cleanup.policy": "compact,delete"},
    "the_defaults": {"segment.bytes": "1073741824", "cleanup.policy": "delete"},
    "an_unknown_key": {"segment.bytes": "20000", "no.such": "1"},
    "a_bad_value": {"segment.bytes": "20000", "message.timestamp.before.max.ms": "many"},
    "a_bad_choice": {"message.timestamp.type": "Never"},
    "a_null_value": {"segment.bytes": None},
    "an_empty_list": {"cleanup.policy": ""},
    "a_number_with_a_sign": {"segment.bytes": "+20000"},
    "a_number_in_hexadecimal": {"segment.bytes": "0x5000"},
    "upper_case": {"preallocate": "FALSE", "message.timestamp.type": "createtime"},
}


def _creating(configs: dict[str, str | None]) -> Conversation:
    def talk_about(talk: Talk) -> None:
        for only in (True, False):
            topic = CreatableTopic(
                name=talk.topic("t"),
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=only)
            talk.ask("validated" if only else "made", request, 7)
        show(talk, "shown", TOPIC, topic.name, *SHOWN, *configs)

    return talk_about


CONVERSATIONS: tuple[Conversation, ...] = (
    *(named(f"incremental_{name}", _changing(ops)) for name, ops in CHANGES.items()),
    *(named(f"replace_with_{name}", _replacing(ops)) for name, ops in REPLACEMENTS.items()),
    *(named(f"create_with_{name}", _creating(configs)) for name, configs in CREATED_WITH.items()),
    incremental_subtract_one_of_two,
    incremental_append_to_a_default,
    incremental_several_topics,
    incremental_a_topic_twice,
    incremental_bad_resources,
    incremental_internal_topic_names,
    replace_bad_resources,
    replace_several_topics,
    loggers_of_an_unknown_broker,
    describe_a_whole_topic_after_changes,
    describe_after_deleting_and_making_again,
)
