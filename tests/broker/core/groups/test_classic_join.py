"""JoinGroup of classic groups, rule by rule."""

import pytest

from odradek.protocol.errors import ErrorCode

from .classic_running import RANGE, Running

BOTH = {"range": b"1", "roundrobin": b"2"}


def test_a_dynamic_member_is_given_an_id_first() -> None:
    run = Running()
    refused = run.join("app")
    assert refused.now.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.now.member_id == "app-1"
    assert (refused.now.generation_id, refused.now.leader) == (-1, "")
    joined = run.join("app", "app-1").now
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, "app-1")
    assert run.state == "CompletingRebalance"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_v4_a_dynamic_member_is_in_at_once(version: int) -> None:
    joined = Running().join("app", version=version).now
    assert (joined.error_code, joined.member_id, joined.leader) == (0, "app-1", "app-1")


def test_a_static_member_is_in_at_once_and_named_after_its_instance() -> None:
    joined = Running().join("app", instance_id="i").now
    assert (joined.error_code, joined.member_id) == (0, "i-1")
    assert [(m.member_id, m.group_instance_id) for m in joined.members] == [("i-1", "i")]


def test_only_the_leader_hears_of_the_members() -> None:
    run = Running(initial_rebalance_delay_ms=3_000)
    a, a_join = run.member("a", protocols={"range": b"A"})
    b, b_join = run.member("b", protocols={"range": b"B"})
    run.tick(6_000)
    assert [(m.member_id, m.metadata) for m in a_join.now.members] == [(a, b"A"), (b, b"B")]
    assert (b_join.now.members, b_join.now.leader) == ([], a)
    assert a_join.now.protocol_type == b_join.now.protocol_type == "consumer"
    assert not a_join.now.skip_assignment


def test_before_v1_the_session_timeout_is_the_rebalance_timeout() -> None:
    run = Running()
    run.join("app", version=0, session_ms=7_000)
    assert run.group.members[0].rebalance_timeout_ms == 7_000


@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_without_a_protocol_its_name_is_as_the_version_has_it(
    version: int, name: str | None
) -> None:
    refused = Running().join("app", session_ms=1, version=version)
    assert refused.code is ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused.now.protocol_name == name


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_session_timeouts_have_bounds(session_ms: int) -> None:
    refused = Running().join("app", "me", session_ms=session_ms)
    assert refused.code is ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused.now.member_id == "me"


def test_a_changed_bound_takes_effect_at_once() -> None:
    run = Running()
    run.settings = type(run.settings)(session_timeout_ms_min=20_000)
    assert run.join("app").code is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", {}), ("", {})])
