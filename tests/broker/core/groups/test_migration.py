"""Classic groups become consumer groups and the other way round, record by record as Kafka does."""

from dataclasses import replace

import pytest

from odradek.broker.core.groups.classic_state import ClassicState
from odradek.broker.core.groups.consumer_member import MemberState, member_record, partitions_of
from odradek.broker.core.groups.consumer_state import GroupState
from odradek.broker.core.journal import JournalEntry
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import classic as classic_records
from odradek.protocol.group_records.consumer import ClassicMemberMetadata, ClassicProtocol
from odradek.protocol.messages.k13_leave_group import MemberIdentity

from .migration_world import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    World,
    assigned,
    assignment,
    subscription,
)

CLASSIC = "GroupMetadata"
MEMBER, EPOCH = "ConsumerGroupMemberMetadata", "ConsumerGroupMetadata"
TARGET, TARGET_EPOCH = (
    "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupTargetAssignmentMetadata",
)
CURRENT, PARTITIONS = "ConsumerGroupCurrentMemberAssignment", "ConsumerGroupPartitionMetadata"


def state_of_log(world: World) -> GroupState:
    """The consumer group as it would be loaded."""
    state = GroupState(GROUP)
    for record in world.log:
        if not isinstance(record.key, classic_records.GroupMetadataKey):
            state.apply(record)
    return state


def events(entries: list[JournalEntry]) -> set[str]:
    return {entry.event for entry in entries}


# Empty groups


@pytest.mark.parametrize("policy", ["disabled", "bidirectional"])
def test_an_empty_classic_group_becomes_a_consumer_group_always(policy: str) -> None:
    world = World(policy=policy)
    world.groups[GROUP] = world.migration.makers.classic(GROUP, 0)
    answer = world.heartbeat()
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)
    assert world.owned_by(answer) == {"t0": [0, 1, 2, 3]}
    assert world.group.type_name == "consumer"
    assert world.names() == [f"-{CLASSIC}", MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]


def test_an_empty_consumer_group_becomes_a_classic_group_with_the_next_join() -> None:
    world = World(policy="disabled")
    world.heartbeat()
    world.heartbeat(epoch=-1)
    since = len(world.log)
    stranger = world.join("somebody")
    assert (stranger.error_code, world.group.type_name) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "consumer",
    )
    first = world.join()
    assert (first.error_code, first.generation_id) == (ErrorCode.NONE, 1)
    assert first.leader == first.member_id
    assert world.names(since) == [f"-{TARGET_EPOCH}", f"-{PARTITIONS}", f"-{EPOCH}"]
    assert world.group.type_name == "classic"
    assert "downgraded" in events(world.group.journal.entries())


def test_an_empty_consumer_group_stays_if_the_log_refuses() -> None:
    world = World()
    world.heartbeat()
    world.heartbeat(epoch=-1)
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.group.type_name == "consumer"


# Online upgrade


def test_the_members_of_a_classic_group_stay_with_what_they_have() -> None:
    world = World()
    first, second = world.two_classic_members()
    since = len(world.log)
    answer = world.heartbeat()
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 3)
    assert world.owned_by(answer) == {}, "others have yet to give up"
    assert world.names(since) == [
        *(f"-{CLASSIC}", MEMBER, MEMBER, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT, CURRENT),
        *(MEMBER, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT),
    ]
    state = world.consumer.state
    assert (state.group_epoch, state.assignment_epoch, state.classic_count) == (3, 3, 2)
    for member_id, numbers in ((first, {0, 1}), (second, {2, 3})):
        member = state.members[member_id]
        assert (member.member_epoch, member.state) == (2, MemberState.STABLE)
        assert partitions_of(member.assigned) == {world.topics.images["t0"].topic_id: numbers}
        assert member.assigned[world.topics.images["t0"].topic_id] == dict.fromkeys(numbers, 2)
        assert member.classic is not None
        assert member.classic.session_timeout_ms == SESSION_MS
        assert [one.name for one in member.classic.supported_protocols] == ["range"]
    loaded = state_of_log(world)
    assert (loaded.members, loaded.target, loaded.owners) == (
        state.members,
        state.target,
        state.owners,
    )
    assert events(world.group.journal.entries()) >= {"joined", "upgraded"}


