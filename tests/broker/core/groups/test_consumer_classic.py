"""Members with the classic protocol inside a consumer group: Kafka's codes, and no shared owner."""

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.core.groups.consumer_state import Timer
from odradek.broker.core.groups.embedded import read_assignment, read_subscription, write_assignment
from odradek.broker.core.groups.group import OffsetOwner
from odradek.broker.core.groups.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.messages.k13_leave_group import MemberIdentity

from .migration_world import REBALANCE_MS, SESSION_MS, Topics, World, assigned, subscription

ALL = {"t0": [0, 1, 2, 3]}


def with_new_member() -> World:
    """A consumer group with the member "new" in epoch 2, who owns all of t0."""
    world = World()
    assert world.owned_by(world.heartbeat()) == ALL
    return world


def settle(world: World, owned_new: dict[str, list[int]]) -> dict[str, list[int]]:
    """The new member follows its target; what it owns then."""
    for _ in range(3):
        epoch = world.consumer.state.members["new"].member_epoch
        answer = world.heartbeat(epoch=epoch, owned=owned_new)
        if answer.assignment is not None:
            owned_new = world.owned_by(answer)
    return owned_new


# JoinGroup


def test_a_classic_member_joins_and_gets_what_the_new_one_gives_up() -> None:
    world = with_new_member()
    joined = world.join(metadata=subscription("t0", owned={}, version=3, rack="r1"), version=9)
    assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
    since = len(world.log)
    metadata = subscription("t0", owned={}, version=3, rack="r1")
    joined = world.join(joined.member_id, metadata=metadata, version=9)
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, 3, "")
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert (joined.members, joined.skip_assignment) == ([], False)
    assert world.names(since) == [
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]
    classic = joined.member_id
    member = world.consumer.state.members[classic]
    assert (member.rack_id, member.client_id) == ("r1", "classic")
    assert assigned(world.sync(classic, 3).assignment) == {}
    assert world.classic_heartbeat(classic, 3) == ErrorCode.NONE, "it waits for the other one"

    kept = settle(world, ALL)
    assert len(kept["t0"]) == 2
    assert world.classic_heartbeat(classic, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = world.join(classic, metadata=subscription("t0", owned={}), version=9)
    given_now = assigned(world.sync(classic, joined.generation_id).assignment)
    assert sorted(given_now["t0"] + kept["t0"]) == ALL["t0"]
    assert world.classic_heartbeat(classic, 3) == ErrorCode.NONE
    assert world.consumer.state_name == "Stable"


def test_a_classic_member_gives_up_by_joining_without_it() -> None:
    world = World()
    world.heartbeat(topics=[])
    joined = world.join(version=3)
    only, epoch = joined.member_id, joined.generation_id
    assert assigned(world.sync(only, epoch).assignment) == ALL
    world.heartbeat("another")
    assert world.classic_heartbeat(only, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    told = world.join(only, metadata=subscription("t0", owned=ALL))
    assert told.generation_id == epoch, "it stays in its epoch until it has given up"
    kept = assigned(world.sync(only, epoch).assignment)
    assert len(kept["t0"]) == 2
    assert world.classic_heartbeat(only, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    told = world.join(only, metadata=subscription("t0", owned=kept))
    assert told.generation_id == epoch + 1
    assert assigned(world.sync(only, epoch + 1).assignment) == kept
    assert world.classic_heartbeat(only, epoch + 1) == ErrorCode.NONE


def test_before_version_4_a_new_member_is_in_at_once() -> None:
    world = with_new_member()
    joined = world.join(version=3)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 3)
    assert joined.member_id in world.consumer.state.members


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("roundrobin", "sticky")}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "m", "metadata": b""}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"member_id": "m", "metadata": b"\0\1\0\0\0\1"}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"member_id": "m", "instance_id": "nobody's"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "m", "instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_join_that_is_refused_changes_nothing(change: dict[str, Any], code: ErrorCode) -> None:
    world = with_new_member()
    world.join("first")
    world.join(instance_id="i", version=5)
    since, members = len(world.log), dict(world.consumer.state.members)
    for version, protocol_name in ((5, ""), (9, None)):
        answer = world.join(**{"version": version, **change})
        assert (answer.error_code, answer.generation_id) == (code, -1)
        assert answer.protocol_name == protocol_name
    assert world.log[since:] == []
    assert world.consumer.state.members == members


