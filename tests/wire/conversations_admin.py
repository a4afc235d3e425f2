"""What is said about leaders, producers, reassignments and new partitions."""

from collections.abc import Sequence
from typing import Final

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from tests.wire.admin_talk import TOPIC, Conversation, Op, Resource, change, produce
from tests.wire.talk import Talk, versions

CREATE_PARTITIONS, ELECT_LEADERS, REASSIGNMENTS, PRODUCERS = 37, 43, 46, 61
TIMEOUT_MS: Final = 10_000
PREFERRED, UNCLEAN = 0, 1

Partitions = Sequence[tuple[str, Sequence[int]]]


# Elections.


def _elect(
    talk: Talk, label: str, asked: Partitions | None, *, timeout_ms: int = TIMEOUT_MS
) -> None:
    """Ask for both types of election in each version."""
    for version in versions(ELECT_LEADERS):
        for kind in (PREFERRED, UNCLEAN) if version >= 1 else (PREFERRED,):
            _elect_one(talk, f"v{version} type {kind} {label}", asked, version, kind, timeout_ms)


def _elect_one(
    talk: Talk,
    label: str,
    asked: Partitions | None,
    version: int,
    kind: int,
    timeout_ms: int = TIMEOUT_MS,
) -> None:
    topics = None
    if asked is not None:
        topics = [TopicPartitions(topic=name, partitions=list(p)) for name, p in asked]
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=topics, timeout_ms=timeout_ms
    )
    talk.ask(label, request, version)


def elect_where_the_leader_is_right(talk: Talk) -> None:
    """Nothing to elect."""
    name = talk.create("t", 3)
    _elect(talk, "one", [(name, [0])])
    _elect(talk, "some", [(name, [2, 0])])


def elect_everywhere(talk: Talk) -> None:
    """All partitions, of which only those are named that needed it."""
    talk.create("t", 2)
    _elect(talk, "all", None)


def elect_nowhere(talk: Talk) -> None:
    """No topics, and topics without partitions."""
    name = talk.create("t")
    _elect(talk, "no topics", [])
    _elect(talk, "no partitions", [(name, [])])
    _elect(talk, "absent, no partitions", [(talk.topic("absent"), [])])


def elect_unknown(talk: Talk) -> None:
    """Topics and partitions that are not there, beside good ones."""
    name = talk.create("t")
    for label, asked in (
        ("partition", [(name, [9])]),
        ("negative", [(name, [-1, -(2**31)])]),
        ("topic", [(talk.topic("absent"), [0])]),
        ("bad names", [("a b", [0]), ("", [0]), (".", [0])]),
        ("mixed", [(name, [0, 9]), (talk.topic("absent"), [0])]),
    ):
        _elect(talk, label, asked)


def elect_twice(talk: Talk) -> None:
    """The same partition and topic named twice is answered once."""
    name = talk.create("t")
    _elect(talk, "partition", [(name, [0, 0])])
    _elect(talk, "topic", [(name, [0]), (name, [0])])


def elect_without_time(talk: Talk) -> None:
    """Time limits that are over at once."""
    name = talk.create("t")
    for timeout_ms in (0, -1, 2**31 - 1):
        _elect(talk, f"{timeout_ms}", [(name, [0])], timeout_ms=timeout_ms)


def elect_of_unknown_type(talk: Talk) -> None:
    """Types of elections that do not exist."""
    name = talk.create("t", 2)
    for version in (1, 2):
        for kind in (2, -1, 127):
            for label, asked in (("some", [(name, [0, 1])]), ("all", None), ("none", [])):
                _elect_one(talk, f"v{version} {kind} {label}", asked, version, kind)


# Producers.


def _describe_producers(talk: Talk, label: str, *topics: tuple[str, Sequence[int]]) -> None:
    for version in versions(PRODUCERS):
        asked = [TopicRequest(name=name, partition_indexes=list(p)) for name, p in topics]
        talk.ask(f"v{version} {label}", DescribeProducersRequest(topics=asked), version)


def producers_of_nobody(talk: Talk) -> None:
    """Without idempotent producers there are none."""
    name = talk.create("t", 2)
    produce(talk, name, b"a")
    _describe_producers(talk, "all", (name, [0, 1]))
    _describe_producers(talk, "no topics")
    _describe_producers(talk, "no partitions", (name, []))


def producers_after_idempotent_produce(talk: Talk) -> None:
    """Sequence, epoch and time follow what they write."""
    name = talk.create("t")
    for label, size, more in (
        ("first", 2, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}),
        ("next", 3, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 2}),
        ("again", 3, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 2}),
        ("out of order", 1, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 9}),
        ("new epoch", 1, {"producer_id": 5, "producer_epoch": 3, "base_sequence": 0}),
        ("old epoch", 1, {"producer_id": 5, "producer_epoch": 2, "base_sequence": 0}),
        ("somewhere", 1, {"producer_id": 6, "producer_epoch": 7, "base_sequence": 2**31 - 1}),
        ("goes round", 1, {"producer_id": 6, "producer_epoch": 7, "base_sequence": 0}),
    ):
        code = produce(talk, name, *[b"a"] * size, timestamp=1_700_000_001_000 + size, **more)
        talk.note(f"{label} produced", code)
        _describe_producers(talk, label, (name, [0]))


