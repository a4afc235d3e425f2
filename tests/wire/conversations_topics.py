"""What is said about topics: Metadata, CreateTopics, CreatePartitions, DeleteTopics."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.wire.admin_talk import eventually
from tests.wire.talk import Talk, versions

METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 3, 19, 20, 37
UNKNOWN_ID = bytes(range(16))
TIMEOUT_MS = 10_000
BAD_NAMES = ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\0b", "a:b")


def metadata(talk: Talk) -> None:
    """Topics by name and id, all and none, good and bad."""
    name, topic_id = talk.create_with_id("t", 3)
    for version in versions(METADATA):
        for operations in (False, True) if version >= 8 else (False,):
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=operations,
                include_cluster_authorized_operations=operations,
            )
            talk.ask(f"v{version} operations {operations}", request, version)
        if version >= 1:
            talk.ask(f"v{version} none", MetadataRequest(topics=[]), version)
        if version >= 4:
            absent = _named(talk.topic("absent"))
            talk.ask(f"v{version} absent", absent, version)
            talk.ask(f"v{version} twice", _named(name, name, talk.topic("absent")), version)
            internal = _named("__consumer_offsets", "__transaction_state")
            talk.ask(f"v{version} internal", internal, version)
        for bad in BAD_NAMES:
            talk.ask(f"v{version} {bad[:20]!r}", _named(bad), version)
        if version >= 10:
            for label, asked in _by_id(name, topic_id).items():
                request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
                talk.ask(f"v{version} {label}", request, version)
    talk.ask("v0 of an unknown id", _named(name), 0)


def _named(*names: str) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _by_id(name: str, topic_id: bytes) -> dict[str, list[MetadataRequestTopic]]:
    return {
        "id": [MetadataRequestTopic(name=None, topic_id=topic_id)],
        "unknown id": [MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID)],
        "id and name": [MetadataRequestTopic(name=name, topic_id=topic_id)],
        "unknown id and name": [MetadataRequestTopic(name=name, topic_id=UNKNOWN_ID)],
        "neither": [MetadataRequestTopic(name=None)],
        "an id, and a name": [
            MetadataRequestTopic(name=None, topic_id=topic_id),
            MetadataRequestTopic(name=name),
        ],
        "id twice": [
            MetadataRequestTopic(name=None, topic_id=topic_id),
            MetadataRequestTopic(name=None, topic_id=topic_id),
        ],
    }


def _is_made(talk: Talk, request: MetadataRequest, version: int) -> bool:
    topic = talk.exchange(request, version).topics[0]
    if topic.error_code == 0:
        talk.topic_ids[topic.topic_id] = "made"
    return bool(topic.error_code == 0)


def auto_create(talk: Talk) -> None:
    """Topics that a Metadata request makes; asked again until they are there."""
    taken = talk.create("auto_taken")
    for version in versions(METADATA):
        names = [talk.topic(f"auto_{version}"), taken, talk.topic(f"auto_{version}_b"), "a b"]
        several = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        talk.ask(f"v{version} at first", several, version)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=names[0])])
        eventually(partial(_is_made, talk, request, version))
        talk.ask(f"v{version}", request, version)
        delete = DeleteTopicsRequest(topic_names=[names[0]], timeout_ms=TIMEOUT_MS)
        talk.ask(f"v{version} deleted", delete, 5)
        talk.ask(f"v{version} when deleted", request, version)
    collides = MetadataRequest(
        topics=[MetadataRequestTopic(name=talk.topic("auto.1.b"))], allow_auto_topic_creation=True
    )
    talk.ask("collides", collides, 12)


def create_topics(talk: Talk) -> None:
    """Good topics and every refusal, in every version, created or only validated."""
    taken = talk.create("taken_one")
    for version in versions(CREATE_TOPICS):
        for only in (False, True) if version >= 1 else (False,):
            prefix = f"{talk.topic('new')}-{version}-{only}"
            for label, topic in _creations(prefix, taken, version).items():
                _create(talk, f"v{version} {only} {label}", [topic], version, only)
        several = [_topic(f"{talk.topic('several')}-{version}-{i}") for i in range(2)]
        several += [_topic(taken), _topic("a b")]
        _create(talk, f"v{version} several", several, version)
        _create(talk, f"v{version} twice", [_topic("twice"), _topic("twice")], version)
        _create(talk, f"v{version} none", [], version)
        for timeout in (0, -1):
            topic = _topic(f"{talk.topic('timeout')}-{version}-{timeout}")
            _create(talk, f"v{version} timeout {timeout}", [topic], version, timeout_ms=timeout)


def _creations(prefix: str, taken: str, version: int) -> dict[str, CreatableTopic]:
    cases = {
        "good": _topic(f"{prefix}-good", 3),
        "taken": _topic(taken),
        "collides": _topic(taken.replace("_", ".")),
        "no partitions": _topic(f"{prefix}-a", 0),
        "-2 partitions": _topic(f"{prefix}-b", -2),
        "-1 partitions": _topic(f"{prefix}-c", -1),
        "no replicas": _topic(f"{prefix}-d", 1, 0),
        "2 replicas": _topic(f"{prefix}-e", 1, 2),
        "-1 replicas": _topic(f"{prefix}-f", 1, -1),
        "-2 replicas": _topic(f"{prefix}-g", 1, -2),
        "all default": _topic(f"{prefix}-h", -1, -1),
        "internal": _topic("__consumer_offsets", 1),
        "configs": _topic(f"{prefix}-i", configs={"segment.bytes": "20000", "retention.ms": "5"}),
        "compact": _topic(f"{prefix}-j", configs={"cleanup.policy": "compact"}),
        "unknown config": _topic(f"{prefix}-k", configs={"no.such": "1"}),
        "bad number": _topic(f"{prefix}-l", configs={"segment.bytes": "many"}),
        "out of bounds": _topic(f"{prefix}-m", configs={"segment.bytes": "1"}),
        "bad policy": _topic(f"{prefix}-n", configs={"cleanup.policy": "burn"}),
        "null config": _topic(f"{prefix}-o", configs={"segment.bytes": None}),
        "spaces": _topic(f"{prefix}-p", configs={"segment.bytes": " 20000 "}),
        "empty config": _topic(f"{prefix}-q", configs={"segment.bytes": ""}),
        "assigned": _topic(f"{prefix}-r", -1, -1, assignment={0: [0], 1: [0]}),
        "assigned with counts": _topic(f"{prefix}-s", 2, 1, assignment={0: [0], 1: [0]}),
        "assigned with a count": _topic(f"{prefix}-t", 2, -1, assignment={0: [0], 1: [0]}),
        "gap": _topic(f"{prefix}-u", -1, -1, assignment={0: [0], 2: [0]}),
        "negative": _topic(f"{prefix}-v", -1, -1, assignment={-1: [0], 0: [0]}),
        "from one": _topic(f"{prefix}-w", -1, -1, assignment={1: [0]}),
        "broker twice": _topic(f"{prefix}-x", -1, -1, assignment={0: [0, 0]}),
        "uneven": _topic(f"{prefix}-y", -1, -1, assignment={0: [0], 1: [0, 1]}),
    }
    twice = _topic(f"{prefix}-z", configs={"segment.bytes": "20000"})
    twice.configs *= 2
    cases["config twice"] = twice
    twice = _topic(f"{prefix}-aa", -1, -1, assignment={0: [0]})
    twice.assignments *= 2
    cases["partition twice"] = twice
    cases.update((repr(name[:20]), _topic(name)) for name in BAD_NAMES)
    return cases


def _create(
    talk: Talk,
    label: str,
    topics: Sequence[CreatableTopic],
    version: int,
    validate_only: bool = False,
    timeout_ms: int = TIMEOUT_MS,
) -> None:
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    talk.ask(label, request, version)


def _topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    configs: dict[str, str] | dict[str, None] | None = None,
    assignment: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
        assignments=[
            CreatableReplicaAssignment(partition_index=k, broker_ids=v)
            for k, v in (assignment or {}).items()
        ],
    )


def create_partitions(talk: Talk) -> None:
    """More partitions, fewer, as many; assigned and not."""
    for version in versions(CREATE_PARTITIONS):
        name = talk.create(f"t{version}", 2)
        for only in (True, False):
            for label, count, assigned in _extensions():
                topic = _more(name, count, assigned)
                _extend(talk, f"v{version} {only} {label}", [topic], version, only)
            _extend(
                talk, f"v{version} {only} twice", [_more(name, 9), _more(name, 10)], version, only
            )
            absent = _more(talk.topic("absent"), 3)
            _extend(talk, f"v{version} {only} absent", [absent], version, only)
            _extend(talk, f"v{version} {only} bad name", [_more("a b", 3)], version, only)
            _extend(talk, f"v{version} {only} none", [], version, only)
        for number, timeout in enumerate((0, -1)):
            topic = _more(talk.create(f"timeout-{version}-{number}"), 2)
            _extend(talk, f"v{version} timeout {timeout}", [topic], version, timeout_ms=timeout)
        shown = talk.exchange(_named(name), 12)  # Kafka's order of added partitions is a hash map's
        talk.note(f"v{version} partitions", len(shown.topics[0].partitions))


def _extensions() -> list[tuple[str, int, list[list[int]] | None]]:
    return [
        ("zero", 0, None),
        ("-1", -1, None),
        ("fewer", 1, None),
        ("as many", 2, None),
        ("assigned too few", 4, [[0]]),
        ("assigned too many", 3, [[0], [0]]),
        ("assigned to nobody", 3, [[]]),
        ("assigned to two", 3, [[0, 1]]),
        ("assigned twice", 3, [[0, 0]]),
        ("assigned to an unknown", 3, [[7]]),
        ("empty assignment", 3, []),
        ("assigned", 3, [[0]]),
        ("more", 5, None),
    ]


def _more(name: str, count: int, assigned: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assignments = None
    if assigned is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def _extend(
    talk: Talk,
    label: str,
    topics: list[CreatePartitionsTopic],
    version: int,
    validate_only: bool = False,
    timeout_ms: int = TIMEOUT_MS,
) -> None:
    request = CreatePartitionsRequest(
        topics=topics, timeout_ms=timeout_ms, validate_only=validate_only
    )
    talk.ask(label, request, version)


def delete_topics(talk: Talk) -> None:
    """By name and by id, twice, unknown, and what is left of a topic."""
    for version in versions(DELETE_TOPICS):
        name = talk.create(f"t{version}", 2)
        second = talk.create(f"second-{version}")
        absent = talk.topic("absent")
        for label, names in (
            ("absent", [absent]),
            ("bad name", ["a b"]),
            ("empty name", [""]),
            ("internal", ["__transaction_state"]),
            ("none", []),
            ("good and absent", [name, absent]),
            ("again", [name]),
            ("absent twice", [absent, absent]),
            ("twice", [second, second]),
        ):
            talk.ask(f"v{version} {label}", _delete(version, names), version)
        talk.ask(f"v{version} metadata", _named(name), 12)
        again, _ = talk.create_with_id(f"t{version}")
        talk.ask(f"v{version} created again", _named(again), 12)
        for timeout in (0, -1):
            gone = talk.create(f"timeout-{version}-{timeout}")
            request = _delete(version, [gone], timeout_ms=timeout)
            talk.ask(f"v{version} timeout {timeout}", request, version)
        if version >= 6:
            _delete_by_id(talk)


def _delete(version: int, names: list[str], *, timeout_ms: int = TIMEOUT_MS) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
    states = [DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)


def _delete_by_id(talk: Talk) -> None:
    def say(label: str, *states: Any) -> None:
        request = DeleteTopicsRequest(topics=list(states), timeout_ms=TIMEOUT_MS)
        talk.ask(f"by id: {label}", request, 6)

    name, topic_id = talk.create_with_id("id")
    say("unknown", DeleteTopicState(name=None, topic_id=UNKNOWN_ID))
    say("neither", DeleteTopicState(name=None))
    say("both", DeleteTopicState(name=name, topic_id=topic_id))
    by_id = DeleteTopicState(name=None, topic_id=topic_id)
    say("good", by_id)
    say("unknown twice", *[DeleteTopicState(name=None, topic_id=UNKNOWN_ID)] * 2)
    _, second_id = talk.create_with_id("second-id")
    say("twice", *[DeleteTopicState(name=None, topic_id=second_id)] * 2)


CONVERSATIONS: tuple[Callable[[Talk], None], ...] = (
    metadata,
    auto_create,
    create_topics,
    create_partitions,
    delete_topics,
)
