"""Groups on their way between the protocols: classic members beside consumer members."""

from collections.abc import Callable
from typing import Any

from odradek.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from tests.wire.consumer_talk import Consumer, note_described, seen_topic
from tests.wire.conversations_offsets import as_member, commit, fetch, position
from tests.wire.group_talk import GroupTalk, Member, Protocols, subscription


def _wanting(*topics: str) -> Protocols:
    return (("range", subscription(*topics)),)


def _giving(topic: str, *partitions: int) -> bytes:
    """What a leader assigns."""
    given = ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(partitions))
    assignment = ConsumerProtocolAssignment(assigned_partitions=[given])
    return b"\0\0" + bytes(assignment.encode(0))


def _sync_decoded(talk: GroupTalk, member: Member, label: str, **more: Any) -> None:
    """Sync, and note the assignment that the coordinator wrote, decoded."""
    answer = member.exchange(member.sync_request(**more), 5)
    decoded: Any = answer.assignment
    if decoded:
        version = int.from_bytes(decoded[:2], "big")
        assignment, _ = ConsumerProtocolAssignment.decode(memoryview(decoded), version, 2)
        decoded = {"version": version, **_as_dict(talk, assignment, version)}
    answer.assignment = b""
    talk.note(label, {"answer": talk.plain(answer, 5), "assignment": decoded})


def _as_dict(talk: GroupTalk, message: Any, version: int) -> dict[str, Any]:
    shown = talk.plain(message, version)
    assert isinstance(shown, dict)
    shown["assigned_partitions"] = sorted(
        (topic.topic, sorted(topic.partitions)) for topic in message.assigned_partitions
    )
    return shown


def classic_joins_consumer_group(talk: GroupTalk) -> None:
    """A classic member is told what to own by SyncGroup, and to rebalance by Heartbeat."""
    topic, _ = seen_topic(talk)
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    z.own("z owns all")
    a = talk.member("a")
    a.ask("a gets an id", a.join_request(_wanting(topic)), 9)
    a.ask("a joins", a.join_request(_wanting(topic)), 9)
    _sync_decoded(talk, a, "a syncs")
    z.beat("z revokes")
    a.heartbeat("a goes on")
    z.own("z has given up")
    a.heartbeat("a is told")
    a.ask("a joins again", a.join_request(_wanting(topic)), 9)
    _sync_decoded(talk, a, "a syncs again")
    a.heartbeat("a is settled")
    note_described(talk, "described", a.group_id)
    note_described(talk, "described in v0", a.group_id, version=0)
    talk.note_group("described as classic", a.group_id)
    talk.note_listed("listed", ListGroupsRequest(), 5)
    talk.ask("commit", commit(a.group_id, topic, position(0, 7), **as_member(a)), 9)
    stale = as_member(a, generation_id_or_member_epoch=a.generation - 1)
    talk.ask("stale commit", commit(a.group_id, topic, position(0, 8), **stale), 9)
    talk.ask("fetched", fetch(a.group_id, 9, None), 9)
    a.leave("a leaves")
    z.beat("z is given all")


def classic_refused_by_consumer_group(talk: GroupTalk) -> None:
    """Subscriptions that cannot be read, other types, unknown ids, wrong generations."""
    topic, _ = seen_topic(talk)
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    z.own("z owns all")
    a = talk.member("a")
    variants: tuple[tuple[str, Protocols, dict[str, Any]], ...] = (
        ("garbage", (("range", b"\xff"),), {}),
        ("no bytes", (("range", b""),), {}),
        ("no protocols", (), {}),
        ("other type", _wanting(topic), {"protocol_type": "connect"}),
        ("session too short", _wanting(topic), {"session_timeout_ms": 1}),
        ("unknown id", _wanting(topic), {"member_id": "nobody"}),
    )
    for label, protocols, fields in variants:
        for version in (0, 3, 4, 9):
            request = a.join_request(protocols, **{"member_id": "", **fields})
            if version < 4 and label == "session too short":
                continue
            a.ask(f"v{version} {label}", request, version)
    z.beat("z goes on")


def classic_requests_of_mixed_group(talk: GroupTalk) -> None:
    """Refusals to a classic member of a consumer group."""
    topic, _ = seen_topic(talk)
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    a = talk.member("a")
    a.exchange(a.join_request(_wanting(topic)), 9)
    a.ask("a joins", a.join_request(_wanting(topic)), 9)
    variants: tuple[tuple[str, dict[str, Any]], ...] = (
        ("old generation", {"generation_id": a.generation - 1}),
        ("generation to come", {"generation_id": 99}),
        ("unknown member", {"member_id": "nobody"}),
        ("instance", {"group_instance_id": "i"}),
    )
    for label, fields in variants:
        a.heartbeat(f"heartbeat, {label}", **fields)
        _sync_decoded(talk, a, f"sync, {label}", **fields)
    _sync_decoded(talk, a, "sync, other protocol", protocol_name="sticky")
    _sync_decoded(talk, a, "sync, other type", protocol_type="connect")
    z.own("z has given up")
    a.heartbeat("a is told")
    a.ask("z's id with the classic protocol", a.join_request(_wanting(topic), member_id="z"), 9)
    z.beat("z goes on")


def classic_static_member_in_mixed_group(talk: GroupTalk) -> None:
    """A static classic member beside a consumer member restarts."""
    topic, _ = seen_topic(talk)
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    a = talk.member("a", instance="one")
    a.ask("a joins", a.join_request(_wanting(topic)), 9)
    z.own("z gives up")
    a.ask("a joins again", a.join_request(_wanting(topic)), 9)
    _sync_decoded(talk, a, "a syncs")
    back = talk.member("back", instance="one")
    back.ask("a is back", back.join_request(_wanting(topic)), 9)
    _sync_decoded(talk, back, "it syncs")
    a.heartbeat("a is fenced")
    note_described(talk, "described", a.group_id)


