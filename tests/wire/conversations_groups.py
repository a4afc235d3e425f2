"""Joining, syncing and staying in a classic group: every version, every refusal."""

from collections.abc import Callable
from typing import Final

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k11_join_group import JoinGroupRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.wire.group_talk import (
    RANGE,
    GroupTalk,
    Member,
    Protocols,
    served,
    settle_pair,
    subscription,
)

SHARE: Final = 2
NO_MEMBER: Final = "test-00000000-0000-4000-8000-000000000000"
BOTH: Final[Protocols] = (
    ("range", subscription("t", user_data=b"1")),
    ("roundrobin", subscription("t", version=0)),
)

STICKY: Final[Protocols] = (("sticky", subscription("t")),)


def find_coordinator(talk: GroupTalk) -> None:
    """One key a request, then several; empty and odd ids."""
    for version in range(4):
        for key in (talk.group(), "", "ä b/c", "x" * 300):
            asked = FindCoordinatorRequest(key=key)
            talk.ask(f"v{version} {key[:9]!r}", asked, version)
    for version in (1, 2, 3):
        asked = FindCoordinatorRequest(key=talk.group(), key_type=SHARE)
        talk.ask(f"v{version} share", asked, version)
    for version in (4, 5, 6):
        for keys in ([talk.group(), "", "ä b/c", talk.group()], [], [""]):
            asked = FindCoordinatorRequest(coordinator_keys=keys)
            talk.ask(f"v{version} {len(keys)}", asked, version)
        for keys in (["", "x"], ["no:such:key"], ["g:AAAAAAAAAAAAAAAAAAAAAA:0"]):
            asked = FindCoordinatorRequest(coordinator_keys=keys, key_type=SHARE)
            talk.ask(f"v{version} share {keys[0]}", asked, version)


def join_without_id(talk: GroupTalk) -> None:
    """A first join: taken at once before v4, told its id first from v4 on."""
    for version in served(JoinGroupRequest):
        member = talk.member("a", f"v{version}")
        member.ask(f"v{version}", member.join_request(), version)
        talk.note_group(f"v{version} described", member.group_id)
        if version >= 4:
            member.ask(f"v{version} again", member.join_request(member_id=""), version)
            member.ask(f"v{version} with its id", member.join_request(), version)
            talk.note_group(f"v{version} described again", member.group_id)


def join_with_unknown_id(talk: GroupTalk) -> None:
    """A member id that nobody has given, in a group that is there and in one that is not."""
    talk.member("a", "there").settle("a")
    for version in served(JoinGroupRequest):
        for stem in ("there", "not there"):
            b = talk.member("b", stem)
            b.ask(f"v{version} {stem}", b.join_request(member_id=NO_MEMBER), version)
            b.ask(f"v{version} {stem} odd", b.join_request(member_id="x"), version)
    talk.note_group("there", talk.group("there"))
    talk.note_group("not there", talk.group("not there"))


def pending_member(talk: GroupTalk) -> None:
    """Someone who was given an id and has not come back with it."""
    a = talk.member("a")
    a.ask("id", a.join_request(), 9)
    talk.note_group("described", a.group_id)
    a.heartbeat("heartbeat", generation_id=0)
    a.heartbeat("heartbeat of no generation")
    a.sync("sync", generation_id=0)
    a.leave("leave")
    talk.note_group("described when gone", a.group_id)
    a.join("joins with the old id")
    again = talk.member("again")
    again.ask("another id", again.join_request(), 9)
    leaving = MemberIdentity(member_id=again.id)
    request = LeaveGroupRequest(group_id=a.group_id, members=[leaving])
    again.ask("batched leave", request, 5)
    again.ask("joins after that", again.join_request(), 9)


def pending_member_times_out(talk: GroupTalk) -> None:
    """An id that is not used within the session timeout is forgotten."""
    keeper, a = talk.member("keeper"), talk.member("a")
    keeper.settle("keeper")
    a.exchange(a.join_request(session_timeout_ms=300), 9)
    keeper.heartbeat("nobody waits for it")
    other = talk.member("other")
    other.send_join()
    # The rebalance waits for the keeper; by the time it joins nothing is left of the two ids.
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    keeper.hang_up()
    talk.note_group("described", a.group_id)


