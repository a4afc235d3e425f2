"""SubscribedTopicRegex: looked up after the heartbeat, rarely, and when topics are new."""

import pytest

from odradek.broker.core.groups.consumer_patterns import RESOLVE_INTERVAL_MS_MIN
from odradek.broker.core.groups.consumer_records import regex_record
from odradek.broker.core.groups.consumer_state import ResolvedRegex
from odradek.protocol.errors import ErrorCode as E

from .consumer_running import GROUP, WALL_MS, Running, Topics


def join(run: Running, member_id: str, pattern: str) -> None:
    run.join(member_id, subscribed_topic_regex=pattern)


def turn(run: Running, member_id: str, pattern: str) -> None:
    epoch = run.group.state.members[member_id].member_epoch
    assert run.send(member_id, epoch, subscribed_topic_regex=pattern).error_code == E.NONE


def test_the_first_heartbeat_is_answered_before_the_topics_are_looked_up() -> None:
    run = Running()
    first = run.join("a", subscribed_topic_regex="t.*")
    assert (first.member_epoch, run.told(first)) == (1, {})
    assert run.group.state_name == "Assigning"
    second = run.send("a", 1)
    assert (second.member_epoch, run.told(second)) == (2, {"t4": [0, 1, 2, 3]})
    assert run.group.is_subscribed_to("t4") and not run.group.is_subscribed_to("u2")


def test_a_pattern_does_not_match_what_the_member_may_not_describe() -> None:
    run = Running(Topics(t4=4, t1=1))
    run.hidden = {"t1"}
    run.join("a", subscribed_topic_regex="t.*")
    assert run.told(run.send("a", 1)) == {"t4": [0, 1, 2, 3]}
    assert not run.group.is_subscribed_to("t1")


def test_a_right_that_is_given_counts_from_the_next_lookup_on() -> None:
    run = Running(Topics(t4=4, t1=1), regex_refresh_interval_ms=20_000)
    run.hidden = {"t1"}
    join(run, "a", "t.*")
    run.hidden = set()
    run.pass_time(20_000)
    assert run.told(run.send("a", 1)) == {"t4": [0, 1, 2, 3]}
    run.pass_time(1)
    run.send("a", 2)
    assert run.told(run.send("a", 2)) == {"t1": [0], "t4": [0, 1, 2, 3]}


def test_a_known_pattern_is_assigned_at_once() -> None:
    run = Running()
    join(run, "a", "t.*")
    second = run.join("b", subscribed_topic_regex="t.*")
    assert second.member_epoch == 3 and run.group.state.target_of("b")


def test_names_and_pattern_are_both_consumed() -> None:
    run = Running()
    run.join("a", "u2", subscribed_topic_regex="t.*")
    assert run.told(run.send("a", 2)) == {"t4": [0, 1, 2, 3], "u2": [0, 1]}


def test_another_pattern_waits_until_the_group_has_rested() -> None:
    run = Running()
    join(run, "a", "t.*")
    join(run, "b", "u.*")
    assert set(run.group.state.regexes) == {"t.*"}
    run.pass_time(RESOLVE_INTERVAL_MS_MIN)
    run.send("b", 2)
    assert set(run.group.state.regexes) == {"t.*"}
    run.pass_time(1)
    run.send("b", 2)
    assert run.group.state.regexes["u.*"].topics == {"u2"}


def test_a_wall_clock_set_back_does_not_stop_it() -> None:
    run = Running()
    join(run, "a", "t.*")
    run.wall_ms -= 3_600_000
    join(run, "b", "u.*")
    assert set(run.group.state.regexes) == {"t.*", "u.*"}


def test_new_topics_are_found_but_other_changes_are_not_looked_at() -> None:
    run = Running()
    join(run, "a", "t.*")
    run.send("a", 1)
    run.pass_time(RESOLVE_INTERVAL_MS_MIN + 1)
    run.topics.extend("u2", 5)
    assert run.kinds(lambda: run.send("a", 2)) == []
    run.topics.create("t9", 1)
    assert run.kinds(lambda: run.send("a", 2)) == ["RegularExpression", "Metadata"]
    assert run.told(run.send("a", 2)) == {"t4": [0, 1, 2, 3], "t9": [0]}


