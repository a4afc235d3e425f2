"""The way of a classic group from generation to generation, and its deadlines."""

import pytest

from odradek.broker.core.groups.classic_state import TRANSITIONS, ClassicState
from odradek.protocol.errors import ErrorCode

from .classic_running import Running


def test_every_state_may_end_and_none_comes_back_from_that() -> None:
    assert all(ClassicState.DEAD in after for after in TRANSITIONS.values())
    assert TRANSITIONS[ClassicState.DEAD] == {ClassicState.DEAD}
    run = Running()
    with pytest.raises(AssertionError):
        run.group.transition(ClassicState.STABLE)


# The first members of a group


def test_the_first_members_are_kept_for_the_initial_delay() -> None:
    run = Running(initial_rebalance_delay_ms=3_000)
    _, a = run.member("a")
    run.tick(2_999)
    assert a.is_parked
    run.tick(1)
    assert a.now.generation_id == 1


def test_they_are_kept_longer_while_more_come_but_no_longer_than_the_rebalance_timeout() -> None:
    run = Running(initial_rebalance_delay_ms=3_000)
    joins = [run.member("m", rebalance_ms=10_000)[1]]
    for _ in range(9):
        run.tick(1_000)
        joins.append(run.member("m", rebalance_ms=10_000)[1])
    run.tick(999)
    assert all(join.is_parked for join in joins)
    run.tick(1)  # 10 s after the first one
    assert {join.now.generation_id for join in joins} == {1}
    assert len(joins[0].now.members) == 10


def test_they_are_not_kept_longer_if_nobody_has_come() -> None:
    run = Running(initial_rebalance_delay_ms=3_000)
    run.member("a")
    _, b = run.member("b")
    run.tick(3_000)
    assert b.is_parked
    run.tick(3_000)  # b came in the first three seconds, nobody in the next
    assert b.now.generation_id == 1


def test_they_are_held_though_a_pending_member_is_missing() -> None:
    run = Running(initial_rebalance_delay_ms=3_000)
    _, a = run.member("a")
    run.join("b")
    run.tick(3_000)
    assert a.now.generation_id == 1


def test_a_group_that_was_empty_is_kept_but_not_longer() -> None:
    run = Running(initial_rebalance_delay_ms=3_000)
    a, _ = run.member("a")
    run.tick(3_000)
    run.leave(a)
    assert (run.state, run.group.generation_id) == ("Empty", 2)
    run.member("b")
    run.tick(1_000)
    _, c = run.member("c")
    run.tick(2_000)
    assert c.now.generation_id == 3


