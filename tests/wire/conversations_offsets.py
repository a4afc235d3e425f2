"""Committed offsets: kept, read, deleted; by members and from outside."""

from collections.abc import Callable
from typing import Any, Final

from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.waiting import until
from tests.wire.group_talk import GroupTalk, Member, served, subscription
from tests.wire.talk import TIMESTAMP

NO_MEMBER: Final = "test-00000000-0000-4000-8000-000000000000"
DAY_MS: Final = 86_400_000


def position(
    partition: int, offset: int, metadata: str | None = "", **more: Any
) -> OffsetCommitRequestPartition:
    """A position to commit."""
    return OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata, **more
    )


def commit(
    group_id: str, topic: str, *positions: OffsetCommitRequestPartition, **more: Any
) -> OffsetCommitRequest:
    """A commit of positions in one topic, from outside the group unless `more` says who."""
    topics = [OffsetCommitRequestTopic(name=topic, partitions=list(positions))]
    return OffsetCommitRequest(group_id=group_id, topics=topics, **more)


def as_member(member: Member, **more: Any) -> dict[str, Any]:
    """Who commits."""
    fields: dict[str, Any] = {
        "member_id": member.id,
        "generation_id_or_member_epoch": member.generation,
        "group_instance_id": member.instance,
    }
    return {**fields, **more}


def fetch(
    group_id: str, version: int, topics: dict[str, list[int]] | None, **more: Any
) -> OffsetFetchRequest:
    """A request for the positions of one group, as this version asks it; None: all of them."""
    if version < 8:
        named = None
        if topics is not None:
            named = [
                OffsetFetchRequestTopic(name=name, partition_indexes=partitions)
                for name, partitions in topics.items()
            ]
        return OffsetFetchRequest(group_id=group_id, topics=named, **more)
    return OffsetFetchRequest(groups=[fetched_group(group_id, topics)], **more)


def fetched_group(
    group_id: str, topics: dict[str, list[int]] | None, **more: Any
) -> OffsetFetchRequestGroup:
    """One group of a request of v8 and later."""
    named = None
    if topics is not None:
        named = [
            OffsetFetchRequestTopics(name=name, partition_indexes=partitions)
            for name, partitions in topics.items()
        ]
    return OffsetFetchRequestGroup(group_id=group_id, topics=named, **more)


def commit_from_outside(talk: GroupTalk) -> None:
    """Every version; what it keeps is read back in every version."""
    topic = talk.create("t", 3)
    for version in served(OffsetCommitRequest):
        group_id = talk.group(f"v{version}")
        positions = (
            position(0, 100 + version, "note", committed_leader_epoch=0),
            position(1, 5, None, commit_timestamp=TIMESTAMP),
            position(2, 0, "ä", committed_leader_epoch=7),
        )
        talk.ask(f"v{version}", commit(group_id, topic, *positions), version)
        talk.note_group(f"v{version} described", group_id)
        for fetched in served(OffsetFetchRequest):
            asked = fetch(group_id, fetched, {topic: [0, 1, 2]})
            talk.ask(f"v{version} fetched with v{fetched}", asked, fetched)


def commit_of_members(talk: GroupTalk) -> None:
    """Members commit in their generation; others are refused."""
    topic = talk.create("t")
    a = talk.member("a")
    a.settle("a")
    for version in served(OffsetCommitRequest):
        for label, who in (
            ("itself", as_member(a)),
            ("old generation", as_member(a, generation_id_or_member_epoch=a.generation - 1)),
            ("generation to come", as_member(a, generation_id_or_member_epoch=99)),
            ("no generation", as_member(a, generation_id_or_member_epoch=-1)),
            ("unknown", as_member(a, member_id=NO_MEMBER)),
            ("no member", as_member(a, member_id="")),
            ("outside", {}),
            ("instance", as_member(a, group_instance_id="i")),
        ):
            asked = commit(a.group_id, topic, position(0, version), **who)
            a.ask(f"v{version} {label}", asked, version)
    talk.ask("fetched", fetch(a.group_id, 9, None), 9)


def commit_of_static_members(talk: GroupTalk) -> None:
    """With an instance of its own, someone else's, nobody's; after it was fenced."""
    topic = talk.create("t")
    a = talk.member("a", instance="one")
    a.settle("a")
    back = talk.member("back", instance="one")
    for version in (7, 8, 9):
        for label, who in (
            ("itself", as_member(a)),
            ("without", as_member(a, group_instance_id=None)),
            ("nobody's", as_member(a, group_instance_id="two")),
            ("by instance alone", as_member(a, member_id="")),
            ("wrong id", as_member(a, member_id=NO_MEMBER)),
        ):
            asked = commit(a.group_id, topic, position(0, 1), **who)
            talk.ask(f"v{version} {label}", asked, version)
    back.join("back")
    asked = commit(a.group_id, topic, position(0, 2), **as_member(a))
    talk.ask("fenced", asked, 9)
    asked = commit(a.group_id, topic, position(0, 3), **as_member(back))
    talk.ask("its follower", asked, 9)


