"""Static members (group.instance.id): restarts without a rebalance, fencing, duplicates."""

from collections.abc import Callable
from typing import Any, Final

from odradek.protocol.messages.k11_join_group import JoinGroupRequest
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
OTHER: Final[Protocols] = (("range", subscription("other-topic")),)


def _pair(talk: GroupTalk, stem: str = "g") -> tuple[Member, Member]:
    """Two static members of a stable group; a leads."""
    a = talk.member("a", stem, instance="one")
    b = talk.member("b", stem, instance="two")
    settle_pair(talk, a, b)
    return a, b


def static_join(talk: GroupTalk) -> None:
    """No id is needed first; versions that know of no instances treat it as any other."""
    for version in served(JoinGroupRequest, 4):
        a = talk.member("a", f"v{version}", instance="one")
        a.ask(f"v{version}", a.join_request(), version)
        talk.note_group(f"v{version} described", a.group_id)
        a.ask(f"v{version} unknown id", a.join_request(member_id=NO_MEMBER), version)
        other = a.join_request(member_id=NO_MEMBER, group_instance_id="nobody")
        a.ask(f"v{version} unknown instance and id", other, version)
    for instance in ("", "x" * 300, "ä b/c", ".", ".."):
        odd = talk.member("odd", f"odd{instance[:3].encode().hex()}", instance=instance)
        odd.ask(f"instance {instance[:9]!r}", odd.join_request(), 9)


def static_pair(talk: GroupTalk) -> None:
    """Two static members, described in every version."""
    a, _ = _pair(talk)
    for version in range(6):
        talk.note_group(f"v{version}", a.group_id, version)


def static_follower_restarts(talk: GroupTalk) -> None:
    """It comes back without an id: same generation, a new id, the old one is fenced."""
    for version in served(JoinGroupRequest, 5):
        a, b = _pair_quietly(talk, f"v{version}")
        back = talk.member("back", f"v{version}", instance="two")
        back.ask(f"v{version} joins", back.join_request(), version)
        back.sync(f"v{version} syncs")
        a.heartbeat(f"v{version} a goes on")
        b.heartbeat(f"v{version} b is fenced")
        b.heartbeat(f"v{version} b without its instance", group_instance_id=None)
        b.sync(f"v{version} b syncs")
        b.ask(f"v{version} b joins", b.join_request(), version)
        back.heartbeat(f"v{version} goes on")
        talk.note_group(f"v{version} described", a.group_id)


def _pair_quietly(talk: GroupTalk, stem: str) -> tuple[Member, Member]:
    """As `_pair`, and nothing noted of it."""
    noted = dict(talk.answers)
    pair = _pair(talk, stem)
    talk.answers.clear()
    talk.answers.update(noted)
    return pair


def static_leader_restarts(talk: GroupTalk) -> None:
    """From v9 on it is told who is there and to skip the assignment; before, to be a follower."""
    for version in served(JoinGroupRequest, 5):
        a, b = _pair_quietly(talk, f"v{version}")
        back = talk.member("back", f"v{version}", instance="one")
        back.ask(f"v{version} joins", back.join_request(), version)
        back.sync(f"v{version} syncs")
        b.heartbeat(f"v{version} b goes on")
        a.heartbeat(f"v{version} a is fenced")
        talk.note_group(f"v{version} described", a.group_id)
        back.send_join()
        talk.wait_state(a.group_id, "PreparingRebalance", members=2)
        b.send_join()
        b.answer(f"v{version} b joined")
        back.answer(f"v{version} joins once more and leads")


def static_restart_with_other_metadata(talk: GroupTalk) -> None:
    """A subscription that changed over the restart is kept; what is chosen stays, so all stays."""
    a, _ = _pair(talk)
    back = talk.member("back", instance="two")
    back.join("joins", OTHER)
    a.heartbeat("a is not told")
    talk.note_group("described", a.group_id)


def static_restart_with_another_protocol(talk: GroupTalk) -> None:
    """So is a protocol that would be chosen otherwise; one that does not fit is refused."""
    a = talk.member("a", instance="one")
    a.settle("a", (("range", subscription("t")), ("sticky", subscription("t"))))
    back = talk.member("back", instance="one")
    back.ask("only another", back.join_request((("other", subscription("t")),)), 9)
    talk.note_group("after another", a.group_id)
    back = talk.member("back again", instance="one")
    protocols = (("sticky", subscription("t")), ("range", subscription("t")))
    back.ask("other order", back.join_request(protocols), 9)
    talk.note_group("after other order", a.group_id)


def static_restart_while_completing(talk: GroupTalk) -> None:
    """It restarts between JoinGroup and SyncGroup, as follower and as leader."""
    a, b = talk.member("a", instance="one"), talk.member("b", instance="two")
    a.join("a first")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.send_join()
    b.answer("b joined")
    a.answer("a joined")
    back = talk.member("back", instance="two")
    back.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.sync("a's sync", (a, b"x"))
    a.send_join()
    back.answer("b is back")
    a.answer("a joined again")
    b.heartbeat("b is fenced")


