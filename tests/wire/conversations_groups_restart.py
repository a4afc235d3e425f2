"""Groups over a restart of their broker, and the records in which they are kept."""

from collections.abc import Callable

from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from tests.wire.conversations_offsets import (
    DAY_MS,
    as_member,
    ask_delete,
    commit,
    delete_topic,
    fetch,
    position,
)
from tests.wire.group_talk import GroupTalk, Member, settle_pair, subscription
from tests.wire.talk import TIMESTAMP


def group_records(talk: GroupTalk) -> None:
    """A life of groups in their records."""
    topic = talk.create("t", 2)
    a, b = talk.member("a"), talk.member("b")
    settle_pair(talk, a, b, (("range", subscription(topic)),))
    talk.exchange(commit(a.group_id, topic, position(0, 5, "note"), **as_member(a)), 9)
    talk.exchange(commit(a.group_id, topic, position(1, 6), position(0, 7)), 2)
    b.leave("b leaves")
    a.join("a again")
    a.sync("a synced", (a, b"all"))
    static = talk.member("static", "static", instance="one")
    static.settle("static")
    back = talk.member("back", "static", instance="one")
    back.join("back")
    left = talk.member("left", "left")
    left.settle("left")
    left.leave("left alone")
    gone = talk.member("gone", "gone")
    gone.settle("gone")
    talk.exchange(commit(gone.group_id, topic, position(0, 1), **as_member(gone)), 9)
    gone.leave("gone leaves")
    talk.ask("gone is deleted", DeleteGroupsRequest(groups_names=[gone.group_id]), 2)
    talk.member("unsynced", "unsynced").join("unsynced")
    talk.note_records("records")


def offset_records(talk: GroupTalk) -> None:
    """Commits of every kind and their deletion in their records."""
    topic = talk.create("t", 4)
    group_id = talk.group()
    talk.ask("v1", commit(group_id, topic, position(0, 9, commit_timestamp=TIMESTAMP)), 1)
    for version in (2, 4):
        asked = commit(group_id, topic, position(1, version), retention_time_ms=DAY_MS)
        talk.ask(f"v{version}", asked, version)
    together = position(2, 0, None, committed_leader_epoch=0), position(3, 7, "ä"), position(9, 9)
    talk.ask("v9", commit(group_id, topic, *together), 9)
    ask_delete(talk, "deleted", group_id, {topic: [3, 0]})
    other = talk.create("other")
    talk.ask("other", commit(group_id, other, position(0, 1)), 9)
    delete_topic(talk, other, group_id)
    talk.note_records("records", in_order=False)


def restart(talk: GroupTalk) -> None:
    """A clean stop: members go on where they were, offsets are there."""
    _live_through(talk, talk.server.stop)


def kill(talk: GroupTalk) -> None:
    """A crash: the same."""
    _live_through(talk, talk.server.kill)


def _live_through(talk: GroupTalk, end: Callable[[], None]) -> None:
    topic = talk.create("t", 2)
    members = [talk.member(name) for name in "ab"]
    a, b = members
    settle_pair(talk, a, b)
    talk.exchange(commit(a.group_id, topic, position(0, 5, "note"), **as_member(a)), 9)
    talk.exchange(commit(talk.group("outside"), topic, position(1, 6)), 9)
    static = talk.member("static", "static", instance="one")
    static.settle("static")
    left = talk.member("left", "left")
    left.settle("left")
    left.leave("left alone")
    unsynced = talk.member("unsynced", "unsynced")
    unsynced.join("unsynced")
    deleted = talk.group("deleted")
    talk.exchange(commit(deleted, topic, position(1, 6)), 9)
    talk.exchange(DeleteGroupsRequest(groups_names=[deleted]), 2)
    talk.restart(end)
    for stem in ("g", "static", "left", "unsynced", "deleted", "outside"):
        talk.note_group(f"{stem} described", talk.group(stem))
        talk.ask(f"{stem} offsets", fetch(talk.group(stem), 9, None), 9)
    talk.note_listed("listed", ListGroupsRequest(), 5)
    for member in (a, b, static, left, unsynced):
        member.heartbeat(f"{member.name} goes on")
        member.sync(f"{member.name} syncs as before")
    talk.ask("a commits", commit(a.group_id, topic, position(0, 6), **as_member(a)), 9)
    _come_back(talk, static)
    a.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    b.send_join()
    b.answer("b joined")
    a.answer("a joined")


def _come_back(talk: GroupTalk, static: Member) -> None:
    back = talk.member("back", "static", instance="one")
    back.join("the static member is back")
    static.heartbeat("the static member is fenced")


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    group_records,
    offset_records,
    restart,
    kill,
)