def test_upgraded_members_must_keep_showing_themselves() -> None:
    world = World()
    first, second = world.two_classic_members()
    world.heartbeat()
    world.pass_time(SESSION_MS - 1)
    assert world.classic_heartbeat(first, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_time(1)
    assert second not in world.consumer.state.members
    assert first in world.consumer.state.members


def test_whoever_waits_for_the_classic_generation_is_told_to_join_again() -> None:
    world = World()
    first, second = world.two_classic_members()
    waits = world.join_later(first, metadata=subscription("t0", "t1"))
    assert world.classic.state is ClassicState.PREPARING_REBALANCE
    world.heartbeat()
    assert world.joined(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(second, metadata=subscription("t0", owned={"t0": [2, 3]}))
    assert again.error_code == ErrorCode.NONE
    assert again.generation_id in (2, 3), "in the old one as long as it has to give up some"


def test_a_group_that_has_no_generation_yet_can_be_upgraded() -> None:
    world = World()
    world.settings = world.settings._replace(
        classic=world.settings.classic._replace(initial_rebalance_delay_ms=3_000)
    )
    waits = world.join_later()
    assert world.heartbeat().error_code == ErrorCode.NONE
    assert world.joined(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(world.consumer.state.members) == 2


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_no_upgrade_without_the_policy(policy: str) -> None:
    world = World(policy=policy)
    world.two_classic_members()
    refused_upgrade(world, "migration.policy")


def test_no_upgrade_of_groups_that_are_not_of_consumers() -> None:
    world = World()
    world.join(protocol_type="connect", metadata=b"anything")
    assert world.heartbeat(topics=None).error_code == ErrorCode.INVALID_REQUEST
    refused_upgrade(world, "no consumers")


def test_no_upgrade_of_groups_that_are_too_large() -> None:
    world = World()
    world.two_classic_members()
    world.set_consumer(lambda settings: settings._replace(group_size_max=1))
    refused_upgrade(world, "group.consumer.max.size")


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\0", b"\0\1", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\1\0\2", b"\0\0\x7f\xff\xff\xff"],
)
def test_no_upgrade_if_a_subscription_cannot_be_read(metadata: bytes) -> None:
    world = World()
    world.join(metadata=metadata)
    refused_upgrade(world, "cannot be read")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\1\0\0\0\1", "cannot be read"),
        (assignment({"t0": [0]}, user_data=b"of an assignor"), "user data"),
    ],
)
def test_no_upgrade_if_an_assignment_would_be_lost(data: bytes, why: str) -> None:
    world = World()
    only = world.join()
    world.synced(world.sync_later(only.member_id, 1, {only.member_id: data}))
    refused_upgrade(world, why)


def test_assigned_topics_that_are_gone_are_forgotten() -> None:
    world = World()
    only = world.join()
    data = assignment({"gone": [0], "t0": [0]}, user_data=b"")
    world.synced(world.sync_later(only.member_id, 1, {only.member_id: data}))
    world.heartbeat()
    member = world.consumer.state.members[only.member_id]
    assert member.assigned == {world.topics.images["t0"].topic_id: {0: 1}}


def refused_upgrade(world: World, why: str) -> None:
    since, group = len(world.log), world.group
    answer = world.heartbeat()
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert why in (answer.error_message or "")
    assert world.group is group
    assert world.log[since:] == []


def test_nothing_happens_if_the_log_refuses_the_upgrade() -> None:
    world = World()
    first, _ = world.two_classic_members()
    waits = world.join_later(first, metadata=subscription("t0", "t1"))
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.heartbeat().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.classic.state is ClassicState.PREPARING_REBALANCE
    assert waits not in world.answers


def test_nothing_happens_if_the_heartbeat_is_refused() -> None:
    world = World()
    world.two_classic_members()
    group = world.group
    assert world.heartbeat(topics=None).error_code == ErrorCode.INVALID_REQUEST
    assert world.group is group


# Online downgrade


def mixed(world: World) -> tuple[str, str]:
    """A classic and a new member, both where the target wants them, in epoch 2."""
    only = world.join().member_id
    world.synced(world.sync_later(only, 1, {only: assignment({"t0": [0, 1, 2, 3]})}))
    new = world.heartbeat()
    told = world.join(only, metadata=subscription("t0", owned={"t0": [0, 1, 2, 3]}))
    assert (new.member_epoch, told.generation_id) == (2, 1)
    kept = assigned(world.sync(only, 1).assignment)
    told = world.join(only, metadata=subscription("t0", owned=kept))
    assert told.generation_id == 2
    assert assigned(world.sync(only, 2).assignment) == kept == {"t0": [0, 1]}
    assert world.owned_by(world.heartbeat(epoch=2, owned={})) == {"t0": [2, 3]}
    return only, "new"


def test_the_last_new_member_leaves_a_classic_group_behind() -> None:
    world = World()
    only, _ = mixed(world)
    since = len(world.log)
    assert world.heartbeat(epoch=-1).member_epoch == -1
    assert world.names(since) == [
        *(f"-{CURRENT}", f"-{CURRENT}", f"-{TARGET}", f"-{TARGET}", f"-{TARGET_EPOCH}"),
        *(f"-{MEMBER}", f"-{MEMBER}", f"-{PARTITIONS}", f"-{EPOCH}", CLASSIC),
    ]
    value = world.log[-1].value
    assert isinstance(value, classic_records.GroupMetadataValue)
    assert (value.generation, value.protocol, value.leader) == (2, "range", only)
    assert [assigned(member.assignment) for member in value.members] == [{"t0": [0, 1]}]
    assert world.classic.state is ClassicState.PREPARING_REBALANCE
    assert state_of_log(world).members == {}
    answer = world.join(only)
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 3, only)
    assert events(world.group.journal.entries()) >= {"upgraded", "downgraded"}