def producers_of_several(talk: Talk) -> None:
    """Several producers of one partition, and the same partition twice."""
    name = talk.create("t")
    for number in range(5):
        produce(talk, name, b"a", producer_id=100 - number, producer_epoch=number, base_sequence=0)
    _describe_producers(talk, "all", (name, [0]))
    _describe_producers(talk, "partition twice", (name, [0, 0]))
    _describe_producers(talk, "topic twice", (name, [0]), (name, [0]))


def producers_unknown(talk: Talk) -> None:
    """Topics and partitions that are not there."""
    name = talk.create("t")
    for label, topic, partitions in (
        ("partitions", name, [9, -1, 0]),
        ("topic", talk.topic("absent"), [0, 1]),
        ("bad name", "a b", [0]),
        ("empty name", "", [0]),
        ("long name", "x" * 250, [0]),
        ("internal", "__transaction_state", [0]),
        ("absent, no partitions", talk.topic("absent"), []),
    ):
        _describe_producers(talk, label, (topic, partitions))


# Reassignments.


def reassignments(talk: Talk) -> None:
    """There are none, whatever one asks for."""
    name = talk.create("t", 2)
    for version in versions(REASSIGNMENTS):
        for label, asked in (
            ("all", None),
            ("none", []),
            ("partitions", [(name, [0, 1])]),
            ("no partitions", [(name, [])]),
            ("unknown", [(name, [9, -1]), (talk.topic("absent"), [0]), ("a b", [0]), ("", [0])]),
            ("twice", [(name, [0, 0]), (name, [0])]),
        ):
            for timeout_ms in (TIMEOUT_MS, 0, -1):
                topics = None
                if asked is not None:
                    topics = [
                        ListPartitionReassignmentsTopics(name=topic, partition_indexes=partitions)
                        for topic, partitions in asked
                    ]
                request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)
                talk.ask(f"v{version} {label} {timeout_ms}", request, version)


# New partitions.


def _extend(
    talk: Talk,
    label: str,
    *asked: tuple[str, int, list[list[int]] | None],
    version: int = 3,
    validate_only: bool = False,
) -> None:
    """Ask for (topic, count, assignment of the new ones)."""
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if added is None
            else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in added],
        )
        for name, count, added in asked
    ]
    request = CreatePartitionsRequest(
        topics=topics, timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    talk.ask(label, request, version)


def _see_partitions(talk: Talk, label: str, name: str) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    talk.note(label, len(talk.exchange(request, 12).topics[0].partitions))


def new_partitions_assigned(talk: Talk) -> None:
    """With their replicas named, in each version; they take records at once."""
    for version in versions(CREATE_PARTITIONS):
        name = talk.create(f"t{version}")
        _extend(talk, f"v{version} validated", (name, 3, [[0], [0]]), validate_only=True)
        _see_partitions(talk, f"v{version} as it was", name)
        _extend(talk, f"v{version} done", (name, 3, [[0], [0]]), version=version)
        _see_partitions(talk, f"v{version} extended", name)
        _extend(talk, f"v{version} again", (name, 3, [[0], [0]]), version=version)
        _extend(talk, f"v{version} one more", (name, 4, [[0]]), version=version)
        _see_partitions(talk, f"v{version} in the end", name)


def new_partitions_assigned_badly(talk: Talk) -> None:
    """Assignments that do not fit, of a topic with one partition and one replica."""
    name = talk.create("t")
    cases: tuple[tuple[str, int, list[list[int]]], ...] = (
        ("unknown broker", 2, [[7]]),
        ("negative broker", 2, [[-1]]),
        ("two replicas", 2, [[0, 1]]),
        ("twice", 2, [[0, 0]]),
        ("nobody", 2, [[]]),
        ("some nobody", 3, [[0], []]),
        ("too few", 3, [[0]]),
        ("too many", 2, [[0], [0]]),
        ("none", 2, []),
        ("fewer partitions", 0, [[0]]),
        ("as many partitions", 1, []),
        ("different counts", 3, [[0], [0, 1]]),
    )
    for label, count, added in cases:
        for only in (True, False):
            _extend(talk, f"{label} {only}", (name, count, added), validate_only=only)
    _see_partitions(talk, "as it was", name)


def new_partitions_of_several_topics(talk: Talk) -> None:
    """Each topic is extended or refused for itself."""
    first, second = talk.create("a"), talk.create("b", 2)
    _extend(
        talk,
        "mixed",
        (first, 2, [[0]]),
        (second, 1, None),
        (talk.topic("absent"), 2, None),
        ("a b", 2, [[0]]),
    )
    _see_partitions(talk, "extended", first)
    _see_partitions(talk, "as it was", second)


def new_partitions_keep_configs_and_records(talk: Talk) -> None:
    """What a topic has stays."""
    name = talk.create("t", cleanup_policy="compact")
    talk.note("before", produce(talk, name, b"a"))
    _extend(talk, "extended", (name, 2, None))
    talk.note("after", produce(talk, name, b"b"))
    change(talk, "changed", Resource(TOPIC, name, [Op("message.timestamp.before.max.ms", "9000")]))
    _describe_producers(talk, "producers", (name, [0, 1, 2]))


CONVERSATIONS: tuple[Conversation, ...] = (
    elect_where_the_leader_is_right,
    elect_everywhere,
    elect_nowhere,
    elect_unknown,
    elect_twice,
    elect_without_time,
    elect_of_unknown_type,
    producers_of_nobody,
    producers_after_idempotent_produce,
    producers_of_several,
    producers_unknown,
    reassignments,
    new_partitions_assigned,
    new_partitions_assigned_badly,
    new_partitions_of_several_topics,
    new_partitions_keep_configs_and_records,
)