def one_member(talk: GroupTalk) -> None:
    """A life alone: join, sync, heartbeat, leave, as every version says it."""
    for version in served(JoinGroupRequest):
        a = talk.member("a", f"v{version}", version=version)
        a.join(f"v{version} join", BOTH)
        sync_version = min(version, 5)
        request = a.sync_request((a, b"everything"))
        a.ask(f"v{version} sync", request, sync_version)
        a.ask(f"v{version} sync again", a.sync_request(), sync_version)
        a.heartbeat(f"v{version} heartbeat", min(version, 4))
        talk.note_group(f"v{version} stable", a.group_id, min(version, 5))
        a.leave(f"v{version} leave", min(version, 2))
        talk.note_group(f"v{version} left", a.group_id, min(version, 5))


def sync_versions(talk: GroupTalk) -> None:
    """Sync of a stable group in every version, with and without what v5 adds."""
    a = talk.member("a")
    a.settle("a")
    for version in served(SyncGroupRequest):
        a.ask(f"v{version}", a.sync_request(), version)
        nothing = a.sync_request(protocol_type=None, protocol_name=None)
        a.ask(f"v{version} names nothing", nothing, version)
        a.ask(f"v{version} gives again", a.sync_request((a, b"other")), version)
    for label, fields in (
        ("wrong name", {"protocol_name": "roundrobin"}),
        ("wrong type", {"protocol_type": "connect"}),
        ("empty name", {"protocol_name": ""}),
        ("no name", {"protocol_name": None}),
        ("no type", {"protocol_type": None}),
    ):
        a.sync(label, **fields)
    talk.note_group("described", a.group_id)


def two_members(talk: GroupTalk) -> None:
    """The leader learns of both, the follower of itself; the follower syncs first."""
    a, b = talk.member("a"), talk.member("b")
    settle_pair(talk, a, b)
    talk.note_group("stable", a.group_id)
    for member in (a, b):
        member.heartbeat(f"{member.name} heartbeat")
        member.sync(f"{member.name} syncs again")


def three_members(talk: GroupTalk) -> None:
    """Two wait for the leader; two syncs wait for the leader's; one is given nothing."""
    members = a, b, c = [talk.member(name) for name in "abc"]
    a.join("a first")
    for count, member in ((2, b), (3, c)):
        member.send_join()
        talk.wait_state(a.group_id, "PreparingRebalance", members=count)
        member.note_waiting(f"{member.name} waits")
    a.heartbeat("a is told")
    a.send_join()
    for member in (b, c, a):
        member.answer(f"{member.name} joined")
    talk.note_group("completing", a.group_id)
    for member in (c, b):
        member.send(member.sync_request(), 5)
    a.heartbeat("heartbeat while completing")
    a.sync("a synced", (a, b"1"), (c, b"3"))
    for member in (b, c):
        member.answer(f"{member.name} synced")
    for member in members:
        member.heartbeat(f"{member.name} heartbeat")
    talk.note_group("stable", a.group_id)


def sync_of_a_completing_group(talk: GroupTalk) -> None:
    """A follower's assignments count for nothing; strangers' and empty ones are dropped."""
    a, b = talk.member("a"), talk.member("b")
    a.join("a first")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.sync("sync while preparing", (a, b"x"))
    b.note_waiting("b waits")
    a.send_join()
    b.answer("b joined")
    a.answer("a joined")
    b.send(b.sync_request((b, b"the follower's wish")), 5)
    a.heartbeat("a completing")
    wrong = a.sync_request((a, b"x"))
    wrong.generation_id = 99
    a.ask("wrong generation", wrong, 5)
    b.note_waiting("b still waits")
    wrong = a.sync_request((a, b"first"), (a, b"second"), (b, b""))
    wrong.assignments.append(SyncGroupRequestAssignment(member_id=NO_MEMBER, assignment=b"y"))
    a.ask("a synced", wrong, 5)
    b.answer("b synced")
    talk.note_group("stable", a.group_id)