def test_a_protocol_in_common_is_enough() -> None:
    world = with_new_member()
    assert world.join("first", protocols=("range", "sticky")).protocol_name == "range"
    assert world.join("second", protocols=("roundrobin", "sticky")).protocol_name == "roundrobin"
    refused = world.join("third", protocols=("range", "roundrobin"))
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync("second", 4, protocol_name="roundrobin").error_code == ErrorCode.NONE


def test_no_classic_member_joins_if_the_migration_is_disabled() -> None:
    world = with_new_member()
    for policy, code in (
        ("disabled", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("upgrade", ErrorCode.NONE),
    ):
        world.set_consumer(partial(ConsumerSettings._replace, migration_policy=policy))
        assert world.join("m").error_code == code


def test_a_full_group_takes_nobody_new() -> None:
    world = with_new_member()
    world.join("first")
    world.set_consumer(lambda old: old._replace(group_size_max=2))
    assert world.join("first").error_code == ErrorCode.NONE
    for version in (3, 9):
        assert world.join(version=version).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_join_that_the_log_refuses_changes_nothing() -> None:
    world = with_new_member()
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.join("m").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "m" not in world.consumer.state.members


def test_a_static_member_that_comes_back_gets_what_it_had() -> None:
    world = with_new_member()
    first = world.join(instance_id="i", version=5)
    settle(world, ALL)
    metadata = subscription("t0", owned={})
    first = world.join(first.member_id, instance_id="i", metadata=metadata, version=5)
    had = assigned(world.sync(first.member_id, 3, instance_id="i").assignment)
    assert len(had["t0"]) == 2
    again = world.join(instance_id="i", metadata=metadata, version=5)
    assert again.member_id != first.member_id
    assert again.generation_id == 3
    assert assigned(world.sync(again.member_id, 3, instance_id="i").assignment) == had
    fenced = world.sync(first.member_id, 3, instance_id="i")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.classic_heartbeat(first.member_id, 3, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.classic_heartbeat(first.member_id, 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(world.consumer.state.members) == 2


# SyncGroup and Heartbeat


def test_sync_and_heartbeat_refuse_as_kafka_does() -> None:
    world = with_new_member()
    world.join("m")
    cases = [
        (("stranger", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (("new", 2), ErrorCode.UNKNOWN_MEMBER_ID),  # it speaks the new protocol
        (("m", 2), ErrorCode.ILLEGAL_GENERATION),
        (("m", 4), ErrorCode.ILLEGAL_GENERATION),
    ]
    for (member_id, generation_id), code in cases:
        assert world.sync(member_id, generation_id).error_code == code
        assert world.classic_heartbeat(member_id, generation_id) == code
    nobody = world.sync("m", 3, instance_id="nobody's")
    assert nobody.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for inconsistent in (
        world.sync("m", 3, protocol_type="connect"),
        world.sync("m", 3, protocol_name="sticky"),
    ):
        assert inconsistent.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    unnamed = world.sync("m", 3, protocol_type=None, protocol_name=None)
    assert unnamed.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    older = world.sync("m", 3, protocol_type=None, protocol_name=None, version=4)
    assert (older.error_code, older.protocol_type) == (ErrorCode.NONE, None)


def test_a_member_that_is_behind_is_sent_back_to_join() -> None:
    world = with_new_member()
    world.join("m")
    world.heartbeat("another")
    assert world.sync("m", 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.consumer.deadlines.get((Timer.JOIN, "m")) == world.now_ms + REBALANCE_MS


# Time


def test_a_member_that_joined_must_sync_within_its_rebalance_timeout() -> None:
    world = with_new_member()
    world.join("m")
    for _ in range(REBALANCE_MS // 5_000):
        world.classic_heartbeat("m", 3)
        world.heartbeat(epoch=world.consumer.state.members["new"].member_epoch, topics=None)
        world.pass_time(5_000)
    assert "m" not in world.consumer.state.members


def test_a_member_that_synced_lives_as_long_as_it_shows_itself() -> None:
    world = with_new_member()
    world.join("m")
    world.sync("m", 3)
    settle(world, ALL)
    world.join("m", metadata=subscription("t0", owned={}))
    world.sync("m", 3)
    for _ in range(REBALANCE_MS // 5_000 + 2):
        assert world.classic_heartbeat("m", 3) == ErrorCode.NONE
        world.heartbeat(epoch=3, topics=None)
        world.pass_time(5_000)
    assert len(world.consumer.state.members) == 2
    world.pass_time(SESSION_MS)
    assert "m" not in world.consumer.state.members


def test_a_member_that_shall_join_again_has_its_rebalance_timeout_for_it_once() -> None:
    world = with_new_member()
    world.join("m")
    world.sync("m", 3)
    world.heartbeat("another", topics=["t0", "t1"])
    left_ms = REBALANCE_MS
    while left_ms:
        assert world.classic_heartbeat("m", 3) == ErrorCode.REBALANCE_IN_PROGRESS
        for member_id in ("new", "another"):
            epoch = world.consumer.state.members[member_id].member_epoch
            world.heartbeat(member_id, epoch, topics=None)
        world.pass_time(5_000)
        left_ms -= 5_000
    assert "m" not in world.consumer.state.members


# LeaveGroup and offsets


def test_members_of_both_kinds_can_be_made_to_leave() -> None:
    world = with_new_member()
    world.join("m")
    static = world.join(instance_id="i", version=5).member_id
    world.heartbeat("another")
    answer = world.leave(
        MemberIdentity(member_id="stranger"),
        MemberIdentity(member_id="m", reason="bye"),
        MemberIdentity(member_id="new"),
        MemberIdentity(member_id="wrong", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="j"),
        MemberIdentity(member_id="", group_instance_id="i"),
    )
    assert (answer.error_code, [member.error_code for member in answer.members]) == (
        ErrorCode.NONE,
        [
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.NONE,
        ],
    )
    assert static not in world.consumer.state.members
    assert list(world.consumer.state.members) == ["another"]


@pytest.mark.parametrize(
    ("member_id", "code"), [("m", ErrorCode.NONE), ("stranger", ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_before_version_3_one_member_leaves(member_id: str, code: ErrorCode) -> None:
    world = with_new_member()
    world.join("m")
    assert world.leave(MemberIdentity(member_id=member_id), version=2).error_code == code
    assert ("m" in world.consumer.state.members) == (code is not ErrorCode.NONE)


def test_a_leave_that_the_log_refuses_changes_nothing() -> None:
    world = with_new_member()
    world.join("m")
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = world.leave(MemberIdentity(member_id="m"))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "m" in world.consumer.state.members


def test_a_classic_member_commits_in_the_generation_that_is_its_epoch() -> None:
    world = with_new_member()
    world.join("m")
    group = world.consumer
    group.check_offset_commit(OffsetOwner("m", None, 3, 8), [("t", 0)], world.now_ms)
    for generation_id in (2, 4):
        with pytest.raises(Refused) as refused:
            group.check_offset_commit(
                OffsetOwner("m", None, generation_id, 8), [("t", 0)], world.now_ms
            )
        assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


# The embedded protocol


def test_newer_versions_are_read_as_ours_and_answered_in_ours() -> None:
    data = subscription("t0", owned={"t0": [1]}, version=3, rack="r")
    newer = b"\0\x09" + data[2:]
    assert read_subscription(newer) == read_subscription(data)
    topics = Topics()
    partitions = {topics.images["t0"].topic_id: frozenset({2, 0}), b"?" * 16: frozenset({1})}
    assert write_assignment(partitions, 9, topics)[:2] == b"\0\3"
    assert assigned(write_assignment(partitions, 0, topics)) == {"t0": [0, 2]}
    with pytest.raises(MalformedMessage):
        write_assignment(partitions, -1, topics)


@pytest.mark.slow
@given(st.binary(max_size=60))
@settings(max_examples=150)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_subscription, read_assignment):
        with suppress(MalformedMessage):
            read(data)
