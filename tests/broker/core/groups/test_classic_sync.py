"""SyncGroup, Heartbeat and LeaveGroup of classic groups."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k13_leave_group import MemberIdentity

from .classic_running import RANGE, Running


def completing(run: Running) -> tuple[str, str]:
    """Two members have joined; nobody has synced."""
    a, _ = run.member("a")
    b, _ = run.member("b")
    run.join("a", a)
    assert run.state == "CompletingRebalance"
    return a, b


def test_all_are_answered_once_the_leaders_assignment_is_written() -> None:
    run = Running()
    a, b = completing(run)
    run.holds_appends = True
    follower = run.sync(b)
    leader = run.sync(a, {a: b"A", b: b"\xff\0", "stranger": b"?"})
    assert follower.is_parked
    assert leader.is_parked
    assert run.state == "CompletingRebalance"
    run.finish_append()
    assert (leader.now.assignment, follower.now.assignment) == (b"A", b"\xff\0")
    assert (follower.now.protocol_type, follower.now.protocol_name) == ("consumer", "range")
    assert run.state == "Stable"
    (value,) = run.written
    assert [(m.member_id, m.subscription, m.assignment) for m in value.members] == [
        (a, b"R", b"A"),
        (b, b"R", b"\xff\0"),
    ]
    assert (value.generation, value.protocol, value.leader) == (2, "range", a)


def test_members_that_the_leader_forgot_get_nothing() -> None:
    run = Running()
    a, b = completing(run)
    run.sync(a, {a: b"A"})
    assert run.sync(b).now.assignment == b""


def test_a_late_sync_is_answered_from_what_is_known() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    assert run.sync(b).now.assignment == b.encode()
    assert run.sync(a, {a: b"other"}).now.assignment == a.encode()  # not spread any more


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_if_it_is_not_written_all_hear_why_and_join_again(code: ErrorCode, told: ErrorCode) -> None:
    run = Running()
    a, b = completing(run)
    run.holds_appends = True
    follower, leader = run.sync(b), run.sync(a, {a: b"A"})
    run.tick(5_000)
    run.finish_append(code)
    assert follower.code is leader.code is told
    assert leader.now.protocol_name is None
    assert run.state == "PreparingRebalance"
    join = run.join("a", a)
    run.tick(9_000)
    assert run.heartbeat(b) is ErrorCode.REBALANCE_IN_PROGRESS
    run.join("b", b)
    assert join.now.generation_id == 3


def test_an_assignment_that_is_written_too_late_is_nobodys() -> None:
    run = Running()
    a, b = completing(run)
    run.holds_appends = True
    follower, leader = run.sync(b), run.sync(a, {b: b"old"})
    run.join("b", b, protocols={"range": b"new"})
    assert follower.code is leader.code is ErrorCode.REBALANCE_IN_PROGRESS
    run.join("a", a)
    follower = run.sync(b)
    run.finish_append()
    assert follower.is_parked
    run.sync(a, {b: b"new"})
    run.finish_append()
    assert follower.now.assignment == b"new"


def test_a_second_sync_takes_the_place_of_the_parked_one() -> None:
    run = Running()
    a, b = completing(run)
    first, second = run.sync(b), run.sync(b)
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    run.sync(a, {b: b"B"})
    assert second.now.assignment == b"B"


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "code"),
    [
        ("consumer", "range", ErrorCode.NONE),
        ("connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (None, "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_from_v5_on_type_and_protocol_are_named(
    protocol_type: str | None, protocol_name: str | None, code: ErrorCode
) -> None:
    run = Running()
    (a,) = run.stable("a")
    sync = run.sync(a, protocol_type=protocol_type, protocol_name=protocol_name)
    assert sync.code is code
    assert run.sync(a, version=4).code is ErrorCode.NONE


def test_who_may_sync() -> None:
    run = Running()
    assert run.sync("x", generation_id=0).code is ErrorCode.UNKNOWN_MEMBER_ID
    a, b = run.stable("a", "b")
    assert run.sync("x").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert run.sync(b, generation_id=1).code is ErrorCode.ILLEGAL_GENERATION
    assert run.sync(b, instance_id="i").code is ErrorCode.UNKNOWN_MEMBER_ID
    run.join("a", a)
    assert run.sync(b).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats() -> None:
    run = Running()
    assert run.heartbeat("x", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    pending = run.join("p").now.member_id
    assert run.heartbeat(pending, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    run.leave(pending)
    a, b = completing(run)
    assert run.heartbeat(b) is ErrorCode.NONE  # nothing to join again yet
    run.assign([a, b])
    assert run.heartbeat(b) is ErrorCode.NONE
    assert run.heartbeat(b, 1) is ErrorCode.ILLEGAL_GENERATION
    assert run.heartbeat(b, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    run.join("a", a)
    assert run.heartbeat(b) is ErrorCode.REBALANCE_IN_PROGRESS


# Leaving


def test_the_others_rebalance_when_one_leaves() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    left = run.leave(MemberIdentity(member_id=a, reason="scaled down"))
    assert (left.error_code, [member.error_code for member in left.members]) == (0, [0])
    assert run.heartbeat(b) is ErrorCode.REBALANCE_IN_PROGRESS
    assert run.join("b", b).now.leader == b
    reasons = [entry.reason for entry in run.group.journal.entries() if entry.event == "left"]
    assert reasons == ["the client says: scaled down"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_v3_one_leaves_and_the_code_is_the_answers_own(version: int) -> None:
    run = Running()
    (a,) = run.stable("a")
    assert run.leave("x", version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    left = run.leave(a, version=version)
    assert (left.error_code, left.members) == (0, [])
    assert run.state == "Empty"


@pytest.mark.parametrize("version", [3, 4, 5])
def test_from_v3_on_each_member_has_a_code_and_the_answer_none(version: int) -> None:
    run = Running()
    (a,) = run.stable("a")
    left = run.leave("x", a, version=version)
    assert left.error_code == ErrorCode.NONE
    assert [(member.member_id, member.error_code) for member in left.members] == [
        ("x", ErrorCode.UNKNOWN_MEMBER_ID),
        (a, ErrorCode.NONE),
    ]


def test_several_leave_each_with_its_own_code() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    s = run.join("s", instance_id="i")
    run.join("a", a)
    run.join("b", b)
    pending = run.join("p").now.member_id
    left = run.leave(
        b,
        b,
        pending,
        MemberIdentity(member_id="", group_instance_id="unknown"),
        MemberIdentity(member_id="old", group_instance_id="i"),
        MemberIdentity(member_id=a, group_instance_id="unknown"),
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id=""),
    )
    assert [ErrorCode(member.error_code).name for member in left.members] == [
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
        "NONE",
        "UNKNOWN_MEMBER_ID",
    ]
    assert left.members[6].group_instance_id == "i"
    assert s.now.generation_id == 3
    assert [member.member_id for member in run.group.members] == [a]


def test_a_pending_member_that_leaves_holds_nobody_back() -> None:
    run = Running()
    (a,) = run.stable("a")
    pending = run.join("b").now.member_id
    join = run.join("a", a)
    assert join.is_parked
    run.leave(pending)
    assert join.now.generation_id == 2


def test_whatever_waits_is_answered_when_its_member_leaves() -> None:
    run = Running()
    _, b = completing(run)
    sync = run.sync(b)
    run.leave(b)
    assert sync.code is ErrorCode.UNKNOWN_MEMBER_ID
    run = Running()
    a, b = run.stable("a", "b")
    join = run.join("a", a)
    run.leave(a)
    assert join.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_group_moves_away_all_who_wait_are_told() -> None:
    run = Running()
    a, b = completing(run)
    sync = run.sync(b)
    run.do(run.group.answer_all(ErrorCode.NOT_COORDINATOR), None)
    assert sync.code is ErrorCode.NOT_COORDINATOR
    run = Running()
    a, b = run.stable("a", "b")
    join = run.join("a", a, protocols=RANGE)
    run.do(run.group.answer_all(ErrorCode.NOT_COORDINATOR), None)
    assert (join.code, join.now.member_id) == (ErrorCode.NOT_COORDINATOR, a)
    assert run.state == "Dead"