def test_a_member_that_falls_silent_leaves_a_classic_group_behind() -> None:
    world = World()
    only, _ = mixed(world)
    for _ in range(9):
        world.pass_time(5_000)
        if world.group.type_name == "consumer":
            world.classic_heartbeat(only, 2)
    assert world.group.type_name == "classic"
    world.pass_time(SESSION_MS)
    assert world.classic.is_empty, "the sessions of those who stay begin again"


def test_no_downgrade_of_members_of_whom_one_names_a_protocol_twice() -> None:
    """Or what it alone can do would count as what both of them can."""
    world = World()
    only, _ = mixed(world)
    for name, protocols in ((only, ("range", "range")), ("second", ("roundrobin",))):
        supported = [ClassicProtocol(name=protocol) for protocol in protocols]
        classic = ClassicMemberMetadata(
            session_timeout_ms=SESSION_MS, supported_protocols=supported
        )
        member = replace(world.consumer.state.members[only], member_id=name, classic=classic)
        world.consumer.apply(member_record(GROUP, member))
    world.heartbeat(epoch=-1)
    assert set(world.consumer.state.members) == {only, "second"}


def test_no_downgrade_of_members_that_could_not_agree() -> None:
    """No broker lets them in, but whoever may write records can."""
    world = World()
    only, _ = mixed(world)
    unable = ClassicMemberMetadata(session_timeout_ms=SESSION_MS, supported_protocols=[])
    member = replace(world.consumer.state.members[only], classic=unable)
    world.consumer.apply(member_record(GROUP, member))
    world.heartbeat(epoch=-1)
    assert list(world.consumer.state.members) == [only]


def test_the_sessions_of_those_who_stay_begin_with_the_downgrade() -> None:
    world = World()
    world.now_ms = 1_000_000
    only, _ = mixed(world)
    world.heartbeat(epoch=-1)
    world.pass_time(SESSION_MS - 1)
    assert [member.member_id for member in world.classic.members] == [only]
    world.pass_time(1)
    assert world.classic.is_empty


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_no_downgrade_without_the_policy(policy: str) -> None:
    world = World()
    only, _ = mixed(world)
    world.set_consumer(lambda settings: settings._replace(migration_policy=policy))
    world.heartbeat(epoch=-1)
    assert list(world.consumer.state.members) == [only]


def test_no_downgrade_to_a_group_that_is_too_large_or_has_new_members_left() -> None:
    world = World()
    only, _ = mixed(world)
    world.heartbeat("another")
    world.heartbeat(epoch=-1)
    assert set(world.consumer.state.members) == {only, "another"}
    world.settings = world.settings._replace(
        classic=world.settings.classic._replace(group_size_max=0)
    )
    world.heartbeat("another", epoch=-1)
    assert set(world.consumer.state.members) == {only}


def test_a_group_that_everybody_leaves_stays_a_consumer_group() -> None:
    world = World()
    only, new = mixed(world)
    world.leave(MemberIdentity(member_id=only), MemberIdentity(member_id=new))
    assert world.consumer.is_empty


def test_nothing_happens_if_the_log_refuses_the_downgrade() -> None:
    world = World()
    only, _ = mixed(world)
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.heartbeat(epoch=-1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(world.consumer.state.members) == {only, "new"}


def test_the_last_new_member_comes_back_as_a_classic_one() -> None:
    world = World()
    only = world.join(instance_id="i0", version=5).member_id
    world.synced(world.sync_later(only, 1, {only: assignment({"t0": [0, 1, 2, 3]})}))
    world.heartbeat(instance_id="i1", owned={})
    metadata = subscription("t0", owned={})
    world.join(only, instance_id="i0", metadata=metadata, version=5)
    told = world.join(only, instance_id="i0", metadata=metadata, version=5)
    assert told.generation_id == 2
    world.sync(only, 2, instance_id="i0")
    since = len(world.log)
    back = world.join(instance_id="i1", metadata=metadata, version=5)
    assert back.error_code == ErrorCode.NONE
    assert world.group.type_name == "classic"
    assert world.names(since)[-1] == CLASSIC
    assert world.classic.generation_id == 2
    reasons = [entry.reason for entry in world.classic.journal.entries()]
    assert "again as i1, in place of new" in reasons
    assert state_of_log(world).members == {}
    assert {member.instance_id for member in world.classic.members} == {"i0", "i1"}
    value = world.log[-1].value
    assert isinstance(value, classic_records.GroupMetadataValue)
    given = {number for one in value.members for number in assigned(one.assignment)["t0"]}
    assert given == {0, 1, 2, 3}
    assert world.classic.members[0].rebalance_timeout_ms == REBALANCE_MS