def sync_refusals(talk: GroupTalk) -> None:
    """Sync of strangers, of other generations, of groups that are not there."""
    a = talk.member("a")
    a.settle("a")
    for version in served(SyncGroupRequest):
        for label, fields in (
            ("generation 0", {"generation_id": 0}),
            ("generation 2", {"generation_id": 2}),
            ("generation -1", {"generation_id": -1}),
            ("unknown", {"member_id": NO_MEMBER}),
            ("no member", {"member_id": ""}),
            ("unknown group", {"group_id": talk.group("absent")}),
            ("empty group", {"group_id": ""}),
        ):
            a.ask(f"v{version} {label}", a.sync_request(**fields), version)


def heartbeats(talk: GroupTalk) -> None:
    """Heartbeats of members, strangers, other generations, in each state."""
    a, b = talk.member("a"), talk.member("b")
    a.join("a")
    _heartbeats(talk, a, "completing")
    a.sync("a synced", (a, b"x"))
    _heartbeats(talk, a, "stable")
    b.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    _heartbeats(talk, a, "preparing")
    a.leave("a leaves")
    b.answer("b joined")
    b.leave("b leaves")
    _heartbeats(talk, a, "empty")


def _heartbeats(talk: GroupTalk, a: Member, state: str) -> None:
    for version in served(HeartbeatRequest):
        for label, fields in (
            ("", {}),
            ("generation 0", {"generation_id": 0}),
            ("generation -1", {"generation_id": -1}),
            ("unknown", {"member_id": NO_MEMBER}),
            ("no member", {"member_id": ""}),
            ("unknown group", {"group_id": talk.group("absent")}),
            ("empty group", {"group_id": ""}),
        ):
            a.heartbeat(f"v{version} {state} {label}", version, **fields)


def protocol_selection(talk: GroupTalk) -> None:
    """Members vote for the first of theirs that all can do."""
    a, b, c = [talk.member(name) for name in "abc"]
    a.join(
        "a alone", (("x", subscription("ax")), ("y", subscription("ay")), ("z", subscription("az")))
    )
    b.send_join((("z", subscription("bz")), ("y", subscription("by"))))
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    c.send_join((("z", subscription("cz")), ("x", subscription("cx")), ("y", subscription("cy"))))
    talk.wait_state(a.group_id, "PreparingRebalance", members=3)
    a.send_join((("x", subscription("ax")), ("y", subscription("ay")), ("z", subscription("az"))))
    for member in (b, c, a):
        member.answer(f"{member.name} joined")
    talk.note_group("described", a.group_id)
    for member in (b, c):
        member.send(member.sync_request(protocol_name="z"), 5)
    a.sync("a syncs", protocol_name="z")
    for member in (b, c):
        member.answer(f"{member.name} synced")
    talk.note_group("stable", a.group_id)


def inconsistent_protocols(talk: GroupTalk) -> None:
    """Nothing in common with the group, another type; the group does not suffer from it."""
    a = talk.member("a")
    a.settle("a")
    for version in served(JoinGroupRequest):
        b = talk.member("b")
        for label, protocols, kind in (
            ("other protocol", STICKY, "consumer"),
            ("other type", RANGE, "connect"),
            ("no type", RANGE, ""),
            ("no protocols", (), "consumer"),
        ):
            request = b.join_request(protocols, protocol_type=kind, member_id="")
            b.ask(f"v{version} {label}", request, version)
    a.ask("a changes to another", a.join_request(STICKY), 9)
    a.heartbeat("a is alone in it")
    b = talk.member("b")
    b.ask("b with the old one", b.join_request(), 9)
    talk.note_group("described", a.group_id)


def first_join_of_nothing(talk: GroupTalk) -> None:
    """No protocols, no type: a group does not begin so."""
    for version in served(JoinGroupRequest):
        a = talk.member("a", f"v{version}")
        a.ask(f"v{version} no protocols", a.join_request(()), version)
        a.ask(f"v{version} no type", a.join_request(protocol_type=""), version)
        a.ask(f"v{version} neither", a.join_request((), protocol_type=""), version)
        talk.note_group(f"v{version} described", a.group_id)


