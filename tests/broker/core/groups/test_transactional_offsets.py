"""Offsets committed in transactions: the later record in the log wins, not the later end."""

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.broker.core.effects import Effect, Producer
from odradek.broker.core.groups.offsets import Offsets
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.classic import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .test_offsets import (
    ABSENT,
    HOUR,
    NONE,
    NOW,
    REPLY,
    TOO_LARGE,
    answered,
    append_in,
    codes,
    commit,
    committed,
    delete_of,
    exists,
    expired,
    keep,
    make,
    nobody,
)

ONE, TWO = 71, 72  # producers
PLACE = ("t", 0)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def txn_commit_of(producer_id: int, *asked: tuple[Any, ...]) -> TxnOffsetCommitRequest:
    """Topic, partition, offset, and maybe metadata, leader epoch."""
    topics = []
    for topic, partition, offset, *more in asked:
        metadata, epoch = more + ["", -1][len(more) :]
        item = TxnOffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_metadata=metadata,
            committed_leader_epoch=epoch,
        )
        topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=[item]))
    return TxnOffsetCommitRequest(producer_id=producer_id, producer_epoch=3, topics=topics)


def txn_commit(offsets: Offsets, producer_id: int, *asked: tuple[Any, ...]) -> list[Effect]:
    request = txn_commit_of(producer_id, *asked)
    return offsets.commit_in_transaction("g", request, REPLY, exists=exists, wall_ms=NOW)


def stable(offsets: Offsets) -> bool:
    """Whether the offset of the one place is told to who requires a stable one."""
    (topic,) = offsets.fetch("g", None, require_stable=True)
    (partition,) = topic.partitions
    assert partition.error_code in (NONE, UNSTABLE)
    return partition.error_code == NONE


def test_an_offset_shows_once_the_transaction_is_committed() -> None:
    offsets = make()
    keep(commit(offsets, (*PLACE, 5)))
    response = keep(txn_commit(offsets, ONE, (*PLACE, 10, "m", 4), ("u", 0, 11)))
    assert codes(response) == [(*PLACE, NONE), ("u", 0, NONE)]
    assert committed(offsets) == {PLACE: 5}
    assert not stable(offsets)
    offsets.end_transaction(ONE, is_committed=True)
    assert committed(offsets) == {PLACE: 10, ("u", 0): 11}
    (topic, _) = offsets.fetch("g", None, require_stable=True)
    (partition,) = topic.partitions
    assert (partition.metadata, partition.committed_leader_epoch) == ("m", 4)


def test_an_aborted_one_leaves_what_was_there() -> None:
    offsets = make()
    keep(commit(offsets, (*PLACE, 5)))
    keep(txn_commit(offsets, ONE, (*PLACE, 10), ("u", 0, 11)))
    offsets.end_transaction(ONE, is_committed=False)
    assert committed(offsets) == {PLACE: 5}
    assert stable(offsets)
    keep(txn_commit(offsets, ONE, ("u", 0, 11)))
    offsets.end_transaction(TWO, is_committed=True)  # another's
    assert committed(offsets) == {PLACE: 5}


def test_a_group_is_there_as_long_as_it_may_get_offsets() -> None:
    offsets = make()
    keep(txn_commit(offsets, ONE, (*PLACE, 10)))
    assert offsets.has("g")
    assert offsets.groups() == ["g"]
    assert offsets.fetch("g", None, require_stable=True) == []  # as in Kafka
    offsets.end_transaction(ONE, is_committed=False)
    assert not offsets.has("g")
    assert offsets.groups() == []


def test_a_plain_commit_that_is_later_in_the_log_stays() -> None:
    offsets = make()
    keep(txn_commit(offsets, ONE, (*PLACE, 10)))
    keep(commit(offsets, (*PLACE, 20)))
    assert committed(offsets) == {PLACE: 20}
    assert not stable(offsets)
    offsets.end_transaction(ONE, is_committed=True)
    assert committed(offsets) == {PLACE: 20}
    assert stable(offsets)


def test_of_two_producers_the_later_record_wins() -> None:
    offsets = make()
    keep(txn_commit(offsets, ONE, (*PLACE, 10)))
    keep(txn_commit(offsets, TWO, (*PLACE, 20)))
    offsets.end_transaction(TWO, is_committed=True)
    assert committed(offsets) == {PLACE: 20}
    assert not stable(offsets)
    offsets.end_transaction(ONE, is_committed=True)
    assert committed(offsets) == {PLACE: 20}
    assert stable(offsets)


def test_of_one_producer_the_last_offset_of_its_transaction_counts() -> None:
    offsets = make()
    keep(txn_commit(offsets, ONE, (*PLACE, 30)))
    keep(txn_commit(offsets, ONE, (*PLACE, 10)))
    offsets.end_transaction(ONE, is_committed=True)
    assert committed(offsets) == {PLACE: 10}
    keep(txn_commit(offsets, ONE, (*PLACE, 40)))
    assert committed(offsets) == {PLACE: 10}
    offsets.end_transaction(ONE, is_committed=True)
    assert committed(offsets) == {PLACE: 40}


