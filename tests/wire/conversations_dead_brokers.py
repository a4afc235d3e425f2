"""What one broker says where another would be needed: replicas that are moved, and that are down.

It leaves topics behind that cannot be deleted, so it is held last.
"""

import time
from collections.abc import Sequence
from typing import Final

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)

from .servers import OdradekServer
from .talk import DEADLINE_S, Talk

DEAD: Final = 7
TIMEOUT_MS: Final = 10_000
SHORT_MS: Final = 300
SETTLED_AFTER: Final = 4
"""So many equal answers in a row."""
Wanted = Sequence[tuple[int, list[int] | None]]


def _create(talk: Talk, label: str, name: str, *replicas: list[int]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=p, broker_ids=ids)
            for p, ids in enumerate(replicas)
        ],
    )
    answer = talk.exchange(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 6)
    talk.note(label, talk.plain(answer, 6))


def _reassign(talk: Talk, label: str, *asked: tuple[str, Wanted]) -> None:
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=p, replicas=replicas)
                for p, replicas in partitions
            ],
        )
        for name, partitions in asked
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    answer = talk.exchange(request, 0)
    for topic in answer.responses:
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    talk.note(label, talk.plain(answer, 0))


def _show(talk: Talk, label: str, name: str) -> None:
    """What Metadata says of a topic once it has settled."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    # Kafka's controller goes on for a while after it has answered.
    pause_s = 0.05 if isinstance(talk.server, OdradekServer) else 0.3
    seen, times, deadline = None, 0, time.monotonic() + DEADLINE_S
    while times < SETTLED_AFTER and time.monotonic() < deadline:
        now = talk.plain(talk.exchange(request, 8), 8)
        seen, times = now, times + 1 if now == seen else 1
        time.sleep(pause_s)
    assert isinstance(seen, dict)
    talk.note(label, seen["topics"])


def assignments_to_the_dead(talk: Talk) -> None:
    """Brokers that are down may be named, if one lives."""
    _create(talk, "second is down", talk.topic("a"), [0, DEAD])
    _create(talk, "first is down", talk.topic("b"), [DEAD, 0], [0, DEAD])
    _create(talk, "different brokers", talk.topic("c"), [0, DEAD], [DEAD, 0], [0, 8])
    for stem in "abc":
        _show(talk, stem, talk.topic(stem))
    for label, added in (("to the dead", [[0, DEAD]]), ("to too few", [[0]]), ("by itself", None)):
        assignments = None
        if added is not None:
            assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in added]
        more = CreatePartitionsTopic(name=talk.topic("a"), count=2, assignments=assignments)
        request = CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS)
        talk.ask(f"added {label}", request, 3)


def reassignments_to_nowhere(talk: Talk) -> None:
    """Moves that change nothing, that are impossible, and that are none."""
    name = talk.create("t", 2)
    for label, replicas in (
        ("where it is", [0]),
        ("no replicas", []),
        ("twice the same", [0, 0]),
        ("a negative one", [-1]),
        ("one that is down", [0, DEAD]),
        ("only one that is down", [DEAD]),
        ("nothing to cancel", None),
    ):
        _reassign(talk, label, (name, [(0, replicas)]))
    _reassign(talk, "no topics")
    _reassign(talk, "no partitions", (name, []))
    _reassign(talk, "unknown", (name, [(9, [0]), (-1, [0])]), (talk.topic("absent"), [(0, [0])]))
    _reassign(talk, "unknown cancelled", (name, [(9, None)]), (talk.topic("absent"), [(0, None)]))
    _reassign(talk, "odd names", ("a b", [(0, [0])]), ("", [(0, [0])]))
    _reassign(talk, "some", (name, [(0, [0]), (1, [DEAD])]))
    talk.ask("listed", ListPartitionReassignmentsRequest(topics=None), 0)
    _show(talk, "at the end", name)


def reassignments_away_from_the_dead(talk: Talk) -> None:
    """A replica that is down is given up; in another order, the same replicas."""
    name = talk.topic("t")
    _create(talk, "create", name, [0, DEAD], [DEAD, 0])
    _reassign(talk, "without it", (name, [(0, [0])]))
    _show(talk, "gone", name)
    _reassign(talk, "another order", (name, [(1, [0, DEAD])]))
    _show(talk, "other order", name)
    talk.ask("listed", ListPartitionReassignmentsRequest(topics=None), 0)
    _reassign(talk, "cancelled", (name, [(1, None)]))
    _show(talk, "at the end", name)


def a_topic_that_cannot_be_deleted(talk: Talk) -> None:
    """Its replica is down: it stays, and nothing can be done with it."""
    name = talk.topic("t")
    _create(talk, "create", name, [0, DEAD])
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=SHORT_MS)
    for label in ("delete", "delete again"):
        answer = talk.exchange(deletion, 6)
        talk.note(label, [result.error_code for result in answer.responses])
    _show(talk, "shown", name)
    _create(talk, "create again", name, [0])
    more = CreatePartitionsTopic(name=name, count=2, assignments=None)
    talk.ask("extend", CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS), 3)
    _reassign(talk, "reassign", (name, [(0, [0])]))
    asked = [TopicPartitions(topic=name, partitions=[0])]
    for kind in (0, 1):
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=asked, timeout_ms=TIMEOUT_MS
        )
        talk.ask(f"elect {kind}", request, 2)


CONVERSATIONS: Final = (
    assignments_to_the_dead,
    reassignments_to_nowhere,
    reassignments_away_from_the_dead,
    a_topic_that_cannot_be_deleted,
)
