"""The records of a consumer group, read back: by another broker, by an older one's hand."""

from odradek.broker.core.groups.consumer_member import MemberState
from odradek.broker.core.groups.consumer_state import INITIAL_EPOCH, Draft, GroupState
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records import consumer as records

from .consumer_running import GROUP, Running, contents

A = b"a" * 16


def current(member_id: str, epoch: int, partitions: list[int], **said: object) -> GroupRecord:
    topics = [records.TopicPartitions(topic_id=A, partitions=partitions)] if partitions else []
    value = records.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch, previous_member_epoch=0, assigned_partitions=topics
    )
    for name, what in said.items():
        setattr(value, name, what)
    key = records.ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id)
    return GroupRecord(key, value)


def test_a_group_is_the_same_after_loading() -> None:
    run = Running(session_timeout_ms=1_000)
    run.join("a", instance_id="i", rack_id="r", server_assignor="range")
    run.join("b", "t4", subscribed_topic_regex="u.*")
    run.send("a", 2)
    before = run.group.state
    assert contents(run.reload().state) == contents(before)
    assert run.group.state.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    run.pass_time(1_000)
    assert run.group.is_empty


def test_the_time_for_giving_up_begins_anew_after_loading() -> None:
    run = Running()
    run.join("a", timeout_ms=500)
    run.join("b")
    run.send("a", 2)
    run.pass_time(400)
    run.reload()
    run.pass_time(499)
    assert "a" in run.group.state.members
    run.pass_time(1)
    assert "a" not in run.group.state.members


def test_tombstones_leave_nothing() -> None:
    run = Running()
    run.join("a", instance_id="i")
    run.join("b", subscribed_topic_regex="u.*")
    run.log += run.group.tombstones()
    assert contents(run.reload().state) == contents(GroupState(GROUP))


def test_a_log_that_was_compacted_has_the_same_sum() -> None:
    run = Running()
    run.join("a")
    run.join("b")
    run.send("a", 2)
    run.send("a", 2, {"t4": [0, 1]})
    run.send("b", 3)
    run.join("c", "u2")
    run.send("b", -1)
    before = run.group.state
    last = {repr(record.key): record for record in run.log}
    compacted = [record for record in run.log if last[repr(record.key)] is record]
    assert len(compacted) < len(run.log)
    assert contents(run.reload(log=compacted).state) == contents(before)


def test_an_old_record_does_not_take_a_partition_from_its_new_owner() -> None:
    state = GroupState(GROUP)
    state.apply(current("a", 1, [0]))
    state.apply(current("b", 2, [0]))
    state.apply(current("a", 2, []))
    assert state.owners == {(A, 0): "b"}


def test_tombstones_of_what_is_not_there_change_nothing() -> None:
    state = GroupState(GROUP)
    for key in (
        records.ConsumerGroupMetadataKey(group_id=GROUP),
        records.ConsumerGroupPartitionMetadataKey(group_id=GROUP),
        records.ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id="m"),
        records.ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP),
        records.ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id="m"),
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="m"),
        records.ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="m"),
    ):
        state.apply(GroupRecord(key, None))
    assert contents(state) == contents(GroupState(GROUP))
    assert state.group_epoch == INITIAL_EPOCH


def test_records_of_kafka_before_4_3_have_no_assignment_epochs() -> None:
    state = GroupState(GROUP)
    state.apply(current("a", 7, [0, 1]))
    assert state.members["a"].assigned == {A: {0: 7, 1: 7}}


def test_a_state_of_a_newer_broker_is_kept_as_unknown() -> None:
    state = GroupState(GROUP)
    state.apply(current("a", 7, [0], state=3))
    assert state.members["a"].state is MemberState.UNKNOWN


def test_the_topic_metadata_of_kafka_before_4_1_is_replaced_by_the_hash() -> None:
    run = Running()
    run.join("a")
    run.log.append(
        GroupRecord(
            records.ConsumerGroupPartitionMetadataKey(group_id=GROUP),
            records.ConsumerGroupPartitionMetadataValue(topics=[]),
        )
    )
    run.log.append(
        GroupRecord(
            records.ConsumerGroupMetadataKey(group_id=GROUP),
            records.ConsumerGroupMetadataValue(epoch=2),  # without a hash
        )
    )
    assert run.reload().state.has_partition_metadata
    assert "-PartitionMetadata" in run.kinds(lambda: run.send("a", 2))
    assert not run.group.state.has_partition_metadata


def test_a_draft_leaves_the_state_alone() -> None:
    state = GroupState(GROUP)
    draft = Draft(state)
    draft.add(current("a", 1, [0]))
    assert draft.state.owners and not state.owners and not state.members