def upgrade_offline(talk: GroupTalk) -> None:
    """An empty classic group becomes a consumer group; offsets stay."""
    topic, _ = seen_topic(talk)
    a = talk.member("a")
    a.settle("a", _wanting(topic))
    talk.exchange(commit(a.group_id, topic, position(0, 7), **as_member(a)), 9)
    a.leave("a leaves")
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    note_described(talk, "described", a.group_id)
    talk.ask("fetched", fetch(a.group_id, 9, None), 9)
    offsets_only = Consumer(talk, "z", "offsets")
    talk.exchange(commit(offsets_only.group_id, topic, position(0, 8)), 9)
    offsets_only.enter("joins a group of offsets alone", topic)
    talk.ask("its offsets", fetch(offsets_only.group_id, 9, None), 9)


def downgrade_offline(talk: GroupTalk) -> None:
    """An empty consumer group becomes a classic group."""
    topic, _ = seen_topic(talk)
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    member = {"member_id": "z", "generation_id_or_member_epoch": z.epoch}
    talk.exchange(commit(z.group_id, topic, position(0, 7), **member), 9)
    z.quit("z leaves")
    talk.note_records("records")
    a = talk.member("a")
    a.settle("a", _wanting(topic))
    talk.note_group("described", a.group_id)
    note_described(talk, "described as consumer", a.group_id)
    talk.ask("fetched", fetch(a.group_id, 9, None), 9)


def upgrade_online(talk: GroupTalk) -> None:
    """The first consumer member makes a live classic group a consumer group."""
    topic, _ = seen_topic(talk)
    a = talk.member("a")
    a.join("a joins", _wanting(topic))
    a.sync("a syncs", (a, _giving(topic, 0, 1, 2, 3)))
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    note_described(talk, "described", a.group_id)
    a.heartbeat("a is told")
    a.ask("a joins again", a.join_request(_wanting(topic)), 9)
    _sync_decoded(talk, a, "a syncs again")
    z.own("z owns")
    a.heartbeat("a goes on")
    note_described(talk, "described at last", a.group_id)
    a.leave("a leaves")
    z.beat("z is given all")


def upgrade_of_a_group_in_motion(talk: GroupTalk) -> None:
    """A classic group is converted while its leader assigns."""
    topic, _ = seen_topic(talk)
    other, _ = seen_topic(talk, "other")
    a = talk.member("a")
    a.join("a joins", _wanting(topic))
    z = Consumer(talk, "z")
    z.enter("z joins a completing group", other)
    a.sync("a's sync", (a, b""))
    a.heartbeat("a's heartbeat")
    note_described(talk, "described", a.group_id)


def upgrade_refused(talk: GroupTalk) -> None:
    """Classic groups that are no consumers', or whose subscriptions cannot be read."""
    topic, _ = seen_topic(talk)
    connect = talk.member("a", "connect")
    connect.settle("connect", (("default", b"x"),), protocol_type="connect")
    garbage = talk.member("a", "garbage")
    garbage.settle("garbage", (("range", b"\xff"),))
    unassigned = talk.member("a", "unassigned")
    unassigned.join("unassigned joins", _wanting(topic))
    unassigned.sync("unassigned syncs", (unassigned, b"\x07garbage"))
    for stem in ("connect", "garbage", "unassigned"):
        z = Consumer(talk, "z", stem)
        z.enter(f"z joins {stem}", topic)
        talk.note_group(f"{stem} described", z.group_id)


def downgrade_online(talk: GroupTalk) -> None:
    """The last consumer member leaves: a classic group is what remains, and rebalances."""
    topic, _ = seen_topic(talk)
    z = Consumer(talk, "z")
    z.enter("z joins", topic)
    a = talk.member("a")
    a.exchange(a.join_request(_wanting(topic)), 9)
    a.ask("a joins", a.join_request(_wanting(topic)), 9)
    _sync_decoded(talk, a, "a syncs")
    z.quit("z leaves")
    talk.note_group("described", a.group_id)
    note_described(talk, "described as consumer", a.group_id)
    a.heartbeat("a is told")
    a.join("a joins again", _wanting(topic))
    a.sync("a syncs again", (a, b"all"))
    talk.note_group("described at last", a.group_id)
    talk.note_records("records", in_order=False)


def migration_disabled(talk: GroupTalk) -> None:
    """With the policy disabled nobody crosses over, but empty groups do."""
    topic, _ = seen_topic(talk)
    a, z = talk.member("a", "classic"), Consumer(talk, "z", "classic")
    a.settle("a", _wanting(topic))
    z.enter("z joins a classic group", topic)
    a.leave("a leaves")
    z.enter("z joins an empty classic group", topic)
    z.own("z owns")
    late = talk.member("late", "classic")
    late.ask("late joins a consumer group", late.join_request(_wanting(topic)), 3)
    z.quit("z leaves")
    late.join("late joins an empty consumer group", _wanting(topic))


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    classic_joins_consumer_group,
    classic_refused_by_consumer_group,
    classic_requests_of_mixed_group,
    classic_static_member_in_mixed_group,
    upgrade_offline,
    downgrade_offline,
    upgrade_online,
    upgrade_of_a_group_in_motion,
    upgrade_refused,
    downgrade_online,
)