def test_the_end_may_be_seen_before_the_commits_are_known_to_be_kept() -> None:
    """The high watermark passes all of them at once, and who waits is told in any order."""
    offsets = make()
    plain = append_in(commit(offsets, (*PLACE, 5)))
    late = append_in(txn_commit(offsets, ONE, (*PLACE, 10)))
    assert plain.appended is not None
    assert late.appended is not None
    plain.appended()
    late.appended()
    offsets.end_transaction(ONE, is_committed=True)
    late.then(NONE)
    plain.then(NONE)
    assert committed(offsets) == {PLACE: 10}
    assert stable(offsets)


def test_what_the_log_has_refused_is_in_no_transaction() -> None:
    offsets = make()
    append = append_in(txn_commit(offsets, ONE, (*PLACE, 10)))
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    assert codes(answered(append.then(code))) == [(*PLACE, code)]
    assert not offsets.has("g")
    offsets.end_transaction(ONE, is_committed=True)
    assert not offsets.has("g")


def test_what_the_log_has_taken_is_decided_by_the_end_whatever_the_producer_was_told() -> None:
    offsets = make()
    append = append_in(txn_commit(offsets, ONE, (*PLACE, 10)))
    assert append.appended is not None
    append.appended()
    code = ErrorCode.REQUEST_TIMED_OUT
    assert codes(answered(append.then(code))) == [(*PLACE, code)]
    offsets.end_transaction(ONE, is_committed=True)
    assert committed(offsets) == {PLACE: 10}


def test_the_batch_is_the_producers() -> None:
    append = append_in(txn_commit(make(), ONE, (*PLACE, 10), ("t", 1, 11, None)))
    assert append.producer == Producer(ONE, 3)
    assert [record.value for record in append.records] == [
        OffsetCommitValue(offset=10, commit_timestamp=NOW),
        OffsetCommitValue(offset=11, commit_timestamp=NOW),
    ]


def test_codes_of_what_cannot_be_committed() -> None:
    offsets = make(metadata_size_max=1)
    asked = (("t", 0, 1, "xx"), ("absent", 0, 1))
    assert codes(answered(txn_commit(offsets, ONE, *asked))) == [
        ("absent", 0, ABSENT),
        ("t", 0, TOO_LARGE),
    ]
    assert not offsets.has("g")


def test_undecided_offsets_do_not_expire() -> None:
    offsets = make(retention_ms=HOUR)
    keep(commit(offsets, (*PLACE, 5)))
    keep(txn_commit(offsets, ONE, (*PLACE, 10), ("t", 1, 11)))
    assert expired(offsets, NOW + HOUR) == []
    offsets.end_transaction(ONE, is_committed=True)
    assert expired(offsets, NOW + HOUR) == [0, 1]


def let_it_delete(offsets: Offsets, how: str) -> Sequence[GroupRecord]:
    """Delete everything in one of three ways; what is written."""
    if how == "request":
        request = delete_of(PLACE)
        effects = offsets.delete("g", request, REPLY, exists=exists, is_subscribed=nobody)
        keep(effects)
        return append_in(effects).records
    (write,) = offsets.delete_all("g") if how == "group" else offsets.forget_topic("t")
    write.appended()
    write.settled(NONE)
    return write.records


@pytest.mark.parametrize("how", ["request", "group", "topic"])
@pytest.mark.parametrize("had_one", [False, True])
def test_what_is_deleted_does_not_come_back_with_the_end(how: str, had_one: bool) -> None:
    offsets = make()
    if had_one:
        keep(commit(offsets, (*PLACE, 5)))
    keep(txn_commit(offsets, ONE, (*PLACE, 10)))
    (tombstone,) = let_it_delete(offsets, how)
    assert tombstone == GroupRecord(OffsetCommitKey(group="g", topic="t", partition=0), None)
    assert not offsets.has("g")
    keep(txn_commit(offsets, TWO, (*PLACE, 20)))
    offsets.end_transaction(ONE, is_committed=True)
    assert committed(offsets) == {}
    offsets.end_transaction(TWO, is_committed=True)
    assert committed(offsets) == {PLACE: 20}


def test_a_deletion_spares_what_is_later_in_the_log() -> None:
    offsets = make()
    keep(txn_commit(offsets, ONE, (*PLACE, 10)))
    (write,) = offsets.delete_all("g")
    write.appended()
    keep(txn_commit(offsets, TWO, (*PLACE, 20)))
    write.settled(NONE)
    for producer_id in (ONE, TWO):
        offsets.end_transaction(producer_id, is_committed=True)
    assert committed(offsets) == {PLACE: 20}


def test_only_offsets_are_in_transactions() -> None:
    offsets = make()
    offsets.apply_in_transaction(GroupRecord(GroupMetadataKey(group="g"), None), ONE)
    assert offsets.groups() == []
    offsets.end_transaction(ONE, is_committed=True)
    assert offsets.groups() == []
