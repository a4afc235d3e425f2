"""Static members of classic groups: they come back under another id, and nobody need notice."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k13_leave_group import MemberIdentity

from .classic_running import Running

BOTH = {"range": b"1", "roundrobin": b"2"}


def stable(run: Running, **about: object) -> tuple[str, str]:
    """A static leader (instance i) and a static follower (instance j)."""
    run.join("a", instance_id="i", **about)  # type: ignore[arg-type]
    b = run.join("b", instance_id="j", **about)  # type: ignore[arg-type]
    a = run.group.roster.member_id_of["i"]
    run.join("a", a, instance_id="i", **about)  # type: ignore[arg-type]
    run.assign([a, b.now.member_id])
    assert run.state == "Stable"
    return a, b.now.member_id


def test_a_follower_comes_back_without_a_rebalance() -> None:
    run = Running()
    a, b = stable(run)
    run.holds_appends = True
    back = run.join("b", instance_id="j")
    assert back.is_parked  # until it is written who it is now
    run.finish_append()
    joined = back.now
    assert (joined.generation_id, joined.leader, joined.members) == (2, a, [])
    assert not joined.skip_assignment
    assert run.state == "Stable"
    assert run.sync(joined.member_id, instance_id="j").now.assignment == b.encode()
    kept = {member.member_id: member.assignment for member in run.written[-1].members}
    assert kept == {a: a.encode(), joined.member_id: b.encode()}
    assert run.heartbeat(b, instance_id="j") is ErrorCode.FENCED_INSTANCE_ID
    assert run.heartbeat(b) is ErrorCode.UNKNOWN_MEMBER_ID
    assert run.group.deadlines.get(b) is None
    assert "fenced" in run.events()


def test_the_leader_comes_back_and_is_told_to_assign_nothing() -> None:
    run = Running()
    stable(run)
    joined = run.join("a", instance_id="i").now
    assert joined.leader == joined.member_id
    assert joined.skip_assignment
    assert len(joined.members) == 2


@pytest.mark.parametrize("version", [5, 8])
def test_before_v9_it_is_told_that_its_former_self_leads(version: int) -> None:
    run = Running()
    a, _ = stable(run)
    joined = run.join("a", instance_id="i", version=version).now
    assert (joined.leader, joined.members, joined.skip_assignment) == (a, [], False)
    assert run.group.leader_id == joined.member_id


def test_what_the_former_self_waits_for_is_fenced() -> None:
    run = Running(initial_rebalance_delay_ms=1_000)
    join = run.join("a", instance_id="i")
    again = run.join("a", instance_id="i")
    assert (join.code, join.now.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "i-1")
    run.tick(1_000)
    assert again.now.generation_id == 1
    follower = run.join("b", instance_id="j")
    run.join("a", again.now.member_id, instance_id="i")
    sync = run.sync(follower.now.member_id)
    run.join("b", instance_id="j")
    assert sync.code is ErrorCode.FENCED_INSTANCE_ID


def test_an_old_id_is_fenced_everywhere() -> None:
    run = Running()
    a, b = stable(run)
    run.join("b", instance_id="j")
    assert run.join("b", b, instance_id="j").code is ErrorCode.FENCED_INSTANCE_ID
    assert run.sync(b, instance_id="j").code is ErrorCode.FENCED_INSTANCE_ID
    assert run.join("b", a, instance_id="j").code is ErrorCode.FENCED_INSTANCE_ID
    assert run.join("b", b, instance_id="k").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_while_completing_there_is_a_rebalance() -> None:
    run = Running()
    a, _ = stable(run)
    run.join("a", a, instance_id="i", protocols={"range": b"new"})
    run.join("b", run.group.roster.member_id_of["j"], instance_id="j")
    assert run.state == "CompletingRebalance"
    join = run.join("b", instance_id="j")
    assert run.state == "PreparingRebalance"
    run.join("a", a, instance_id="i")
    assert join.now.generation_id == 4


def test_if_it_prefers_another_protocol_there_is_a_rebalance() -> None:
    run = Running()
    stable(run, protocols=BOTH)
    run.join("b", instance_id="j", protocols={"roundrobin": b"2"})
    assert run.state == "PreparingRebalance"


def test_if_its_return_is_not_written_it_has_not_come_back() -> None:
    run = Running()
    a, b = stable(run)
    run.holds_appends = True
    back = run.join("a", instance_id="i", protocols=BOTH, session_ms=20_000)
    run.finish_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert back.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (back.now.member_id, back.now.leader, back.now.generation_id) == ("", a, 2)
    assert run.heartbeat(a, instance_id="i") is ErrorCode.NONE
    assert run.group.leader_id == a
    assert [member.session_timeout_ms for member in run.group.members] == [10_000, 10_000]
    assert run.heartbeat(b, instance_id="j") is ErrorCode.NONE


def test_a_return_that_is_not_written_is_taken_back_out_of_the_next_record() -> None:
    run = Running()
    a, _ = stable(run)
    run.holds_appends = True
    run.join("a", instance_id="i")
    back = run.join("b", instance_id="j")
    run.finish_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    run.finish_append()  # begun with a's new id
    run.finish_append()
    kept = [member.member_id for member in run.written[-1].members]
    assert sorted(kept) == sorted([a, back.now.member_id])


def test_a_rebalance_that_comes_between_answers_it() -> None:
    run = Running()
    _, b = stable(run)
    run.holds_appends = True
    back = run.join("a", instance_id="i")
    run.join("b", b, instance_id="j", protocols={"range": b"new"})
    assert back.now.generation_id == 3  # all have joined
    run.finish_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert run.group.roster.member_id_of["i"] == back.now.member_id


def test_if_its_return_is_not_written_while_others_rebalance() -> None:
    run = Running()
    a, b = stable(run)
    c = run.join("c", instance_id="k")
    for member_id, instance_id in ((a, "i"), (b, "j")):
        run.join("m", member_id, instance_id=instance_id)
    run.assign([a, b, c.now.member_id])
    run.holds_appends = True
    back = run.join("a", instance_id="i", protocols=BOTH)
    other = run.join("b", b, instance_id="j", protocols=BOTH)
    run.finish_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert back.code is ErrorCode.NOT_COORDINATOR
    assert other.is_parked
    run.join("c", c.now.member_id, instance_id="k")
    assert run.join("a", a, instance_id="i").now.generation_id == 4


def test_a_second_return_fences_the_first() -> None:
    run = Running()
    stable(run)
    run.holds_appends = True
    first = run.join("a", instance_id="i")
    second = run.join("a", instance_id="i")
    assert first.code is ErrorCode.FENCED_INSTANCE_ID
    run.finish_append()
    assert second.is_parked
    run.finish_append()
    assert second.now.error_code == 0
    assert second.now.leader == second.now.member_id


def test_who_comes_back_before_it_has_synced_is_not_waited_for_twice() -> None:
    run = Running()
    run.join("a", instance_id="i", rebalance_ms=20_000)
    a = run.group.roster.member_id_of["i"]
    b = run.join("b", instance_id="j", rebalance_ms=20_000)
    run.join("a", a, instance_id="i", rebalance_ms=20_000)
    run.sync(a, {b.now.member_id: b"B"})
    back = run.join("b", instance_id="j", rebalance_ms=20_000)
    assert run.sync(back.now.member_id).now.assignment == b"B"
    for _ in range(5):
        run.tick(5_000)
        run.heartbeat(a)
        run.heartbeat(back.now.member_id)
    assert run.state == "Stable"


def test_an_empty_instance_id_is_one_like_any_other() -> None:
    run = Running()
    a = run.join("a", instance_id="").now.member_id
    assert run.leave(MemberIdentity(member_id="")).members[0].error_code
    assert run.heartbeat(a, instance_id="") is ErrorCode.NONE
    left = run.leave(MemberIdentity(member_id="", group_instance_id=""))
    assert left.members[0].error_code == 0
    assert run.group.roster.member_id_of == {}


def test_a_negative_rebalance_timeout_is_none_at_all() -> None:
    run = Running()
    (a,) = run.stable("a", rebalance_ms=-5)
    assert run.group.roster.rebalance_timeout_ms == 0
    assert run.join("a", a, rebalance_ms=-5).now.generation_id == 2