def commit_in_each_state(talk: GroupTalk) -> None:
    """While a group prepares, completes, is stable, is empty, is not there."""
    topic = talk.create("t")
    a, b = talk.member("a"), talk.member("b")
    absent = commit(a.group_id, topic, position(0, 0), member_id=NO_MEMBER)
    talk.ask("absent, a member", absent, 9)
    absent.generation_id_or_member_epoch = 1
    talk.ask("absent, a member of a generation", absent, 9)
    absent.member_id = ""
    talk.ask("absent, a generation", absent, 9)
    a.join("a joins")
    _commit_variants(talk, "completing", a, topic)
    a.sync("a syncs")
    _commit_variants(talk, "stable", a, topic)
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    _commit_variants(talk, "preparing", a, topic)
    a.leave("a leaves")
    b.answer("b joined")
    b.leave("b leaves")
    _commit_variants(talk, "empty", a, topic)
    talk.note_group("described", a.group_id)


def _commit_variants(talk: GroupTalk, state: str, a: Member, topic: str) -> None:
    for label, who in (
        ("a", as_member(a)),
        ("other generation", as_member(a, generation_id_or_member_epoch=50)),
        ("outside", {}),
        ("unknown", as_member(a, member_id=NO_MEMBER)),
        ("generation alone", {"generation_id_or_member_epoch": 1}),
    ):
        talk.ask(f"{state}, {label}", commit(a.group_id, topic, position(0, 1), **who), 9)


def commit_refusals(talk: GroupTalk) -> None:
    """What is wrong with a single position; the others are kept."""
    topic = talk.create("t", 2)
    group_id = talk.group()
    for version in served(OffsetCommitRequest):
        positions = (
            position(0, -1),
            position(1, -5, "x" * 4096),
            position(0, 1, "x" * 4097),
            position(9, 1),
            position(-1, 1),
            position(1, 7, "y" * 4096),
        )
        for number, one in enumerate(positions):
            asked = commit(group_id, topic, one)
            talk.ask(f"v{version} {number}", asked, version)
        talk.ask(f"v{version} together", commit(group_id, topic, *positions[2:]), version)
        for label, name in (
            ("absent", talk.topic("absent")),
            ("empty", ""),
            ("bad", "a b"),
            ("internal", "__consumer_offsets"),
        ):
            asked = commit(group_id, name, position(0, 1))
            talk.ask(f"v{version} {label} topic", asked, version)
        nothing = OffsetCommitRequest(group_id=group_id)
        talk.ask(f"v{version} nothing", nothing, version)
        talk.ask(f"v{version} no partitions", commit(group_id, topic), version)
        asked = commit("", topic, position(0, 1))
        talk.ask(f"v{version} empty group", asked, version)
        huge = position(0, 2**63 - 1, committed_leader_epoch=-7)
        talk.ask(f"v{version} largest", commit(group_id, topic, huge), version)
    talk.ask("fetched", fetch(group_id, 9, None), 9)


def commit_with_retention(talk: GroupTalk) -> None:
    """A retention of the client's (v2 to v4), a time of its own (v1)."""
    topic = talk.create("t", 4)
    group_id = talk.group()
    for version in (2, 3, 4):
        asked = commit(group_id, topic, position(version - 1, 9), retention_time_ms=DAY_MS)
        talk.ask(f"v{version}", asked, version)
    for number, time_ms in enumerate((TIMESTAMP, 0, -1, -2)):
        asked = commit(group_id, topic, position(number, 9, commit_timestamp=time_ms))
        talk.ask(f"v1 {time_ms}", asked, 1)
    zero = commit(group_id, topic, position(0, 9), retention_time_ms=0)
    talk.ask("v2 0", zero, 2)
    talk.ask("fetched", fetch(group_id, 9, None), 9)


def fetch_offsets(talk: GroupTalk) -> None:
    """Some, all, none, unknown ones; stable or not."""
    topic, other = talk.create("t", 2), talk.create("other")
    group_id = talk.group()
    talk.exchange(commit(group_id, topic, position(0, 1, "m"), position(1, 2)), 9)
    talk.exchange(commit(group_id, other, position(0, 3)), 9)
    for version in served(OffsetFetchRequest):
        for label, wanted in (
            ("some", {topic: [1]}),
            ("uncommitted", {topic: [0, 7], talk.topic("absent"): [0], "a b": [-1]}),
            ("nothing", {}),
            ("no partitions", {topic: []}),
            *((("all", None),) if version >= 2 else ()),
        ):
            talk.ask(f"v{version} {label}", fetch(group_id, version, wanted), version)
            absent = fetch(talk.group("absent"), version, wanted)
            talk.ask(f"v{version} {label}, absent group", absent, version)
        talk.ask(f"v{version} empty group", fetch("", version, {topic: [0]}), version)
        if version >= 7:
            asked = fetch(group_id, version, {topic: [0]}, require_stable=True)
            talk.ask(f"v{version} stable", asked, version)


