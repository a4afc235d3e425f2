"""Committed offsets: codes and answers as Kafka gives them, and what is kept when."""

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.broker.core.effects import Answer, AppendRecords, Effect
from odradek.broker.core.groups.offsets import TOMBSTONES_BYTES_MAX, Offsets
from odradek.broker.core.groups.offsets_answers import (
    older_shape,
    refuse_commit,
    refuse_fetch,
    there_in,
)
from odradek.broker.core.groups.settings import OffsetSettings
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord, decode_record, encode_record
from odradek.protocol.group_records.classic import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

NONE, ABSENT = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE
NOW = 1_000_000
HOUR = 3_600_000
SIZES = {"t": 4, "u": 1}
REPLY = object()


def exists(topic: str, partition: int) -> bool:
    return 0 <= partition < SIZES.get(topic, 0)


def nobody(topic: str) -> bool:
    return False


def commit_of(*asked: tuple[Any, ...], retention_time_ms: int = -1) -> OffsetCommitRequest:
    """Topic, partition, offset, and maybe metadata, commit timestamp, leader epoch."""
    topics = []
    for topic, partition, offset, *more in asked:
        metadata, timestamp, epoch = more + ["", -1, -1][len(more) :]
        item = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_metadata=metadata,
            commit_timestamp=timestamp,
            committed_leader_epoch=epoch,
        )
        topics.append(OffsetCommitRequestTopic(name=topic, partitions=[item]))
    return OffsetCommitRequest(topics=topics, retention_time_ms=retention_time_ms)


def delete_of(*asked: tuple[str, int]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
            )
            for topic, partition in asked
        ]
    )


def make(**settings: int) -> Offsets:
    return Offsets(lambda: OffsetSettings(**settings))


def commit(offsets: Offsets, *asked: tuple[Any, ...], **more: Any) -> list[Effect]:
    request = commit_of(*asked, **more)
    return offsets.commit("g", request, REPLY, exists=exists, wall_ms=NOW)


def append_in(effects: Sequence[Effect]) -> AppendRecords:
    """The one effect, which is an append that the log takes."""
    (append,) = effects
    assert isinstance(append, AppendRecords)
    assert append.appended is not None
    return append


def keep(effects: Sequence[Effect]) -> Any:
    """Let the log take it and the high watermark pass it; the response."""
    append = append_in(effects)
    assert append.appended is not None
    append.appended()
    return answered(append.then(NONE))


def answered(effects: Sequence[Effect]) -> Any:
    """The response, which is given now."""
    (answer,) = effects
    assert isinstance(answer, Answer)
    assert answer.reply is REPLY
    return answer.response


def codes(response: Any) -> list[tuple[str, int, int]]:
    return [
        (t.name, p.partition_index, p.error_code) for t in response.topics for p in t.partitions
    ]


def committed(offsets: Offsets, group_id: str = "g") -> dict[tuple[str, int], int]:
    found = offsets.fetch(group_id, None, require_stable=False)
    return {(t.name, p.partition_index): p.committed_offset for t in found for p in t.partitions}


def test_a_commit_shows_once_the_high_watermark_has_passed_it() -> None:
    offsets = make()
    keep(commit(offsets, ("t", 0, 5)))
    append = append_in(commit(offsets, ("t", 0, 7)))
    assert append.appended is not None
    append.appended()
    assert committed(offsets) == {("t", 0): 5}
    assert codes(answered(append.then(NONE))) == [("t", 0, NONE)]
    assert committed(offsets) == {("t", 0): 7}