def session_timeout_bounds(talk: GroupTalk) -> None:
    """Sessions shorter or longer than the broker allows; odd rebalance timeouts."""
    for version in served(JoinGroupRequest):
        for session_ms in (99, 100, 1_800_000, 1_800_001, 0, -1):
            a = talk.member("a", f"v{version}-{session_ms}")
            request = a.join_request(session_timeout_ms=session_ms)
            a.ask(f"v{version} {session_ms}", request, version)
    for rebalance_ms in (-1, 0, -5):
        a = talk.member("a", f"rebalance{rebalance_ms}")
        a.join(f"rebalance {rebalance_ms}", rebalance_timeout_ms=rebalance_ms)


def group_max_size(talk: GroupTalk) -> None:
    """A fifth member where four are allowed; in a rebalance the places go to who comes first."""
    a, *others = members = [talk.member(name, version=3) for name in "abcd"]
    a.join("a")
    for count, member in enumerate(others, 2):
        member.send_join()
        talk.wait_state(a.group_id, "PreparingRebalance", members=count)
    a.send_join()
    for member in (*others, a):
        member.answer(f"{member.name} joined")
    _join_late(talk, "completing")
    for member in others:
        member.send(member.sync_request(), 3)
    a.ask("a synced", a.sync_request(*((member, b"x") for member in members)), 3)
    for member in others:
        member.answer(f"{member.name} synced")
    _join_late(talk, "stable")
    talk.note_group("full", a.group_id)
    a.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance")
    late = talk.member("late", version=3)
    late.send_join()
    talk.wait_state(a.group_id, "PreparingRebalance", members=5)
    for member in others[:2]:
        member.send_join()
    # Nothing outside shows how many are awaited; a heartbeat on the same connection would wait.
    talk.note_group("five", a.group_id)
    d = others[-1]
    d.heartbeat("d must rejoin")
    d.leave("d leaves")
    for member in (late, *others[:2], a):
        member.answer(f"{member.name} joined again")


def _join_late(talk: GroupTalk, state: str) -> None:
    for version in served(JoinGroupRequest):
        late = talk.member("late")
        late.ask(f"{state} v{version}", late.join_request(), version)
    late = talk.member("late", instance="i")
    late.ask(f"{state} with an instance", late.join_request(), 9)


def opaque_metadata(talk: GroupTalk) -> None:
    """What a consumer subscribes to is its own: anything goes in and comes back."""
    for number, data in enumerate((b"", b"\xff", b"\x00", b"\x00\x01r", bytes(9000))):
        a = talk.member("a", f"g{number}")
        a.settle(f"{number}", (("range", data), ("range2", b"")))
        talk.note_group(f"{number} described", a.group_id)
        other = talk.member("other", f"other{number}")
        other.settle(f"{number} other type", (("default", data),), protocol_type="connect")
        talk.note_group(f"{number} other described", other.group_id)


def empty_group_id(talk: GroupTalk) -> None:
    """A group without a name, in every version of every request of members."""
    a = talk.member("a")
    for version in served(JoinGroupRequest):
        a.ask(f"join v{version}", a.join_request(group_id=""), version)
    for version in served(LeaveGroupRequest):
        leaving = [MemberIdentity(member_id=NO_MEMBER)] if version >= 3 else []
        request = LeaveGroupRequest(group_id="", member_id=NO_MEMBER, members=leaving)
        a.ask(f"leave v{version}", request, version)
    talk.note_group("described", "")


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    find_coordinator,
    join_without_id,
    join_with_unknown_id,
    pending_member,
    pending_member_times_out,
    one_member,
    sync_versions,
    two_members,
    three_members,
    sync_of_a_completing_group,
    sync_refusals,
    heartbeats,
    protocol_selection,
    inconsistent_protocols,
    first_join_of_nothing,
    session_timeout_bounds,
    group_max_size,
    opaque_metadata,
    empty_group_id,
)
