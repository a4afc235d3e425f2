"""Who may commit, read and delete offsets of a consumer group; how it is described."""

import pytest

from odradek.broker.core.groups.group import OffsetOwner
from odradek.protocol.errors import ErrorCode as E
from odradek.protocol.errors import Refused

from .consumer_running import WALL_MS, Running


def two_members() -> Running:
    """a in epoch 2 gives up t4-2 and t4-3; b in epoch 3 waits for them."""
    run = Running()
    run.join("a", instance_id="i")
    run.join("b", rack_id="r")
    run.send("a", 2)
    return run


def owner(member_id: str, epoch: int, version: int = 9) -> OffsetOwner:
    return OffsetOwner(member_id, None, epoch, version)


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (owner("a", 2), None),
        (owner("b", 3, 10), None),
        (owner("a", 1), E.STALE_MEMBER_EPOCH),
        (owner("a", 3), E.STALE_MEMBER_EPOCH),
        (owner("x", 2), E.UNKNOWN_MEMBER_ID),
        (owner("", -1), E.UNKNOWN_MEMBER_ID),
        (owner("a", 2, 8), E.UNSUPPORTED_VERSION),
    ],
)
def test_commits(who: OffsetOwner, code: E | None) -> None:
    group = two_members().group
    if code is None:
        group.check_offset_commit(who, [("t4", 0)], 0)
        return
    with pytest.raises(Refused) as refused:
        group.check_offset_commit(who, [("t4", 0)], 0)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (owner("", -1, 0), None),  # before v3 nobody can name a member
        (owner("a", 2, 4), None),
        (owner("a", 1, 4), E.ILLEGAL_GENERATION),
        (owner("a", 3, 4), E.ILLEGAL_GENERATION),
        (owner("a", -1, 4), E.ILLEGAL_GENERATION),
        (owner("x", 2, 4), E.UNKNOWN_MEMBER_ID),
        (owner("", 2, 4), E.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_in_transactions(who: OffsetOwner, code: E | None) -> None:
    group = two_members().group
    if code is None:
        group.check_transactional_commit(who, [("t4", 0)])
        return
    with pytest.raises(Refused) as refused:
        group.check_transactional_commit(who, [("t4", 0)])
    assert refused.value.code == code


def test_a_partition_that_was_given_up_is_not_committed_in_a_transaction() -> None:
    run = two_members()
    run.send("a", 2, {"t4": [0, 1]})
    run.send("b", 3)
    run.send("a", 2, {"t4": [0, 1]})
    run.group.check_transactional_commit(owner("a", 2, 4), [("t4", 0)])
    with pytest.raises(Refused) as refused:
        run.group.check_transactional_commit(owner("a", 2, 4), [("t4", 2)])
    assert refused.value.code == E.ILLEGAL_GENERATION


def test_anybody_commits_to_an_empty_group() -> None:
    run = Running()
    run.group.check_offset_commit(owner("", -1, 2), [("t4", 0)], 0)
    run.group.check_transactional_commit(owner("a", -1, 4), [("t4", 0)])
    with pytest.raises(Refused):
        run.group.check_offset_commit(owner("a", 2), [("t4", 0)], 0)


def test_a_late_commit_passes_for_partitions_owned_since() -> None:
    run = two_members()
    run.send("a", 2, {"t4": [0, 1]})
    run.send("b", 3)
    group = run.group
    group.check_offset_commit(owner("a", 2), [("t4", 0), ("t4", 1)], 0)
    for partition in (("t4", 2), ("u2", 0), ("gone", 0)):
        with pytest.raises(Refused) as refused:
            group.check_offset_commit(owner("a", 2), [("t4", 0), partition], 0)
        assert refused.value.code == E.STALE_MEMBER_EPOCH
    with pytest.raises(Refused):
        group.check_offset_commit(owner("b", 2), [("t4", 2)], 0)  # b's since epoch 3
    group.check_offset_commit(owner("a", 3), [("t4", 2)], 0)  # in its own epoch all pass


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (owner("a", 2), None),
        (owner("", -1), E.UNKNOWN_MEMBER_ID),
        (owner("a", 1), E.STALE_MEMBER_EPOCH),
        (owner("x", 2), E.UNKNOWN_MEMBER_ID),
        (owner("x", -1), E.UNKNOWN_MEMBER_ID),
    ],
)
def test_fetches(who: OffsetOwner, code: E | None) -> None:
    group = two_members().group
    if code is None:
        group.check_offset_fetch(who)
        return
    with pytest.raises(Refused) as refused:
        group.check_offset_fetch(who)
    assert refused.value.code == code


def test_a_group_with_members_is_not_deleted_but_offsets_are() -> None:
    run = two_members()
    run.group.check_offset_delete()
    with pytest.raises(Refused) as refused:
        run.group.check_delete()
    assert refused.value.code == E.NON_EMPTY_GROUP
    Running().group.check_delete()


def test_offsets_of_topics_that_are_not_consumed_expire_from_their_commit() -> None:
    group = two_members().group
    assert group.is_subscribed_to("t4") and not group.is_subscribed_to("u2")
    assert group.offsets_expire_since_ms(WALL_MS) == WALL_MS


def test_describe() -> None:
    run = two_members()
    described = run.group.describe()
    assert (described.group_state, described.group_epoch) == ("Reconciling", 3)
    assert (described.assignment_epoch, described.assignor_name) == (3, "uniform")
    a, b = described.members
    assert (a.member_id, a.instance_id, a.member_epoch, a.member_type) == ("a", "i", 2, 1)
    assert (a.client_id, a.client_host, b.rack_id) == ("app", "/127.0.0.1", "r")
    (owned,), (target,) = a.assignment.topic_partitions, a.target_assignment.topic_partitions
    assert (owned.topic_name, owned.partitions) == ("t4", [0, 1, 2, 3])  # with what it gives up
    assert target.partitions == [0, 1]
    run.topics.delete("t4")
    assert run.group.describe().members[0].assignment.topic_partitions == []


def test_a_group_without_members_is_described_empty() -> None:
    described = Running().group.describe()
    assert (described.group_state, described.members) == ("Empty", [])


def test_the_journal_tells_the_story() -> None:
    run = two_members()
    events = [(entry.event, entry.who) for entry in run.group.journal.entries()]
    assert events[:5] == [
        ("joined", "a"),
        ("subscribed", "a"),
        ("rebalance", ""),
        ("assigned", ""),
        ("stable", "a"),
    ]
    assert ("waiting", "b") in events and events[-1] == ("revoking", "a")
    run.send("a", 2, instance_id="i", subscribed_topic_names=["u2"])
    reasons = [e.reason for e in run.group.journal.entries() if e.event == "rebalance"]
    assert reasons == [
        "group epoch 2: member a joined",
        "group epoch 3: member b joined",
        "group epoch 4: member a subscribes to something else",
    ]
    run.join("b", instance_id="j")
    joins = [(e.who, e.reason) for e in run.group.journal.entries() if e.event == "joined"]
    assert joins == [
        ("a", "new member as instance i"),
        ("b", "new member"),
        ("b", "joined again as instance j"),
    ]
