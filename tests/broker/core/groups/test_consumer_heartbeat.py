"""ConsumerGroupHeartbeat: what is refused, epochs, fencing, static members, leaving."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode as E

from .consumer_running import TIMEOUT_MS, Running, Topics, contents

JOIN: dict[str, Any] = {"rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": ["t4"]}


@pytest.mark.parametrize(
    ("member_id", "epoch", "owned", "said", "code"),
    [
        ("m", 0, {}, {**JOIN, "group_id": ""}, E.INVALID_REQUEST),
        ("", 0, {}, JOIN, E.INVALID_REQUEST),
        (" \t", 0, {}, JOIN, E.INVALID_REQUEST),
        ("m", 0, {}, {**JOIN, "instance_id": ""}, E.INVALID_REQUEST),
        ("m", 0, {}, {**JOIN, "rack_id": " "}, E.INVALID_REQUEST),
        ("m", 0, {}, {"subscribed_topic_names": ["t4"]}, E.INVALID_REQUEST),
        ("m", 0, {}, {"rebalance_timeout_ms": 1}, E.INVALID_REQUEST),
        ("m", 0, None, JOIN, E.INVALID_REQUEST),
        ("m", 0, {"t4": [0]}, JOIN, E.INVALID_REQUEST),
        ("m", -2, None, {}, E.INVALID_REQUEST),
        ("m", -3, None, {}, E.INVALID_REQUEST),
        ("m", 0, {}, {**JOIN, "server_assignor": "sticky"}, E.UNSUPPORTED_ASSIGNOR),
        ("m", 0, {}, {**JOIN, "subscribed_topic_regex": "("}, E.INVALID_REGULAR_EXPRESSION),
        ("m", 1, None, {}, E.UNKNOWN_MEMBER_ID),
        ("m", 1, None, {"instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
        ("m", -1, None, {}, E.UNKNOWN_MEMBER_ID),
        ("m", -2, None, {"instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_refused_heartbeat_changes_nothing(
    member_id: str, epoch: int, owned: Any, said: Any, code: E
) -> None:
    run = Running()
    answer = run.send(member_id, epoch, owned, **said)
    assert (run.code(answer), answer.member_id, answer.member_epoch) == (code, None, 0)
    assert answer.error_message
    assert run.group.is_unused and not run.log and run.group.wake_ms is None


def test_an_unsupported_assignor_is_told_which_are() -> None:
    answer = Running().join("m", server_assignor="sticky")
    assert "uniform, range" in (answer.error_message or "")


def test_before_v1_the_group_makes_the_member_id() -> None:
    answer = Running().join("", version=0)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "made", 2)


def test_the_first_member_gets_everything_in_epoch_2() -> None:
    run = Running(heartbeat_interval_ms=700)
    answer = run.join("a")
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (2, 700)
    assert run.told(answer) == {"t4": [0, 1, 2, 3]}
    assert run.group.state_name == "Stable"


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_tells_no_assignment() -> None:
    run = Running()
    run.join("a")
    assert run.kinds(lambda: run.send("a", 2)) == []
    assert run.told(run.send("a", 2)) is None


def test_a_full_request_is_told_everything_again() -> None:
    run = Running()
    run.join("a")
    assert run.told(run.send("a", 2, {"t4": [0]})) is None
    assert run.told(run.send("a", 2, {"t4": [0]}, **JOIN)) == {"t4": [0, 1, 2, 3]}
    assert run.told(run.join("a")) == {"t4": [0, 1, 2, 3]}


def test_joining_writes_kafkas_records_in_kafkas_order() -> None:
    run = Running()
    assert run.kinds(lambda: run.join("a")) == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    assert run.kinds(lambda: run.send("a", -1)) == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "Metadata",
    ]
    assert run.group.state_name == "Empty"


def test_leaving_is_answered_with_the_epoch_of_leaving() -> None:
    run = Running()
    run.join("a")
    answer = run.send("a", -1)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", -1, 0)
    assert run.group.state.group_epoch == 3
    assert run.code(run.send("a", 2)) == E.UNKNOWN_MEMBER_ID


def test_an_epoch_that_is_not_the_members_is_fenced() -> None:
    run = Running()
    run.join("a")
    assert run.code(run.send("a", 3)) == E.FENCED_MEMBER_EPOCH
    assert run.code(run.send("a", 1)) == E.FENCED_MEMBER_EPOCH


def test_the_epoch_before_passes_if_the_answer_may_have_been_lost() -> None:
    run = Running()
    run.join("a")
    run.send("a", 2, subscribed_topic_names=["t4", "u2"])  # it is in epoch 3 now
    assert run.code(run.send("a", 2)) == E.FENCED_MEMBER_EPOCH  # does not say what it owns
    assert run.code(run.send("a", 2, {"gone": [0]})) == E.FENCED_MEMBER_EPOCH
    assert run.code(run.send("a", 2, {"t4": [0], "gone": [0]})) == E.FENCED_MEMBER_EPOCH
    assert run.send("a", 2, {"t4": [0, 1]}).member_epoch == 3
    assert run.send("a", 2, {}).member_epoch == 3


def test_a_full_group_takes_nobody_else() -> None:
    run = Running(group_size_max=1)
    run.join("a")
    assert run.code(run.join("b")) == E.GROUP_MAX_SIZE_REACHED
    assert run.code(run.join("a")) == E.NONE


@pytest.mark.parametrize(
    ("log", "client"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_refused_records_change_nothing(log: E, client: E) -> None:
    run = Running()
    run.join("a")
    before, entries = contents(run.group.state.fork()), run.group.journal.entries()
    run.refuse = log
    assert run.code(run.join("b")) == client
    assert run.code(run.send("a", -1)) == client
    assert contents(run.group.state) == before
    assert run.group.journal.entries() == entries


# Static members.


def test_an_instance_id_in_use_is_not_given_away() -> None:
    run = Running()
    run.join("a", instance_id="i")
    assert run.code(run.join("b", instance_id="i")) == E.UNRELEASED_INSTANCE_ID
    assert run.code(run.join("a", instance_id="i")) == E.UNRELEASED_INSTANCE_ID
    assert run.code(run.send("b", 2, instance_id="i")) == E.FENCED_INSTANCE_ID
    assert run.code(run.send("b", -1, instance_id="i")) == E.FENCED_INSTANCE_ID
    assert run.code(run.send("a", 2)) == E.NONE  # it need not name it


def test_a_static_member_that_returns_takes_over_without_a_rebalance() -> None:
    run = Running()
    run.join("a", instance_id="i")
    away = run.send("a", -2, instance_id="i")
    assert (away.member_id, away.member_epoch) == ("a", -2)
    assert run.code(run.send("a", 2, instance_id="i")) == E.FENCED_MEMBER_EPOCH
    kinds = run.kinds(lambda: run.join("b", instance_id="i"))
    assert kinds == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "MemberMetadata",
        "TargetAssignmentMember",
        "CurrentMemberAssignment",
        "CurrentMemberAssignment",
    ]
    state = run.group.state
    assert (state.group_epoch, list(state.members), state.static_members) == (2, ["b"], {"i": "b"})
    assert run.code(run.send("a", 2, instance_id="i")) == E.FENCED_INSTANCE_ID
    assert run.told(run.send("b", 2, {"t4": []}, **JOIN)) == {"t4": [0, 1, 2, 3]}


def test_a_static_member_that_does_not_return_is_fenced_in_the_end() -> None:
    run = Running()
    run.join("a", instance_id="i")
    run.send("a", -2, instance_id="i")
    run.pass_time(run.settings.session_timeout_ms)
    assert run.group.is_empty


# Time.


def test_a_member_that_sends_no_heartbeat_is_fenced() -> None:
    run = Running(session_timeout_ms=1_000)
    run.join("a")
    run.join("b")
    run.pass_time(999)
    run.send("b", 3)
    run.pass_time(1)
    assert list(run.group.state.members) == ["b"]
    assert run.group.state.group_epoch == 4
    last = [entry for entry in run.group.journal.entries() if entry.event == "fenced"][-1]
    assert (last.who, "session timeout" in last.reason) == ("a", True)


def test_a_member_that_does_not_give_up_its_partitions_is_fenced() -> None:
    run = Running()
    run.join("a", timeout_ms=500)
    run.join("b")
    assert run.told(run.send("a", 2)) == {"t4": [0, 1]}
    run.pass_time(499)
    assert run.code(run.send("a", 2)) == E.NONE  # heartbeats do not help
    run.pass_time(1)
    assert list(run.group.state.members) == ["b"]
    assert run.told(run.send("b", 3)) == {"t4": [0, 1, 2, 3]}


def test_a_static_member_that_does_not_give_up_its_partitions_is_fenced_too() -> None:
    run = Running()
    run.join("a", timeout_ms=500, instance_id="i")
    run.join("b")
    run.send("a", 2)
    run.pass_time(500)
    assert list(run.group.state.members) == ["b"]


def test_a_static_member_that_is_away_has_given_up_its_partitions() -> None:
    run = Running()
    run.join("a", timeout_ms=500, instance_id="i")
    run.join("b")
    run.send("a", 2)
    run.send("a", -2, instance_id="i")
    run.pass_time(500)
    assert list(run.group.state.members) == ["a", "b"]


def test_a_member_that_gave_up_in_time_is_left_alone() -> None:
    run = Running()
    run.join("a", timeout_ms=500)
    run.join("b")
    run.send("a", 2)
    run.send("a", 2, {"t4": [0, 1]})
    run.pass_time(600)
    assert len(run.group.state.members) == 2


def test_fencing_is_tried_again_when_it_cannot_be_written() -> None:
    run = Running(session_timeout_ms=1_000)
    run.join("a")
    run.refuse = E.NOT_ENOUGH_REPLICAS
    run.pass_time(1_000)
    assert not run.group.is_empty
    run.refuse = E.NONE
    run.pass_time(499)
    assert not run.group.is_empty
    run.pass_time(1)
    assert run.group.is_empty


# Epochs and assignors.


def test_topics_that_change_are_noticed_with_the_next_heartbeat() -> None:
    run = Running(Topics(t=1))
    run.join("a", "t", "new")
    run.topics.extend("t", 3)
    assert run.told(run.send("a", 2)) == {"t": [0, 1, 2]}
    run.topics.create("new", 1)
    assert run.told(run.send("a", 3)) == {"t": [0, 1, 2], "new": [0]}
    run.topics.create("other", 1)
    assert run.kinds(lambda: run.send("a", 4)) == []
    run.topics.delete("t")
    assert run.told(run.send("a", 4)) == {"new": [0]}


def test_the_assignor_with_most_votes_is_used() -> None:
    run = Running()
    run.join("a", server_assignor="range")
    assert run.group.describe().assignor_name == "range"
    run.join("b", server_assignor="uniform")
    assert run.group.describe().assignor_name == "uniform"  # Kafka's way out of a tie
    run.join("c", server_assignor="range")
    assert run.group.describe().assignor_name == "range"


def test_with_an_interval_assignments_wait_for_each_other() -> None:
    run = Running(assignment_interval_ms=1_000)
    run.join("a")
    assert run.join("b").member_epoch == 2
    assert run.group.state_name == "Assigning"
    run.pass_time(1_000)
    run.send("b", 2)
    assert (run.group.state_name, run.group.state.assignment_epoch) == ("Reconciling", 3)


def test_topics_that_a_member_leaves_are_taken_back_before_the_next_assignment() -> None:
    run = Running(assignment_interval_ms=1_000)
    run.join("a", "t4", "u2")
    answer = run.send("a", 2, subscribed_topic_names=["u2"])
    assert run.group.state_name == "Assigning"
    assert (answer.member_epoch, run.told(answer)) == (2, {"u2": [0, 1]})
