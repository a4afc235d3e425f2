"""What a classic group says about offsets, how it is shown, and what is kept of it."""

import pytest

from odradek.broker.core.groups.group import Group, OffsetOwner
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.group_records import decode_record, encode_record
from odradek.protocol.group_records.classic import GroupMetadataValue

from .classic_running import GROUP, WALL_MS, Running, subscription

NOBODY = OffsetOwner("", None, -1, 9)


def commit(run: Running, owner: OffsetOwner) -> ErrorCode:
    try:
        run.group.check_offset_commit(owner, [("t", 0)], run.now_ms)
    except Refused as refused:
        return refused.code
    return ErrorCode.NONE


def txn_commit(run: Running, owner: OffsetOwner) -> ErrorCode:
    try:
        run.group.check_transactional_commit(owner, [("t", 0)])
    except Refused as refused:
        return refused.code
    return ErrorCode.NONE


def deleting(run: Running) -> list[ErrorCode]:
    """Of the group, of its offsets."""
    codes = []
    for check in (run.group.check_delete, run.group.check_offset_delete):
        try:
            check()
            codes.append(ErrorCode.NONE)
        except Refused as refused:
            codes.append(refused.code)
    return codes


def test_it_is_a_group() -> None:
    group: Group = Running().group
    assert (group.type_name, group.state_name, group.is_empty) == ("classic", "Empty", True)
    assert group.check_offset_fetch(NOBODY) is None  # type: ignore[func-returns-value]


