"""Offsets in transactions: who may commit them, when they show, and what else becomes of them."""

from typing import Final

from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.broker.transaction_requests import write_markers
from tests.wire.conversations_offsets import commit, fetch, position
from tests.wire.conversations_transactions import COMMIT, Conversation
from tests.wire.talk import versions
from tests.wire.transaction_talk import (
    COMMIT_LAST,
    Transactional,
    TransactionTalk,
    commit_request,
)

STABLE_VERSION_FIRST: Final = 7
DELETE_GROUPS_LAST, DELETE_TOPICS_LAST = 2, 5
COMMIT_OFFSETS_LAST: Final = 8
KEPT_METADATA_BYTES: Final = 4096


def _look(talk: TransactionTalk, label: str, group_id: str, topic: str, *partitions: int) -> None:
    """What OffsetFetch shows to those who want only what is stable, and to others."""
    for version in (5, STABLE_VERSION_FIRST, 9):
        for stable in (False, True) if version >= STABLE_VERSION_FIRST else (False,):
            more = {"require_stable": stable} if version >= STABLE_VERSION_FIRST else {}
            shown = f"{label}: v{version} stable={stable}"
            named = fetch(group_id, version, {topic: list(partitions or (0, 1, 2))}, **more)
            talk.ask(shown, named, version)
            talk.ask(f"{shown}, all", fetch(group_id, version, None, **more), version)


def _with_group(talk: TransactionTalk, stem: str, group_id: str) -> Transactional:
    return talk.producer(stem).init().add_group(group_id)


def offsets_in_every_version(talk: TransactionTalk) -> None:
    """TxnOffsetCommit, then the end; before, between and after it OffsetFetch."""
    topic = talk.create("t", 3)
    for version in versions(COMMIT):
        for commits in (True, False):
            group_id = talk.group(f"{version}-{commits}")
            producer = _with_group(talk, f"{version}-{commits}", group_id)
            label = f"v{version} commits={commits}"
            request = commit_request(producer, group_id, topic, {0: 10, 1: 0, 7: 3})
            talk.ask(label, request, version)
            _look(talk, f"{label} open", group_id, topic)
            producer.end(commits=commits)
            talk.note_group(f"{label} described", group_id)
            _look(talk, f"{label} ended", group_id, topic)


def offsets_refused(talk: TransactionTalk) -> None:
    """Unknown topics, no group, no id, what is too long, and groups that were not added."""
    topic = talk.create("t", 2)
    group_id = talk.group()
    for version in versions(COMMIT):
        producer = talk.producer(f"v{version}").init().init().add_group(group_id)
        long = commit_request(producer, group_id, topic, {0: 1})
        long.topics[0].partitions[0].committed_metadata = "m" * (KEPT_METADATA_BYTES + 1)
        missing = commit_request(producer, group_id, topic, {0: 1})
        missing.topics[0].partitions[0].committed_metadata = None
        nothing = commit_request(producer, group_id, topic)
        nothing.topics = []
        nameless = commit_request(producer, group_id, topic)
        nameless.transactional_id = ""
        other = commit_request(producer, group_id, topic)
        other.transactional_id = talk.topic("other")
        for label, request in (
            ("unknown topic", commit_request(producer, group_id, talk.topic("absent"))),
            ("unknown partition", commit_request(producer, group_id, topic, {9: 1})),
            ("no group", commit_request(producer, "", topic)),
            ("another group", commit_request(producer, talk.group("other"), topic)),
            ("nothing", nothing),
            ("no transactional id", nameless),
            ("another transactional id", other),
            ("epoch before", commit_request(producer, group_id, topic, identity=producer.old)),
            ("offset -1", commit_request(producer, group_id, topic, {0: -1})),
            ("offset -5", commit_request(producer, group_id, topic, {0: -5})),
            ("metadata", long),
            ("no metadata", missing),
            ("good", commit_request(producer, group_id, topic, {0: 5})),
            ("no transactional id, then", nameless),
            ("another transactional id, then", other),
            (
                "epoch before, then",
                commit_request(producer, group_id, topic, identity=producer.old),
            ),
        ):
            talk.ask(f"v{version} {label}", request, version)
        producer.end(commits=False)
        _look(talk, f"v{version}", group_id, topic, 0)


def offsets_of_members(talk: TransactionTalk) -> None:
    """KIP-447: a member that was replaced is refused."""
    topic = talk.create("t", 2)
    member = talk.member("a")
    member.settle("a")
    producer = _with_group(talk, "id", member.group_id)
    for version in (2, 3, COMMIT_LAST):
        for label, more in (
            ("itself", {"member_id": member.id, "generation_id": member.generation}),
            ("older", {"member_id": member.id, "generation_id": member.generation - 1}),
            ("later", {"member_id": member.id, "generation_id": member.generation + 1}),
            ("unknown", {"member_id": "nobody", "generation_id": member.generation}),
            ("no generation", {"member_id": member.id}),
            ("no member", {"generation_id": member.generation}),
            ("outside", {}),
            ("instance", {"group_instance_id": "i", "member_id": member.id}),
        ):
            if version < 3:
                more = {}
            request = commit_request(producer, member.group_id, topic, {0: version}, **more)
            talk.ask(f"v{version} {label}", request, version)
    producer.end()
    _look(talk, "ended", member.group_id, topic, 0)
    member.leave("leaves")
    for version in (3, COMMIT_LAST):
        producer.add_group(talk.group("new"))
        for label, more in (
            ("outside", {}),
            ("member", {"member_id": "nobody", "generation_id": 1}),
            ("generation", {"generation_id": 1}),
        ):
            request = commit_request(producer, talk.group("new"), topic, **more)
            talk.ask(f"new group v{version} {label}", request, version)
        producer.end()
    talk.note_group("new group", talk.group("new"))


