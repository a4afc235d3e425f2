"""What makes a classic group rebalance, and what does not."""

import time
from collections.abc import Callable
from typing import Any, Final

from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.wire.group_talk import (
    SHORT_MS,
    GroupTalk,
    Member,
    Protocols,
    served,
    settle_pair,
    subscription,
)

NO_MEMBER: Final = "test-00000000-0000-4000-8000-000000000000"
HEARTBEAT_S: Final = 0.1
OTHER: Final[Protocols] = (("range", subscription("other-topic")),)


def rebalance_on_join(talk: GroupTalk) -> None:
    """A third joins a stable group: members are told, rejoin, and form the next generation."""
    a, b, c = [talk.member(name) for name in "abc"]
    settle_pair(talk, a, b)
    c.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=3)
    b.heartbeat("b is told")
    b.sync("sync of the old generation")
    b.send_join()
    talk.note_group("preparing", a.group_id)
    c.note_waiting("c waits for a")
    a.heartbeat("a is told")
    a.send_join()
    for member in (b, c, a):
        member.answer(f"{member.name} joined")
    b.heartbeat("b of the old generation", generation_id=b.generation - 1)
    for member in (b, c):
        member.send(member.sync_request(), 5)
    a.sync("a synced", (a, b"1"), (b, b"2"), (c, b"3"))
    for member in (b, c):
        member.answer(f"{member.name} synced")
    talk.note_group("stable", a.group_id)


def rebalance_on_leave(talk: GroupTalk) -> None:
    """A follower leaves, then the leader; who is left leads."""
    a, b = talk.member("a"), talk.member("b")
    settle_pair(talk, a, b)
    b.leave("b leaves")
    talk.note_group("b has left", a.group_id)
    a.heartbeat("a is told")
    b.heartbeat("b is gone")
    a.join("a rejoins")
    a.sync("a syncs", (a, b"all"))
    b.id = ""
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.leave("a leaves")
    b.answer("b leads")
    b.sync("b syncs", (b, b"all"))
    talk.note_group("b alone", a.group_id)


def leader_leaves_while_completing(talk: GroupTalk) -> None:
    """Followers that wait in SyncGroup are sent back to join."""
    a, b = talk.member("a"), talk.member("b")
    a.join("a first")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.send_join()
    b.answer("b joined")
    a.answer("a joined")
    b.send(b.sync_request(), 5)
    a.leave("a leaves")
    b.answer("b's sync")
    talk.note_group("preparing", a.group_id)
    b.join("b rejoins")
    talk.note_group("completing", a.group_id)


def last_member_leaves(talk: GroupTalk) -> None:
    """The group stays, empty; it may be joined with other protocols and another type."""
    a = talk.member("a")
    a.settle("a")
    a.leave("a leaves")
    talk.note_group("empty", a.group_id)
    again = talk.member("again")
    again.join("another protocol", (("other", b""),), protocol_type="connect")
    again.sync("synced", (again, b"x"), protocol_type="connect", protocol_name="other")
    talk.note_group("stable", a.group_id)


def leader_rejoins(talk: GroupTalk) -> None:
    """A leader that joins again starts a rebalance, though nothing has changed."""
    a, b = talk.member("a"), talk.member("b")
    settle_pair(talk, a, b)
    a.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    b.heartbeat("b is told")
    b.send_join()
    b.answer("b joined")
    a.answer("a joined")


def follower_rejoins_unchanged(talk: GroupTalk) -> None:
    """A follower that lost the answer gets it again; no rebalance, in any version."""
    a, b = talk.member("a"), talk.member("b")
    settle_pair(talk, a, b)
    for version in range(10):
        b.ask(f"v{version} unchanged", b.join_request(), version)
    shorter = b.join_request(session_timeout_ms=20_000, rebalance_timeout_ms=5_000)
    b.ask("other timeouts", shorter, 9)
    b.sync("sync after it")
    talk.note_group("stable", a.group_id)
    b.send_join(OTHER)
    talk.wait_state(a.group_id, "PreparingRebalance")
    a.heartbeat("metadata changed")
    a.send_join()
    b.answer("b joined")
    a.answer("a joined")


