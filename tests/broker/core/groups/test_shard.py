"""The groups of one partition of the log: which of them a request meets, and what is loaded."""

import random
from collections.abc import Sequence

import pytest

from odradek.broker.core.effects import Answer, AppendRecords, Caller, Effect
from odradek.broker.core.groups.classic import ClassicGroup
from odradek.broker.core.groups.consumer import ConsumerGroup
from odradek.broker.core.groups.member_ids import MemberIds
from odradek.broker.core.groups.shard import Shard
from odradek.broker.core.moment import Moment
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequestGroup
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.schema import Message

from .migration_world import GROUP, REBALANCE_MS, WALL_MS, World
from .test_migration import mixed
from .test_offsets import commit_of, delete_of

CALLER = Caller("c", "/127.0.0.1", 9)
NOW = Moment(1_000, WALL_MS)


def shard_of(world: World) -> Shard:
    """A shard that has read the log of a world."""
    shard = Shard(
        0,
        settings=lambda _: world.settings,
        topics=world.topics,
        member_ids=MemberIds(random.Random(2).randbytes),
    )
    for record in world.log:
        shard.load(record)
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