def offsets_overtaken(talk: TransactionTalk) -> None:
    """10 in a transaction, 20 outside of it, then the end: the later record wins."""
    topic = talk.create("t", 3)
    for commits in (True, False):
        group_id = talk.group(f"{commits}")
        a = _with_group(talk, f"a-{commits}", group_id)
        b = _with_group(talk, f"b-{commits}", group_id)
        talk.exchange(commit(group_id, topic, position(2, 1)), COMMIT_OFFSETS_LAST)
        a.commit_offsets(group_id, topic, {0: 10, 1: 11, 2: 12})
        _look(talk, f"{commits}: open", group_id, topic)
        talk.ask(f"{commits}: plain", commit(group_id, topic, position(0, 20)), COMMIT_OFFSETS_LAST)
        _look(talk, f"{commits}: overtaken", group_id, topic)
        b.commit_offsets(group_id, topic, {1: 21, 2: 22})
        a.end(commits=commits)
        _look(talk, f"{commits}: ended", group_id, topic)
        b.end(commits=not commits)
        _look(talk, f"{commits}: both ended", group_id, topic)


def offsets_deleted(talk: TransactionTalk) -> None:
    """OffsetDelete, DeleteGroups and DeleteTopics while a transaction is open."""
    topic = talk.create("t", 3)
    for commits in (True, False):
        group_id = talk.group(f"{commits}")
        producer = _with_group(talk, f"{commits}", group_id)
        talk.exchange(commit(group_id, topic, position(0, 1), position(1, 1)), COMMIT_OFFSETS_LAST)
        producer.commit_offsets(group_id, topic, {0: 10, 2: 12})
        for partition in range(3):
            deleted = OffsetDeleteRequestPartition(partition_index=partition)
            deletion = OffsetDeleteRequest(
                group_id=group_id,
                topics=[OffsetDeleteRequestTopic(name=topic, partitions=[deleted])],
            )
            talk.ask(f"{commits}: delete {partition}", deletion, 0)
            _look(talk, f"{commits}: deleted {partition}", group_id, topic)
        request = DeleteGroupsRequest(groups_names=[group_id])
        talk.ask(f"{commits}: delete the group", request, DELETE_GROUPS_LAST)
        talk.note_group(f"{commits}: group", group_id)
        producer.end(commits=commits)
        _look(talk, f"{commits}: ended", group_id, topic)
        talk.note_group(f"{commits}: group at the end", group_id)


def group_deleted(talk: TransactionTalk) -> None:
    """DeleteGroups of a group of which there are only offsets of an open transaction."""
    topic = talk.create("t")
    for commits in (True, False):
        group_id = talk.group(f"{commits}")
        producer = _with_group(talk, f"{commits}", group_id)
        producer.commit_offsets(group_id, topic, {0: 10})
        talk.note_group(f"{commits}: group", group_id)
        request = DeleteGroupsRequest(groups_names=[group_id])
        talk.ask(f"{commits}: delete", request, DELETE_GROUPS_LAST)
        talk.note_group(f"{commits}: deleted", group_id)
        _look(talk, f"{commits}: deleted", group_id, topic, 0)
        producer.end(commits=commits)
        _look(talk, f"{commits}: ended", group_id, topic, 0)
        talk.note_group(f"{commits}: ended, group", group_id)


def topic_of_offsets_deleted(talk: TransactionTalk) -> None:
    """The topic goes of whose partitions offsets are committed."""
    for commits in (True, False):
        topic, group_id = talk.create(f"t-{commits}"), talk.group(f"{commits}")
        producer = _with_group(talk, f"{commits}", group_id)
        producer.commit_offsets(group_id, topic, {0: 10})
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
        talk.ask(f"{commits}: delete", request, DELETE_TOPICS_LAST)
        again = commit_request(producer, group_id, topic)
        talk.ask(f"{commits}: commit", again, COMMIT_LAST)
        producer.end(commits=commits)
        _look(talk, f"{commits}: ended", group_id, topic, 0)


def offsets_ended_by_hand(talk: TransactionTalk) -> None:
    """WriteTxnMarkers for a partition of the offsets topic."""
    topic = talk.create("t")
    for commits in (True, False):
        group_id = talk.group(f"{commits}")
        producer = _with_group(talk, f"{commits}", group_id)
        producer.commit_offsets(group_id, topic, {0: 10})
        (found,) = talk.described(producer.id).topics
        marker = write_markers(
            producer.identity, found.topic, *found.partitions, commits=commits, coordinator_epoch=0
        )
        talk.ask(f"{commits}: marker", marker, 1)
        _look(talk, f"{commits}: marked", group_id, topic, 0)
        producer.end(commits=not commits)
        _look(talk, f"{commits}: ended", group_id, topic, 0)


CONVERSATIONS: tuple[Conversation, ...] = (
    offsets_in_every_version,
    offsets_refused,
    offsets_of_members,
    offsets_overtaken,
    offsets_deleted,
    group_deleted,
    topic_of_offsets_deleted,
    offsets_ended_by_hand,
)