def rejoins_while_completing(talk: GroupTalk) -> None:
    """Who joins again between JoinGroup and SyncGroup, unchanged and changed."""
    a, b = talk.member("a"), talk.member("b")
    a.join("a first")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.send_join()
    b.answer("b joined")
    a.answer("a joined")
    b.join("b again")
    a.join("a again")
    b.send(b.sync_request(), 5)
    talk.wait_state(a.group_id, "CompletingRebalance")
    a.send_join(OTHER)
    b.answer("b's sync")
    b.join("b rejoins")
    a.answer("a joined with other metadata")
    talk.note_group("completing", a.group_id)


def newcomer_while_completing(talk: GroupTalk) -> None:
    """A join between JoinGroup and SyncGroup starts over."""
    a, b = talk.member("a"), talk.member("b")
    a.join("a")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.sync("a's sync", (a, b"x"))
    a.send_join()
    b.answer("b joined")
    a.answer("a joined")
    talk.note_group("completing", a.group_id)


def preparing_member_joins_again(talk: GroupTalk) -> None:
    """The same member asks twice while it waits: the older question is not answered before."""
    a, b = talk.member("a"), talk.member("b")
    a.join("a")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    same = talk.member("b on another connection")
    same.id = b.id
    same.send(same.join_request(), 9)
    a.heartbeat("a is told")
    a.join("a rejoins")
    same.answer("the later question")
    talk.note_group("completing", a.group_id)


def member_times_out(talk: GroupTalk) -> None:
    """A member that goes silent is put out of the group."""
    a, b = talk.member("a"), talk.member("b")
    settle_pair(talk, a, b)
    quick = (("range", subscription("t")),)
    b.send_join(quick, session_timeout_ms=SHORT_MS)
    a.send_join()
    b.answer("b has a short session")
    a.answer("a joined")
    b.send(b.sync_request(), 5)
    a.sync("a synced", (b, b"x"))
    b.answer("b synced")
    talk.wait_state(a.group_id, "PreparingRebalance", members=1)
    b.heartbeat("b is gone")
    a.heartbeat("a is told")
    a.join("a rejoins")
    b.ask("b joins with its old id", b.join_request(), 9)
    talk.note_group("described", a.group_id)


def only_member_times_out(talk: GroupTalk) -> None:
    """The group is empty then, one generation later."""
    labels = "stable", "completing"
    members = [talk.member("a", label) for label in labels]
    for label, a in zip(labels, members, strict=True):
        a.join(f"{label} joins", session_timeout_ms=SHORT_MS)
        if label == "stable":
            a.sync(f"{label} syncs", (a, b"x"))
    for label, a in zip(labels, members, strict=True):
        talk.wait_state(a.group_id, "Empty")
        a.heartbeat(f"{label} heartbeat")
        talk.note_group(f"{label} described", a.group_id)
        again = talk.member("again", label)
        again.join(f"{label} again")


def heartbeats_keep_a_member(talk: GroupTalk) -> None:
    """Heartbeats, and any other word of a member, make its session begin anew."""
    a, b = talk.member("a"), talk.member("short", "other")
    b.join("the clock joins", session_timeout_ms=SHORT_MS + 1_000)
    a.join("a joins", session_timeout_ms=SHORT_MS)
    a.sync("a syncs", (a, b"x"))
    deaths = 0
    while talk.describe(b.group_id).group_state != "Empty":  # for longer than a's session
        answer = a.exchange(_heartbeat_of(a), 4)
        deaths += answer.error_code != 0
        time.sleep(HEARTBEAT_S)
    talk.note("refused heartbeats", deaths)
    talk.note_group("described", a.group_id)


def _heartbeat_of(member: Member) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=member.group_id, generation_id=member.generation, member_id=member.id
    )


def rebalance_times_out(talk: GroupTalk) -> None:
    """Who does not rejoin in time is left behind, though its heart still beats."""
    a, b = talk.member("a"), talk.member("b")
    timeouts: dict[str, Any] = {"rebalance_timeout_ms": SHORT_MS, "session_timeout_ms": 30_000}
    a.join("a first", **timeouts)
    b.send_join(**timeouts)
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.heartbeat("a is told")
    b.answer("b leads without a")
    a.heartbeat("a is unknown")
    a.ask("a comes too late", a.join_request(), 9)
    talk.note_group("described", a.group_id)


