"""The groups of one partition of the log: which of them a request meets, and what is loaded."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from odradek.broker.core.effects import Answer, AppendRecords, Caller, Effect
from odradek.broker.core.groups.classic import ClassicGroup
from odradek.broker.core.groups.consumer import ConsumerGroup
from odradek.broker.core.groups.member_ids import MemberIds
from odradek.broker.core.groups.shard import Shard
from odradek.broker.core.moment import Moment
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord, classic
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.schema import Message

from .migration_world import GROUP, REBALANCE_MS, WALL_MS, World
from .test_migration import mixed
from .test_offsets import commit_of, delete_of
from .test_transactional_offsets import txn_commit_of

CALLER = Caller("c", "/127.0.0.1", 9)
NOW = Moment(1_000, WALL_MS)


def shard_of(world: World, *, loaded: bool = True) -> Shard:
    """A shard that has read the log of a world."""
    shard = Shard(
        0,
        settings=lambda _: world.settings,
        topics=world.topics,
        member_ids=MemberIds(random.Random(2).randbytes),
    )
    for record in world.log:
        shard.load(record)
    if loaded:
        shard.loaded(NOW)
    return shard


def run(effects: Sequence[Effect]) -> list[Message]:
    """Let the log take everything; the answers."""
    answers: list[Message] = []
    for effect in effects:
        if isinstance(effect, Answer):
            answers.append(effect.response)
        else:
            assert isinstance(effect, AppendRecords)
            if effect.appended is not None:
                effect.appended()
            answers += run(effect.then(ErrorCode.NONE))
    return answers


def heartbeat(shard: Shard, epoch: int) -> list[Message]:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="new",
        member_epoch=epoch,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=["t0"],
        topic_partitions=[],
    )
    return run(shard.consumer_heartbeat(request, CALLER._replace(version=1), object(), NOW))


def test_a_member_with_the_new_protocol_upgrades_the_group_it_joins() -> None:
    world = World()
    world.two_classic_members()
    shard = shard_of(world)
    assert isinstance(shard.groups[GROUP], ClassicGroup)
    assert len(heartbeat(shard, 0)) == 1
    assert isinstance(shard.groups[GROUP], ConsumerGroup)


def test_a_group_that_was_loaded_becomes_classic_with_its_last_new_member() -> None:
    world = World()
    mixed(world)
    shard = shard_of(world)
    assert isinstance(shard.groups[GROUP], ConsumerGroup)
    assert len(heartbeat(shard, -1)) == 1
    assert isinstance(shard.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize(("version", "count"), [(2, 0), (3, 0), (5, 0), (5, 2)])
def test_leaving_a_group_that_does_not_exist(version: int, count: int) -> None:
    members = [MemberIdentity(member_id="m")] * count
    request = LeaveGroupRequest(group_id="absent", member_id="m", members=members)
    caller = CALLER._replace(version=version)
    (answer,) = run(shard_of(World()).leave(request, caller, object(), NOW))
    assert isinstance(answer, LeaveGroupResponse)
    codes = [member.error_code for member in answer.members]
    if version < 3:
        codes = [answer.error_code]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * (1 if version < 3 else count)


def test_groups_that_are_led_elsewhere_are_forgotten() -> None:
    world = World()
    world.two_classic_members()
    shard = shard_of(world)
    run(shard.unload())
    assert not shard.groups


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, ErrorCode.NONE),
        (None, 0, ErrorCode.NONE),
        ("m", -1, ErrorCode.NONE),
        ("m", 0, ErrorCode.GROUP_ID_NOT_FOUND),
        ("m", 1, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_member_of_no_group_is_told_no_offsets(
    member_id: str | None, epoch: int, code: ErrorCode
) -> None:
    asked = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch)
    answer = shard_of(World()).fetch_offsets(asked, CALLER, require_stable=False)
    assert answer.error_code == code


def test_a_group_without_members_goes_with_its_last_offset() -> None:
    shard = shard_of(World())
    commit = commit_of(("t0", 0, 5))
    commit.group_id = GROUP
    run(shard.commit_offsets(commit, CALLER, object(), NOW))
    assert GROUP in shard.groups
    delete = delete_of(("t0", 0))
    delete.group_id = GROUP
    run(shard.delete_offsets(delete, CALLER, object(), NOW))
    assert GROUP not in shard.groups


def txn_commit(shard: Shard, **member: Any) -> int:
    """Commit t0-0 in a transaction of producer 7; the code."""
    request = txn_commit_of(7, ("t0", 0, 5))
    request.group_id = GROUP
    for name, value in member.items():
        setattr(request, name, value)
    (answer,) = run(shard.commit_offsets_in_transaction(request, CALLER, object(), NOW))
    shard.settled(GROUP)
    code: int = answer.topics[0].partitions[0].error_code  # type: ignore[attr-defined]
    return code


def test_a_commit_in_a_transaction_makes_the_group() -> None:
    shard = shard_of(World())
    assert txn_commit(shard) == ErrorCode.NONE
    assert GROUP in shard.groups
    shard.offsets.end_transaction(7, is_committed=False)
    run(shard.expire(NOW))
    assert GROUP not in shard.groups


@pytest.mark.parametrize(
    "member", [{"generation_id": 0}, {"generation_id": 3, "member_id": "m"}], ids=["nobody", "m"]
)
def test_no_member_of_an_unknown_group_commits_in_a_transaction(member: dict[str, Any]) -> None:
    shard = shard_of(World())
    assert txn_commit(shard, **member) == ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in shard.groups


def test_a_group_of_which_only_an_open_transaction_is_known_is_loaded() -> None:
    shard = shard_of(World(), loaded=False)
    key = classic.OffsetCommitKey(group=GROUP, topic="t0", partition=0)
    record = GroupRecord(key, classic.OffsetCommitValue(offset=5))
    shard.offsets.apply_in_transaction(record, 7)
    shard.loaded(NOW)
    run(shard.expire(NOW))
    assert isinstance(shard.groups[GROUP], ClassicGroup)
    asked = OffsetFetchRequestGroup(
        group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t0", partition_indexes=[0])]
    )
    (topic,) = shard.fetch_offsets(asked, CALLER, require_stable=True).topics
    assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    shard.offsets.end_transaction(7, is_committed=True)
    (topic,) = shard.fetch_offsets(asked, CALLER, require_stable=True).topics
    assert topic.partitions[0].committed_offset == 5


def test_a_group_is_deleted_with_the_offsets_of_an_open_transaction() -> None:
    shard = shard_of(World())
    txn_commit(shard)
    (answer,) = run(shard.delete(GROUP, CALLER, object(), NOW))
    assert answer.results[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]
    shard.offsets.end_transaction(7, is_committed=True)
    assert GROUP not in shard.groups
    assert not shard.offsets.has(GROUP)