def test_patterns_are_refreshed_from_time_to_time() -> None:
    run = Running(regex_refresh_interval_ms=20_000)
    join(run, "a", "t.*")
    run.send("a", 1)
    run.pass_time(20_000)
    assert run.kinds(lambda: run.send("a", 2)) == []
    run.pass_time(1)
    assert run.kinds(lambda: run.send("a", 2)) == ["RegularExpression"]


def test_a_pattern_goes_with_its_last_member() -> None:
    run = Running()
    join(run, "a", "t.*")
    join(run, "b", "t.*")
    assert "-RegularExpression" not in run.kinds(lambda: run.send("a", -1))
    assert "-RegularExpression" in run.kinds(lambda: run.send("b", -1))
    assert not run.group.state.regexes


def test_a_pattern_stays_when_one_of_its_members_turns_to_another() -> None:
    run = Running()
    assert "-RegularExpression" not in run.kinds(lambda: join(run, "a", "t.*"))
    join(run, "b", "t.*")
    assert "-RegularExpression" not in run.kinds(lambda: turn(run, "a", "u.*"))
    assert "t.*" in run.group.state.regexes
    assert "-RegularExpression" in run.kinds(lambda: turn(run, "b", "u.*"))
    assert "t.*" not in run.group.state.regexes


def test_a_pattern_can_be_taken_back() -> None:
    run = Running()
    join(run, "a", "t.*")
    run.send("a", 1)
    answer = run.send("a", 2, subscribed_topic_regex="")
    assert run.told(answer) == {} and not run.group.state.regexes
    assert run.send("a", 2, {}).member_epoch == 3


def test_a_bad_pattern_of_a_member_changes_nothing() -> None:
    run = Running()
    join(run, "a", "t.*")
    assert run.code(run.send("a", 1, subscribed_topic_regex="(")) == E.INVALID_REGULAR_EXPRESSION
    assert run.group.state.members["a"].regex == "t.*"


def test_a_lookup_that_cannot_be_written_is_tried_again() -> None:
    run = Running()
    join(run, "a", "t.*")
    run.send("a", 1)
    run.pass_time(RESOLVE_INTERVAL_MS_MIN + 1)
    run.topics.create("t9", 1)
    run.refuse = E.NOT_ENOUGH_REPLICAS
    run.send("a", 2)
    run.refuse = E.NONE
    run.send("a", 2)
    assert run.group.state.regexes["t.*"].topics == {"t4", "t9"}


def test_a_stored_pattern_that_does_not_compile_here_means_nothing() -> None:
    run = Running()
    join(run, "a", "t.*")
    old = ResolvedRegex(frozenset({"t4"}), 1, WALL_MS - 1_000_000_000)
    run.group.apply(regex_record(GROUP, "t.*", old))
    member = run.group.state.members["a"]
    run.group.state.patterns["("] = 1
    run.send("a", member.member_epoch)
    assert run.group.state.regexes["("].topics == frozenset()


@pytest.mark.slow
def test_others_get_their_turn_while_many_topics_are_looked_through() -> None:
    names = [f"t{number}-{'b' * 230}" for number in range(150)]
    run = Running(Topics(**dict.fromkeys(names, 1)))
    join(run, "a", "t.*(x?){900}b*")  # a millisecond for each name
    heartbeats = 0
    while not run.group.state.regexes:
        run.topics.create(f"t{heartbeats}", 1)  # too late for a look-up on its way
        assert run.send("a", 1).error_code == E.NONE
        heartbeats += 1
    assert 1 < heartbeats < 10
    (found,) = run.group.state.regexes.values()
    assert found.topics == set(names)
    run.pass_time(RESOLVE_INTERVAL_MS_MIN + 1)
    for _ in range(10):
        run.send("a", run.group.state.members["a"].member_epoch)
    (found,) = run.group.state.regexes.values()
    assert found.topics == set(run.topics.names())