def sync_times_out(talk: GroupTalk) -> None:
    """Members that have joined and do not sync within the rebalance timeout are put out."""
    a, b = talk.member("a"), talk.member("b")
    timeouts: dict[str, Any] = {"rebalance_timeout_ms": SHORT_MS, "session_timeout_ms": 30_000}
    a.join("a first", **timeouts)
    b.send_join(**timeouts)
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.send_join(**timeouts)
    b.answer("b joined")
    a.answer("a joined")
    b.send(b.sync_request(), 5)
    talk.wait_state(a.group_id, "PreparingRebalance", members=1)
    b.answer("b's sync")
    a.heartbeat("a is unknown")
    talk.note_group("described", a.group_id)


def leaves(talk: GroupTalk) -> None:
    """Leaving in every version: members, strangers, groups that are not there."""
    for version in served(LeaveGroupRequest):
        stem = f"v{version}"
        a, b = talk.member("a", stem), talk.member("b", stem)
        a.settle(f"{stem} a")
        b.exchange(b.join_request(), 9)  # is pending
        for label, group_id, member_ids in (
            ("unknown", a.group_id, [NO_MEMBER]),
            ("no member", a.group_id, [""]),
            ("unknown group", talk.group("absent"), [NO_MEMBER]),
            ("pending", a.group_id, [b.id]),
            ("pending again", a.group_id, [b.id]),
            ("itself", a.group_id, [a.id]),
            ("itself again", a.group_id, [a.id]),
        ):
            leaving = [MemberIdentity(member_id=one, reason="why not") for one in member_ids]
            request = LeaveGroupRequest(group_id=group_id)
            if version >= 3:
                request.members = leaving
            else:
                request.member_id = member_ids[0]
            talk.ask(f"{stem} {label}", request, version)
        talk.note_group(f"{stem} described", a.group_id)


def batched_leave(talk: GroupTalk) -> None:
    """Several at once, strangers among them, one named twice."""
    a, b = talk.member("a"), talk.member("b")
    settle_pair(talk, a, b)
    for version in (3, 4, 5):
        nobody = LeaveGroupRequest(group_id=a.group_id, members=[])
        talk.ask(f"v{version} nobody", nobody, version)
    names = [NO_MEMBER, b.id, "", a.id, b.id]
    identities = [MemberIdentity(member_id=name) for name in names]
    talk.ask("all", LeaveGroupRequest(group_id=a.group_id, members=identities), 5)
    talk.note_group("described", a.group_id)


def cooperative_rebalance(talk: GroupTalk) -> None:
    """Two generations of a cooperative hand-over: metadata with what is owned comes through."""
    a, b = talk.member("a"), talk.member("b")
    free = (("cooperative-sticky", subscription("t", version=3, generation_id=-1)),)
    a.settle("a", free)
    b.send_join(free)
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    owning = (("cooperative-sticky", subscription("t", version=3, generation_id=1, rack_id="r")),)
    a.send_join(owning)
    b.answer("b joined")
    a.answer("a joined")
    b.send(b.sync_request(protocol_name="cooperative-sticky"), 5)
    a.sync("a synced", (a, b"less"), (b, b""), protocol_name="cooperative-sticky")
    b.answer("b has nothing yet")
    a.send_join(owning)
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    b.heartbeat("b is told")
    b.join("b rejoins", free)
    a.answer("a joined again")
    talk.note_group("completing", a.group_id)


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    rebalance_on_join,
    rebalance_on_leave,
    leader_leaves_while_completing,
    last_member_leaves,
    leader_rejoins,
    follower_rejoins_unchanged,
    rejoins_while_completing,
    newcomer_while_completing,
    preparing_member_joins_again,
    member_times_out,
    only_member_times_out,
    heartbeats_keep_a_member,
    rebalance_times_out,
    sync_times_out,
    leaves,
    batched_leave,
    cooperative_rebalance,
)