def test_if_they_all_leave_while_they_are_kept_the_group_is_empty_in_the_next_generation() -> None:
    run = Running(initial_rebalance_delay_ms=3_000)
    a, join = run.member("a")
    run.leave(a)
    assert (join.code, join.now.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert run.state == "PreparingRebalance"
    run.tick(3_000)
    assert (run.state, run.group.generation_id) == ("Empty", 1)


# Coming back


def test_who_does_not_join_again_within_the_rebalance_timeout_is_out() -> None:
    run = Running()
    a, b, c = run.stable("a", "b", "c", session_ms=60_000, rebalance_ms=20_000)
    a_join = run.join("a", a, session_ms=60_000, rebalance_ms=20_000)
    run.tick(19_999)
    assert a_join.is_parked
    run.tick(1)
    assert [member.member_id for member in a_join.now.members] == [a]
    assert run.heartbeat(b) is run.heartbeat(c) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_sets_the_rebalance_timeout() -> None:
    run = Running()
    a, _ = run.member("a", rebalance_ms=5_000)
    b, _ = run.member("b", rebalance_ms=30_000, session_ms=40_000)
    run.join("a", a, rebalance_ms=5_000)
    run.assign([a, b])
    join = run.join("a", a, rebalance_ms=5_000)
    run.tick(29_999)
    assert join.is_parked
    run.tick(1)
    assert not join.is_parked


def test_if_the_leader_does_not_come_back_another_one_leads() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    join = run.join("b", b, protocols={"range": b"new"})
    run.tick(60_000)
    assert join.now.leader == b
    assert a not in run.group.roster.members
    leaders = [e.who for e in run.group.journal.entries() if e.event == "generation"]
    assert leaders == [a, a, b]


def test_a_pending_member_holds_the_generation_back_until_its_session_ends() -> None:
    run = Running()
    (a,) = run.stable("a")
    pending = run.join("b", session_ms=7_000).now.member_id
    join = run.join("a", a)
    run.tick(6_999)
    assert join.is_parked
    run.tick(1)
    assert join.now.generation_id == 2
    assert run.join("b", pending).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert [e.who for e in run.group.journal.entries() if e.event == "timed-out"] == [pending]


def test_a_static_member_that_does_not_come_back_stays_until_its_session_ends() -> None:
    run = Running()
    (a,) = run.stable("a")
    static = run.join("s", instance_id="i", session_ms=40_000, rebalance_ms=10_000)
    run.join("a", a, rebalance_ms=10_000)
    s = static.now.member_id
    run.assign([a, s])
    join = run.join("a", a, session_ms=1_000_000, rebalance_ms=10_000)
    run.tick(10_000)
    assert [member.member_id for member in join.now.members] == [a, s]


def test_if_only_silent_static_members_are_left_their_sessions_end_the_rebalance() -> None:
    run = Running()
    s = run.join("s", instance_id="i", session_ms=30_000, rebalance_ms=0).now.member_id
    run.assign([s])
    a, _ = run.member("a", rebalance_ms=0)  # the deadline is now: s is missing, but stays
    assert run.group.generation_id == 2
    run.leave(a)
    run.tick(0)
    assert run.state == "PreparingRebalance"
    assert [member.member_id for member in run.group.members] == [s]
    run.tick(30_000)
    assert run.state == "Empty"


# Sessions


def test_a_member_that_says_nothing_is_out() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    run.tick(9_000)
    assert run.heartbeat(a) is ErrorCode.NONE
    run.tick(1_000)
    assert run.state == "PreparingRebalance"
    assert run.heartbeat(b) is ErrorCode.UNKNOWN_MEMBER_ID
    assert run.join("a", a).now.generation_id == 3
    assert run.group.journal.entries()[-4:][0].reason == "no heartbeat within 10 s"


def test_the_last_one_leaves_an_empty_group_which_is_written() -> None:
    run = Running()
    run.stable("a")
    run.tick(10_000)
    assert (run.state, run.group.generation_id) == ("Empty", 2)
    value = run.written[-1]
    assert (value.generation, value.protocol, value.leader, value.members) == (2, None, None, [])
    assert (value.protocol_type, value.current_state_timestamp) == ("consumer", run.wall_ms)
    last = run.group.journal.entries()[-1]
    assert (last.event, last.reason) == ("empty", "generation 2 has no members")


def test_an_empty_group_stays_empty_if_that_is_not_written() -> None:
    run = Running()
    (a,) = run.stable("a")
    run.holds_appends = True
    run.leave(a)
    run.finish_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert run.state == "Empty"
    assert run.events()[-1] == "not-stored"


def test_while_its_join_is_parked_a_members_session_does_not_end() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    join = run.join("a", a)
    for _ in range(5):
        run.tick(9_000)
        assert run.heartbeat(b) is ErrorCode.REBALANCE_IN_PROGRESS
    assert join.is_parked
    run.join("b", b)
    assert join.now.generation_id == 3
    run.tick(9_999)  # from the answer on it counts anew
    assert a in run.group.roster.members


def test_while_its_sync_is_parked_neither() -> None:
    run = Running()
    a, _ = run.member("a")
    b, _ = run.member("b")
    run.join("a", a)
    parked = run.sync(b)
    for _ in range(5):
        run.tick(9_000)
        run.heartbeat(a)
    assert parked.is_parked
    run.sync(a, {b: b"B"})
    assert parked.now.assignment == b"B"
    run.tick(9_999)
    assert b in run.group.roster.members


def test_a_new_member_waits_five_minutes_for_its_first_generation() -> None:
    run = Running()
    a, b = run.stable("a", "b", session_ms=1_000_000, rebalance_ms=1_000_000)
    join = run.join("new", version=3)
    run.tick(299_999)
    assert join.is_parked
    run.tick(1)
    assert (join.code, join.now.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    run.join("a", a)
    assert run.join("b", b).now.generation_id == 3


# Syncs that never come


def test_who_joins_but_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    run = Running()
    a, _ = run.member("a", rebalance_ms=20_000)
    b, _ = run.member("b", rebalance_ms=20_000)
    run.join("a", a, rebalance_ms=20_000)
    parked = run.sync(b)
    for _ in range(3):
        run.tick(5_000)
        run.heartbeat(a)
    run.tick(4_999)
    assert parked.is_parked
    run.tick(1)
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert run.heartbeat(a) is ErrorCode.UNKNOWN_MEMBER_ID
    assert run.join("b", b).now.leader == b


def test_that_holds_in_a_stable_group_too() -> None:
    run = Running()
    a, _ = run.member("a", rebalance_ms=20_000)
    b, _ = run.member("b", rebalance_ms=20_000)
    run.join("a", a, rebalance_ms=20_000)
    run.sync(a, {})
    assert run.state == "Stable"
    for _ in range(4):
        run.tick(5_000)
        run.heartbeat(a)
        run.heartbeat(b)
    assert run.state == "PreparingRebalance"
    assert [member.member_id for member in run.group.members] == [a]


def test_when_all_have_synced_nothing_is_due() -> None:
    run = Running()
    ids = run.stable("a", "b", rebalance_ms=20_000)
    for _ in range(10):
        run.tick(5_000)
        assert [run.heartbeat(member_id) for member_id in ids] == [ErrorCode.NONE] * 2


def test_deadlines_that_come_at_once_are_met_in_their_order() -> None:
    run = Running()
    a, b = run.stable("a", "b", rebalance_ms=8_000)
    run.tick(5_000)
    run.heartbeat(a)
    join = run.join("a", a, rebalance_ms=8_000)
    run.now_ms += 1_000_000  # the process stood still: b's session, the join deadline, a's session
    run.do(run.group.on_time(run.now_ms, run.wall_ms), None)
    assert [member.member_id for member in join.now.members] == [a]
    assert a in run.group.roster.members
    assert b not in run.group.roster.members