def fetch_of_groups(talk: GroupTalk) -> None:
    """Several groups in one request (of none at all Kafka says nothing, for ever)."""
    topic = talk.create("t")
    first, second = talk.group("first"), talk.group("second")
    talk.exchange(commit(first, topic, position(0, 1)), 9)
    talk.exchange(commit(second, topic, position(0, 2)), 9)
    for version in (8, 9):
        groups = [
            fetched_group(second, None),
            fetched_group(talk.group("absent"), {topic: [0]}),
            fetched_group(first, {topic: [0]}),
            fetched_group("", None),
        ]
        talk.ask(f"v{version}", OffsetFetchRequest(groups=groups), version)
    member = fetched_group(first, None, member_id="m", member_epoch=5)
    talk.ask("as a member of a classic group", OffsetFetchRequest(groups=[member]), 9)


def delete_offsets(talk: GroupTalk) -> None:
    """Of groups that are empty, live, subscribed, not there."""
    topic, other = talk.create("t", 2), talk.create("other")
    a = talk.member("a")
    group_id = a.group_id
    ask_delete(talk, "absent group", group_id, {topic: [0]})
    ask_delete(talk, "empty group id", "", {topic: [0]})
    talk.exchange(commit(group_id, topic, position(0, 1), position(1, 2)), 9)
    talk.exchange(commit(group_id, other, position(0, 3)), 9)
    ask_delete(talk, "of no group type", group_id, {topic: [0, 7], talk.topic("no"): [0]})
    talk.ask("fetched", fetch(group_id, 9, None), 9)
    a.join("a joins", (("range", subscription(topic)),))
    ask_delete(talk, "completing", group_id, {topic: [1], other: [0]})
    a.sync("a syncs")
    talk.exchange(commit(group_id, other, position(0, 3), **as_member(a)), 9)
    ask_delete(talk, "subscribed", group_id, {topic: [1], other: [0]})
    a.leave("a leaves")
    ask_delete(talk, "empty", group_id, {topic: [1]})
    ask_delete(talk, "nothing", group_id, {})
    ask_delete(talk, "no partitions", group_id, {topic: []})
    talk.ask("fetched at last", fetch(group_id, 9, None), 9)


def delete_offsets_of_others(talk: GroupTalk) -> None:
    """Of a live group that is no consumers', and of one whose subscription cannot be read."""
    topic = talk.create("t")
    a = talk.member("a", "connect")
    a.settle("a", (("default", b"x"),), protocol_type="connect")
    talk.exchange(commit(a.group_id, topic, position(0, 1), **as_member(a)), 9)
    ask_delete(talk, "connect", a.group_id, {topic: [0]})
    b = talk.member("b", "opaque")
    b.settle("b", (("range", b"\xff"),))
    talk.exchange(commit(b.group_id, topic, position(0, 1), **as_member(b)), 9)
    ask_delete(talk, "opaque", b.group_id, {topic: [0]})


def ask_delete(talk: GroupTalk, label: str, group_id: str, named: dict[str, list[int]]) -> None:
    """Delete the positions in these partitions and note the answer."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in partitions],
        )
        for name, partitions in named.items()
    ]
    talk.ask(label, OffsetDeleteRequest(group_id=group_id, topics=topics), 0)


def offsets_of_a_deleted_topic(talk: GroupTalk) -> None:
    """They go with the topic."""
    topic, kept = talk.create("t"), talk.create("kept")
    group_id = talk.group()
    for name in (topic, kept):
        talk.exchange(commit(group_id, name, position(0, 1)), 9)
    delete_topic(talk, topic, group_id)
    talk.ask("fetched", fetch(group_id, 9, None), 9)


def delete_topic(talk: GroupTalk, topic: str, group_id: str) -> None:
    """Delete a topic and return when the group's position in it is gone too."""
    talk.exchange(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    asked = fetch(group_id, 9, {topic: [0]})

    def gone() -> bool:
        answer = talk.exchange(asked, 9)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset) < 0

    until(gone)


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    commit_from_outside,
    commit_of_members,
    commit_of_static_members,
    commit_in_each_state,
    commit_refusals,
    commit_with_retention,
    fetch_offsets,
    fetch_of_groups,
    delete_offsets,
    delete_offsets_of_others,
    offsets_of_a_deleted_topic,
)