def test_an_empty_group_takes_commits_from_outside() -> None:
    run = Running()
    assert commit(run, NOBODY) is ErrorCode.NONE
    assert commit(run, OffsetOwner("someone", "i", -1, 9)) is ErrorCode.NONE
    assert commit(run, OffsetOwner("someone", None, 0, 9)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert run.group.is_unused


def test_a_group_with_members_takes_commits_of_its_members() -> None:
    run = Running()
    (a,) = run.stable("a")
    assert commit(run, NOBODY) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(run, OffsetOwner(a, None, 1, 9)) is ErrorCode.NONE
    assert commit(run, OffsetOwner(a, None, 0, 9)) is ErrorCode.ILLEGAL_GENERATION
    assert commit(run, OffsetOwner(a, None, -1, 9)) is ErrorCode.ILLEGAL_GENERATION
    assert commit(run, OffsetOwner("x", None, 1, 9)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(run, OffsetOwner(a, "i", 1, 9)) is ErrorCode.UNKNOWN_MEMBER_ID
    s = run.join("s", instance_id="i")
    run.join("a", a)
    assert commit(run, OffsetOwner(a, "i", 2, 9)) is ErrorCode.FENCED_INSTANCE_ID
    for owner in (OffsetOwner(a, None, 2, 9), OffsetOwner(s.now.member_id, "i", 2, 9)):
        assert commit(run, owner) is ErrorCode.REBALANCE_IN_PROGRESS  # joined, but not synced
    run.assign([a, s.now.member_id])
    run.join("s", s.now.member_id, protocols={"range": b"new"})
    assert run.state == "PreparingRebalance"
    assert commit(run, OffsetOwner(a, None, 2, 9)) is ErrorCode.NONE  # its last before it rejoins
    run.group.answer_all(ErrorCode.NOT_COORDINATOR)
    assert commit(run, NOBODY) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_an_empty_group_takes_transactional_commits_from_outside() -> None:
    run = Running()
    assert txn_commit(run, NOBODY) is ErrorCode.NONE
    assert txn_commit(run, OffsetOwner("someone", "i", -1, 4)) is ErrorCode.NONE
    assert txn_commit(run, OffsetOwner("", None, 0, 4)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transactional_commit_that_names_a_member_must_be_its_own() -> None:
    run = Running()
    (a,) = run.stable("a")
    assert txn_commit(run, NOBODY) is ErrorCode.NONE  # before v3 nobody can name a member
    assert txn_commit(run, OffsetOwner(a, None, 1, 4)) is ErrorCode.NONE
    assert txn_commit(run, OffsetOwner(a, None, 0, 4)) is ErrorCode.ILLEGAL_GENERATION
    assert txn_commit(run, OffsetOwner(a, None, -1, 4)) is ErrorCode.ILLEGAL_GENERATION
    assert txn_commit(run, OffsetOwner("x", None, 1, 4)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert txn_commit(run, OffsetOwner("", None, 1, 4)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert txn_commit(run, OffsetOwner(a, "i", 1, 4)) is ErrorCode.UNKNOWN_MEMBER_ID
    s = run.join("s", instance_id="i")
    run.join("a", a)
    assert txn_commit(run, OffsetOwner(a, "i", 2, 4)) is ErrorCode.FENCED_INSTANCE_ID
    member = OffsetOwner(s.now.member_id, "i", 2, 4)
    assert txn_commit(run, member) is ErrorCode.NONE  # joined, but not synced
    run.group.answer_all(ErrorCode.NOT_COORDINATOR)
    for owner in (NOBODY, member):
        assert txn_commit(run, owner) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_transactional_commit_counts_as_no_heartbeat() -> None:
    run = Running()
    (a,) = run.stable("a")
    for _ in range(5):
        run.tick(9_000)
        txn_commit(run, OffsetOwner(a, None, 1, 4))
    assert run.state == "Empty"


def test_a_commit_counts_as_a_heartbeat() -> None:
    run = Running()
    (a,) = run.stable("a")
    for _ in range(5):
        run.tick(9_000)
        commit(run, OffsetOwner(a, None, 1, 9))
    assert run.state == "Stable"


def test_what_may_be_deleted() -> None:
    run = Running()
    assert deleting(run) == [ErrorCode.NONE, ErrorCode.NONE]
    run.stable("a")
    assert deleting(run) == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
    run = Running()
    run.stable("a", protocol_type="consumer")
    run.group.protocol_type = "connect"
    assert deleting(run) == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP]
    run.group.answer_all(ErrorCode.NONE)
    assert deleting(run) == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize(
    ("metadata", "protocol_type", "known"),
    [
        (subscription("t", "u"), "consumer", True),
        (b"\x7f\xff" + subscription("t", "u")[2:], "consumer", True),  # of a version to come
        (subscription("t", "u"), "connect", False),
        (b"", "consumer", False),
        (b"\0", "consumer", False),
        (b"\0\0\0\0\0\x05\0\x01", "consumer", False),
        (b"\0\0\x7f\xff\xff\xff", "consumer", False),
        (b"\0\0\0\0\0\x01\0\x01\xff\xff\xff\xff\xff", "consumer", False),  # not UTF-8
    ],
)
def test_subscriptions_are_read_where_they_can_be(
    metadata: bytes, protocol_type: str, known: bool
) -> None:
    run = Running()
    run.member("a", protocols={"range": metadata}, protocol_type=protocol_type)
    assert run.group.is_subscribed_to("t")
    assert run.group.is_subscribed_to("v") is not known


def test_an_empty_group_consumes_nothing() -> None:
    run = Running()
    assert not run.group.is_subscribed_to("t")
    (a,) = run.stable("a", protocols={"range": subscription("t")})
    run.leave(a)
    assert not run.group.is_subscribed_to("t")


def test_from_when_offsets_expire() -> None:
    run = Running()
    assert run.group.offsets_expire_since_ms(5) == 5  # nobody has ever joined
    (a,) = run.stable("a", protocols={"range": subscription("t")})
    assert run.group.offsets_expire_since_ms(5) == 5  # of other topics than t
    run.join("a", a, protocols={"range": b"unreadable"})
    assert run.group.offsets_expire_since_ms(5) is None  # CompletingRebalance
    run.sync(a)
    assert run.group.offsets_expire_since_ms(5) is None
    run.leave(a)
    assert run.group.offsets_expire_since_ms(5) == run.wall_ms
    old = GroupMetadataValue(protocol_type="consumer", generation=3)
    assert Running.loaded(old).group.offsets_expire_since_ms(5) == 5


def test_a_group_is_shown_in_full_while_it_is_stable() -> None:
    run = Running()
    (a,) = run.stable("a")
    shown = run.group.describe()
    assert (shown.group_id, shown.group_state, shown.protocol_type) == (GROUP, "Stable", "consumer")
    assert shown.protocol_data == "range"
    (member,) = shown.members
    assert (member.member_id, member.client_id, member.client_host) == (a, "a", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"R", a.encode())
    run.join("a", a)
    shown = run.group.describe()
    assert (shown.group_state, shown.protocol_data) == ("CompletingRebalance", "")
    assert (shown.members[0].member_metadata, shown.members[0].member_assignment) == (b"", b"")


def test_a_group_comes_back_from_its_record() -> None:
    run = Running()
    a, b = run.stable("a", "b", protocols={"range": subscription("t"), "other": b"?"})
    s = run.join("s", instance_id="i", protocols={"range": subscription("u")})
    for member_id in (a, b):
        run.join("m", member_id, protocols={"range": subscription("t")})
    run.assign([a, b, s.now.member_id])
    written = run.group.record(
        {member.member_id: member.assignment for member in run.group.members}
    )
    read = decode_record(*encode_record(written))
    assert read is not None
    assert isinstance(read.value, GroupMetadataValue)
    back = Running.loaded(read.value)
    assert (back.state, back.group.generation_id, back.group.leader_id) == ("Stable", 3, a)
    assert back.group.describe() == run.group.describe()
    assert not back.group.is_subscribed_to("v")
    assert back.group.is_subscribed_to("u")
    assert [back.heartbeat(member_id) for member_id in (a, b)] == [ErrorCode.NONE] * 2
    assert back.sync(b).now.assignment == b.encode()
    assert back.join("s", instance_id="i", protocols={"range": b""}).now.generation_id == 3
    back.tick(10_000)  # the sessions began when it was loaded
    assert back.state == "Empty"
    assert back.group.tombstones()[0].value is None


@pytest.mark.parametrize(("kept_ms", "rebalance_ms"), [(60_000, 60_000), (-1, 10_000)])
def test_a_member_whose_record_has_no_rebalance_timeout_has_its_session_timeout(
    kept_ms: int, rebalance_ms: int
) -> None:
    run = Running()
    run.stable("a", session_ms=10_000, rebalance_ms=60_000)
    value = run.written[-1]
    value.members[0].rebalance_timeout = kept_ms
    assert Running.loaded(value).group.members[0].rebalance_timeout_ms == rebalance_ms


def test_an_empty_group_comes_back_empty() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, current_state_timestamp=WALL_MS
    )
    run = Running.loaded(value)
    assert (run.state, run.group.protocol_type, run.group.wake_ms) == ("Empty", "consumer", None)
    assert run.group.offsets_expire_since_ms(5) == WALL_MS
    assert run.member("a")[1].now.generation_id == 8


def test_a_record_that_makes_no_sense_harms_nobody() -> None:
    run = Running()
    run.join("a", instance_id="i")
    record = run.group.record({})
    assert isinstance(record.value, GroupMetadataValue)
    value = record.value
    value.members *= 2
    value.leader = "who"
    value.protocol = None
    back = Running.loaded(value)
    back.tick(1_000_000)
    assert back.state == "Empty"
    assert back.member("b")[1].now.error_code == 0


def test_a_group_that_is_too_large_when_it_is_loaded_rebalances() -> None:
    run = Running()
    ids = run.stable("a", "b", "c")
    back = Running.loaded(run.written[-1], group_size_max=2)
    assert back.state == "PreparingRebalance"
    joins = [back.join("m", member_id) for member_id in ids]
    assert joins[2].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joins[0].now.generation_id == run.group.generation_id + 1


def test_a_group_of_which_nothing_was_written_leaves_no_tombstone() -> None:
    assert Running().group.tombstones() == []