def test_the_first_member_must_name_a_type_and_a_protocol(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    refused = Running().join("app", protocol_type=protocol_type, protocols=protocols)
    assert refused.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", RANGE), ("consumer", {"sticky": b""}), ("consumer", {}), ("", RANGE)],
)
def test_others_must_share_type_and_a_protocol(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    run = Running()
    run.stable("a")
    refused = run.join("b", protocol_type=protocol_type, protocols=protocols)
    assert refused.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused.now.member_id == ""
    assert run.state == "Stable"


def test_a_member_must_not_fall_back_to_protocols_that_others_cannot_do() -> None:
    run = Running()
    a, b = run.stable("a", "b", protocols=BOTH)
    run.join("a", a, protocols=RANGE)
    refused = run.join("b", b, protocols={"roundrobin": b"2"})
    assert (refused.code, refused.now.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b)


def test_a_protocol_named_twice_counts_once() -> None:
    run = Running()
    _, join = run.member("a", protocols=[("range", b"1"), ("range", b"2")])
    assert join.now.members[0].metadata == b"1"


def test_members_vote_among_what_all_can_do() -> None:
    run = Running(initial_rebalance_delay_ms=100)
    run.member("a", protocols={"x": b"", "y": b"", "z": b""})
    run.member("b", protocols={"z": b"", "y": b""})
    _, join = run.member("c", protocols={"w": b"", "y": b"", "z": b""})
    run.tick(100 + 100)
    assert join.now.protocol_name == "y"  # a and c; only b prefers z


def test_an_unknown_member_id() -> None:
    run = Running()
    run.stable("a")
    refused = run.join("b", "who")
    assert (refused.code, refused.now.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "who")
    assert Running().join("b", "who").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_with_an_instance_id_makes_no_sense() -> None:
    run = Running()
    given = run.join("a").now.member_id
    refused = run.join("a", given, instance_id="i")
    assert (refused.code, refused.now.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")


def test_a_full_group() -> None:
    run = Running(group_size_max=1)
    (a,) = run.stable("a")
    refused = run.join("b")
    assert (refused.code, refused.now.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert run.group.journal.entries()[-1].reason == "the group is full"
    assert not run.join("a", a).is_parked  # who is in may come again


def test_after_the_limit_was_lowered_the_last_to_rejoin_are_turned_away() -> None:
    run = Running()
    a, b, c = run.stable("a", "b", "c")
    run.settings = type(run.settings)(group_size_max=2)
    joins = [run.join("a", a), run.join("b", b)]
    assert joins[0].is_parked
    assert run.join("c", c).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [join.now.generation_id for join in joins] == [4, 4]
    assert [member.member_id for member in run.group.members] == [a, b]


def test_ids_are_not_given_out_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.broker.core.groups.classic_join.PENDING_MAX", 2)
    run = Running()
    codes = [run.join("a").code for _ in range(3)]
    assert codes[1:] == [ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED]


# Who is in joins again


def test_a_follower_with_the_same_metadata_hears_of_the_generation_again() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    again = run.join("b", b).now
    assert (again.generation_id, again.leader, again.members) == (2, a, [])
    assert again.protocol_name == "range"
    assert run.state == "Stable"


def test_a_follower_with_new_metadata_makes_all_rebalance() -> None:
    run = Running()
    a, b = run.stable("a", "b")
    parked = run.join("b", b, protocols={"range": b"new"})
    assert run.state == "PreparingRebalance"
    assert run.heartbeat(a) is ErrorCode.REBALANCE_IN_PROGRESS
    leader = run.join("a", a).now
    assert [member.metadata for member in leader.members] == [b"R", b"new"]
    assert parked.now.generation_id == leader.generation_id == 3


def test_the_leader_makes_all_rebalance_whatever_it_says() -> None:
    run = Running()
    a, _ = run.stable("a", "b")
    assert run.join("a", a).is_parked
    assert run.state == "PreparingRebalance"


def test_while_completing_the_same_metadata_gives_the_answer_anew() -> None:
    run = Running(initial_rebalance_delay_ms=10)
    (a, _), (b, _) = run.member("a"), run.member("b")
    run.tick(20)
    assert len(run.join("a", a).now.members) == 2
    assert run.join("b", b).now.members == []
    parked = run.sync(b)
    run.join("b", b, protocols={"range": b"new"})
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert run.state == "PreparingRebalance"


def test_a_second_join_takes_the_place_of_the_parked_one() -> None:
    run = Running(initial_rebalance_delay_ms=10)
    a, first = run.member("a")
    second = run.join("a", a)
    assert (first.code, first.now.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, a)
    run.tick(10)
    assert second.now.generation_id == 1


def test_a_group_that_is_gone() -> None:
    run = Running()
    a, _ = run.member("a")
    assert run.group.answer_all(ErrorCode.NOT_COORDINATOR) == []
    assert run.join("b").code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert run.sync(a).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert run.heartbeat(a) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert run.leave(a).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert run.group.wake_ms is None


def test_the_clients_reason_is_in_the_journal() -> None:
    run = Running()
    (a,) = run.stable("a")
    run.join("a", a, reason="topics changed")
    entries = [entry for entry in run.group.journal.entries() if "topics changed" in entry.reason]
    assert [(entry.event, entry.who) for entry in entries] == [
        ("joined", a),
        ("rebalance", ""),
    ]