def test_a_failed_append_leaves_what_was_there() -> None:
    offsets = make()
    append = append_in(commit(offsets, ("t", 0, 5)))
    assert offsets.has("g")
    found = codes(answered(append.then(ErrorCode.MESSAGE_TOO_LARGE)))
    assert found == [("t", 0, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)]
    assert not offsets.has("g")
    assert offsets.groups() == []
    keep(commit(offsets, ("t", 0, 5)))
    append = append_in(commit(offsets, ("t", 0, 6)))
    assert append.appended is not None
    append.appended()
    found = codes(answered(append.then(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    assert found == [("t", 0, ErrorCode.NOT_COORDINATOR)]
    assert committed(offsets) == {("t", 0): 5}


def test_of_two_overlapping_commits_the_later_in_the_log_holds() -> None:
    offsets = make()
    first, second = (append_in(commit(offsets, ("t", 0, offset))) for offset in (5, 3))
    assert first.appended is not None
    assert second.appended is not None
    first.appended()
    second.appended()
    second.then(NONE)  # even if it should be settled first
    first.then(NONE)
    assert committed(offsets) == {("t", 0): 3}


def test_what_a_commit_keeps() -> None:
    offsets = make()
    append = append_in(commit(offsets, ("t", 0, -5, None), ("t", 1, 7, "€", 77, 3)))
    assert [record.value for record in append.records] == [
        OffsetCommitValue(offset=-5, leader_epoch=-1, metadata="", commit_timestamp=NOW),
        OffsetCommitValue(offset=7, leader_epoch=3, metadata="€", commit_timestamp=77),
    ]
    assert append.records[0].key == OffsetCommitKey(group="g", topic="t", partition=0)
    keep([append])
    found = offsets.fetch("g", None, require_stable=True)[0].partitions
    assert [p.committed_leader_epoch for p in found] == [-1, 3]
    assert [p.metadata for p in found] == ["", "€"]


@pytest.mark.parametrize(
    ("retention_ms", "expire_ms"),
    [(0, NOW), (HOUR, NOW + HOUR), (-HOUR, NOW - HOUR), ((1 << 63) - 1, (1 << 63) - 1)],
)
def test_a_retention_of_its_own(retention_ms: int, expire_ms: int) -> None:
    (record,) = append_in(commit(make(), ("t", 0, 5), retention_time_ms=retention_ms)).records
    key, value = encode_record(record)
    assert value is not None
    assert value[:2] == b"\0\1"  # the one version that has a place for it
    again = decode_record(key, value)
    assert again is not None
    assert isinstance(again.value, OffsetCommitValue)
    assert again.value.expire_timestamp == expire_ms
    assert again.value.commit_timestamp == NOW


def test_codes_order_and_doubles_of_a_commit() -> None:
    offsets = make()
    mixed = (
        *(("t", 2, 1), ("t", 99, 1), ("u", 0, 7), ("absent", 3, 1), ("t", 2, 4)),
        *(("t", 0, 4), ("t", -1, 4), ("t", 99, 4)),
    )
    assert codes(keep(commit(offsets, *mixed))) == [
        *(("t", 99, ABSENT), ("t", -1, ABSENT), ("t", 99, ABSENT), ("t", 2, NONE), ("t", 0, NONE)),
        *(("absent", 3, ABSENT), ("u", 0, NONE)),
    ]
    assert committed(offsets) == {("t", 2): 4, ("u", 0): 7, ("t", 0): 4}


def test_metadata_is_measured_in_utf_16_units() -> None:
    offsets = make(metadata_size_max=4)
    asked = [("t", 0, 1, "€€€€"), ("t", 1, 1, "😀😀"), ("t", 2, 1, "😀😀x"), ("t", 3, 1, "xxxxx")]
    assert codes(keep(commit(offsets, *asked))) == [
        *(("t", 0, NONE), ("t", 1, NONE), ("t", 2, TOO_LARGE), ("t", 3, TOO_LARGE)),
    ]
    assert committed(offsets) == {("t", 0): 1, ("t", 1): 1}


def test_what_has_nothing_valid_is_answered_without_an_append() -> None:
    offsets = make(metadata_size_max=1)
    asked = [("t", 0, 1, "x"), ("t", 0, 1, "xx"), ("absent", 0, 1)]  # the last of a double counts
    assert codes(answered(commit(offsets, *asked))) == [("absent", 0, ABSENT), ("t", 0, TOO_LARGE)]
    assert answered(commit(offsets)).topics == []
    assert not offsets.has("g")


def test_a_refused_commit_names_first_what_is_not_there() -> None:
    request = commit_of(("t", 0, 1), ("absent", 0, 1))
    assert there_in(request, exists) == [("t", 0)]
    assert not there_in(commit_of(("absent", 0, 1), ("t", 4, 1)), exists)
    code = ErrorCode.ILLEGAL_GENERATION
    found = codes(refuse_commit(request, code, exists))
    assert found == [("absent", 0, ABSENT), ("t", 0, code)]


def test_a_fetch_in_both_shapes() -> None:
    offsets = make()
    keep(commit(offsets, ("t", 2, 4, "m", NOW, 9)))
    old = [OffsetFetchRequestTopic(name="t", partition_indexes=[2, 2, 77])]
    new = [OffsetFetchRequestTopics(name="t", partition_indexes=[2, 2, 77])]
    for group, expected in (("g", (4, 9, "m")), ("unknown", (-1, -1, ""))):
        found = offsets.fetch(group, new, require_stable=False)
        assert older_shape(found) == older_shape(offsets.fetch(group, old, require_stable=False))
        for topic in (found[0], older_shape(found)[0]):
            assert topic.name == "t"
            assert [
                (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata)
                for p in topic.partitions
            ] == [(2, *expected), (77, -1, -1, "")]
    (refused,) = refuse_fetch(old, ErrorCode.NOT_COORDINATOR)
    assert {p.error_code for p in refused.partitions} == {ErrorCode.NOT_COORDINATOR}
    assert offsets.fetch("unknown", None, require_stable=False) == []


def test_what_is_not_stable_is_not_told() -> None:
    offsets = make()
    keep(commit(offsets, ("t", 0, 4), ("t", 1, 5)))
    append = append_in(commit(offsets, ("t", 0, 6)))
    (topic,) = offsets.fetch("g", None, require_stable=True)
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert [(p.committed_offset, p.error_code) for p in topic.partitions] == [
        (-1, unstable),
        (5, 0),
    ]
    keep([append])
    (topic,) = offsets.fetch("g", None, require_stable=True)
    assert [(p.committed_offset, p.error_code) for p in topic.partitions] == [(6, 0), (5, 0)]


def test_deleting() -> None:
    offsets = make()
    keep(commit(offsets, ("t", 0, 1), ("t", 2, 1), ("u", 0, 1)))
    asked = [("t", 2), ("t", 2), ("t", 99), ("t", 3), ("absent", 1), ("u", 0)]
    effects = offsets.delete(
        "g", delete_of(*asked), REPLY, exists=exists, is_subscribed=lambda topic: topic == "u"
    )
    key = OffsetCommitKey(group="g", topic="t", partition=2)
    assert append_in(effects).records == [GroupRecord(key, None)]
    assert committed(offsets) == {("t", 0): 1, ("t", 2): 1, ("u", 0): 1}
    response = keep(effects)
    assert response.error_code == NONE
    assert codes(response) == [
        *(("t", 99, ABSENT), ("t", 2, NONE), ("t", 3, NONE), ("absent", 1, ABSENT)),
        ("u", 0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    ]
    assert committed(offsets) == {("t", 0): 1, ("u", 0): 1}


def test_a_delete_that_fails_or_has_nothing_to_do() -> None:
    offsets = make()
    keep(commit(offsets, ("t", 0, 1)))

    def delete(*asked: tuple[str, int]) -> list[Effect]:
        request = delete_of(*asked)
        return offsets.delete("g", request, REPLY, exists=exists, is_subscribed=nobody)

    response = answered(append_in(delete(("t", 0))).then(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])
    assert committed(offsets) == {("t", 0): 1}
    assert codes(answered(delete(("t", 1)))) == [("t", 1, NONE)]


def test_the_members_are_asked_once_for_each_topic() -> None:
    offsets = make()
    asked: list[str] = []

    def is_subscribed(topic: str) -> bool:
        asked.append(topic)
        return True

    request = delete_of(("t", 0), ("t", 0), ("t", 1), ("u", 0))
    offsets.delete("g", request, REPLY, exists=exists, is_subscribed=is_subscribed)
    assert asked == ["t", "u"]


def test_deleting_all_reaches_also_what_is_on_its_way() -> None:
    offsets = make()
    keep(commit(offsets, ("t", 0, 1)))
    append = append_in(commit(offsets, ("t", 1, 1)))
    assert append.appended is not None
    append.appended()
    (write,) = offsets.delete_all("g")
    assert [record.key.partition for record in write.records] == [0, 1]  # type: ignore[attr-defined]
    write.appended()
    append.then(NONE)
    assert committed(offsets) == {("t", 0): 1, ("t", 1): 1}
    write.settled(NONE)
    assert not offsets.has("g")
    (nothing,) = offsets.delete_all("g")
    assert nothing.records == []
    nothing.settled(NONE)
    assert not offsets.has("g")


def test_a_topic_that_is_gone() -> None:
    offsets = make()
    keep(commit(offsets, ("t", 0, 1), ("u", 0, 1)))
    request = commit_of(("t", 3, 1))
    keep(offsets.commit("other", request, REPLY, exists=exists, wall_ms=NOW))
    for write in offsets.forget_topic("t"):
        write.appended()
        write.settled(NONE)
    assert offsets.groups() == ["g"]
    assert committed(offsets) == {("u", 0): 1}
    assert offsets.forget_topic("t") == []


@pytest.mark.parametrize("group_id", ["g", "g" * 32_767])
def test_many_offsets_are_deleted_in_batches_that_the_log_takes(group_id: str) -> None:
    offsets = make(retention_ms=HOUR)
    topic = "t" * 249
    for partition in range(500):
        key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
        offsets.apply(GroupRecord(key, OffsetCommitValue(offset=1, commit_timestamp=NOW)))
    over = offsets.expired(
        group_id, since_ms=lambda commit_ms: NOW, is_subscribed=nobody, wall_ms=NOW + HOUR
    )
    for writes in (over, offsets.forget_topic(topic), offsets.delete_all(group_id)):
        sizes = [[len(encode_record(record)[0]) for record in write.records] for write in writes]
        assert sum(map(len, sizes)) == 500
        assert all(sum(size) <= TOMBSTONES_BYTES_MAX for size in sizes)


def expired(offsets: Offsets, wall_ms: int, **more: Any) -> list[int]:
    asked = {"since_ms": lambda commit_ms: commit_ms, "is_subscribed": nobody, **more}
    writes = offsets.expired("g", wall_ms=wall_ms, **asked)
    for write in writes:
        write.settled(ErrorCode.NOT_COORDINATOR)
    records = [record for write in writes for record in write.records]
    return [record.key.partition for record in records]  # type: ignore[attr-defined]


def test_expiry() -> None:
    offsets = make(retention_ms=HOUR)
    keep(commit(offsets, ("t", 0, 1), ("t", 1, 1, "", NOW - 1)))
    keep(commit(offsets, ("t", 2, 1), retention_time_ms=10))
    assert expired(offsets, NOW) == []
    assert expired(offsets, NOW + 10) == [2]
    assert expired(offsets, NOW + HOUR - 1) == [1, 2]
    assert expired(offsets, NOW + HOUR) == [0, 1, 2]
    # The group was left later than the offsets were committed.
    assert expired(offsets, NOW + HOUR, since_ms=lambda commit_ms: NOW + 1) == [2]
    assert expired(offsets, NOW + 2 * HOUR, since_ms=lambda commit_ms: None) == []
    assert expired(offsets, NOW + HOUR, is_subscribed=lambda topic: topic == "t") == []
    append = append_in(commit(offsets, ("t", 0, 1)))
    assert expired(offsets, NOW + HOUR) == [1, 2]
    append.then(ErrorCode.NOT_COORDINATOR)
    assert expired(offsets, NOW + HOUR) == [0, 1, 2]
    assert committed(offsets) == {("t", 0): 1, ("t", 1): 1, ("t", 2): 1}


@pytest.mark.parametrize("version", range(5))
def test_values_of_every_version_are_loaded(version: int) -> None:
    offsets = make()
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=NOW)
    data = version.to_bytes(2, "big") + value.encode(version)
    record = decode_record(encode_record(GroupRecord(key, None))[0], data)
    assert record is not None
    offsets.apply(record)
    offsets.apply(GroupRecord(GroupMetadataKey(group="h"), None))
    assert offsets.groups() == ["g"]
    (partition,) = offsets.fetch("g", None, require_stable=True)[0].partitions
    assert (partition.committed_offset, partition.metadata) == (5, "m")
    assert partition.committed_leader_epoch == (2 if version >= 3 else -1)
    offsets.apply(GroupRecord(key, None))
    offsets.apply(GroupRecord(key, None))
    assert not offsets.has("g")