def static_duplicates_while_preparing(talk: GroupTalk) -> None:
    """Two with one instance wait in the same rebalance: the first is told that it is fenced."""
    a, b = _pair(talk)
    c = talk.member("c")
    c.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=3)
    b.send_join()
    twin = talk.member("twin", instance="two")
    twin.send_join()
    b.answer("b is fenced")
    a.send_join()
    twin.answer("its twin joined")
    c.answer("c joined")
    a.answer("a joined")
    talk.note_group("described", a.group_id)


def static_sync_of_twins(talk: GroupTalk) -> None:
    """A follower's sync waits when its twin comes: fenced, and the group starts over."""
    a, b = talk.member("a", instance="one"), talk.member("b", instance="two")
    a.join("a first")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.send_join()
    b.answer("b joined")
    a.answer("a joined")
    b.send(b.sync_request(), 5)
    talk.wait_state(a.group_id, "CompletingRebalance")
    twin = talk.member("twin", instance="two")
    twin.send_join()
    b.answer("b's sync")
    a.heartbeat("a is told")
    a.send_join()
    twin.answer("its twin joined")
    a.answer("a joined again")


def static_fencing(talk: GroupTalk) -> None:
    """Every request with an instance that is someone else's, or nobody's."""
    a, b = _pair(talk)
    variants: tuple[tuple[str, dict[str, Any]], ...] = (
        ("b's instance", {"group_instance_id": "two"}),
        ("nobody's instance", {"group_instance_id": "three"}),
        ("unknown member, a's instance", {"member_id": NO_MEMBER}),
        ("empty instance", {"group_instance_id": ""}),
        ("no member", {"member_id": ""}),
    )
    for label, fields in variants:
        for version in (3, 4):
            a.heartbeat(f"heartbeat v{version} {label}", version, **fields)
        for version in (3, 4, 5):
            a.ask(f"sync v{version} {label}", a.sync_request(**fields), version)
        if label != "no member":
            a.ask(f"join {label}", a.join_request(**fields), 9)
    b.heartbeat("b goes on")
    talk.note_group("described", a.group_id)


def static_leave(talk: GroupTalk) -> None:
    """By instance alone, by both, by a wrong one; several in one request."""
    for version in (3, 4, 5):
        a, b = _pair_quietly(talk, f"v{version}")
        for label, member_id, instance in (
            ("nobody", "", "three"),
            ("wrong member", NO_MEMBER, "one"),
            ("b's id, a's instance", b.id, "one"),
            ("unknown both", NO_MEMBER, "three"),
            ("by instance", "", "two"),
            ("again", "", "two"),
            ("by both", a.id, "one"),
        ):
            leaving = MemberIdentity(member_id=member_id, group_instance_id=instance)
            request = LeaveGroupRequest(group_id=a.group_id, members=[leaving])
            talk.ask(f"v{version} {label}", request, version)
        talk.note_group(f"v{version} described", a.group_id)
    a, b = _pair_quietly(talk, "batch")
    batch = [
        MemberIdentity(member_id="", group_instance_id=name) for name in ("two", "three", "one")
    ]
    talk.ask("batch", LeaveGroupRequest(group_id=a.group_id, members=batch), 5)
    talk.note_group("batch described", a.group_id)


def static_member_by_id(talk: GroupTalk) -> None:
    """A static member that leaves by its id alone is gone like any other."""
    a, b = _pair(talk)
    b.leave("b leaves", 2)
    a.heartbeat("a is told")
    talk.note_group("described", a.group_id)


def static_session_ends(talk: GroupTalk) -> None:
    """Silent for a session: the instance is forgotten and comes back as someone new."""
    a, b = talk.member("a"), talk.member("b", instance="two")
    b.join("b joins", session_timeout_ms=SHORT_MS)
    b.sync("b syncs", (b, b"x"))
    talk.wait_state(a.group_id, "Empty")
    b.heartbeat("b is unknown")
    b.ask("b joins with its old id", b.join_request(), 9)
    back = talk.member("back", instance="two")
    back.join("back without one")
    talk.note_group("described", a.group_id)


def static_becomes_dynamic(talk: GroupTalk) -> None:
    """A static member's id used without its instance, and a dynamic member that names one."""
    a, b = _pair(talk)
    b.ask("b without its instance", b.join_request(group_instance_id=None), 9)
    dynamic = talk.member("dynamic", "other")
    dynamic.settle("dynamic")
    named = dynamic.join_request(group_instance_id="now")
    dynamic.ask("names an instance", named, 9)
    dynamic.heartbeat("heartbeat with an instance", group_instance_id="now")
    talk.note_group("described", a.group_id)
    talk.note_group("other described", dynamic.group_id)


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    static_join,
    static_pair,
    static_follower_restarts,
    static_leader_restarts,
    static_restart_with_other_metadata,
    static_restart_with_another_protocol,
    static_restart_while_completing,
    static_duplicates_while_preparing,
    static_sync_of_twins,
    static_fencing,
    static_leave,
    static_member_by_id,
    static_session_ends,
    static_becomes_dynamic,
)
