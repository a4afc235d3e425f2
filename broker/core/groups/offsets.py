"""The committed offsets of all groups in one partition of `__consumer_offsets`.

Every change is a write: values or tombstones that are appended to the log. A write takes effect
once the high watermark has passed its records. Until then it is pending: readers see the previous
value, and keep it if the append fails. Of two writes to one partition, the later one in the log
wins.

A commit in a transaction takes effect once the transaction is committed, if no later write has by
then. It is undecided as soon as the log has it, whatever its producer is told: the end of the
transaction, which is in the same log, decides.

Memory grows only with existing partitions, as commits for others are refused, with requests in
flight, which are few per connection, and with open transactions.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.messages.k08_offset_commit import OffsetCommitRequest
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchResponseTopics
from odradek.protocol.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.messages.k47_offset_delete import OffsetDeleteRequest

from ..coordinator_codes import coordinator_code_of, offset_code_of
from ..effects import Answer, AppendRecords, Effect, Producer, Reply
from .group import TopicPartition
from .offset_slot import Slot
from .offsets_answers import (
    Commit,
    Exists,
    WantedTopics,
    commit_answer,
    commits_in,
    delete_answer,
    deletes_in,
    fetch_answer,
    refuse_delete,
    txn_commit_answer,
)
from .settings import OffsetSettings

NOT_SET: Final = -1
INT64_MAX: Final = (1 << 63) - 1
TOMBSTONES_BYTES_MAX: Final = 65_536
"""The approximate size of the batches in which the broker itself deletes offsets: those of one
group may be too many for max.message.bytes."""
TOMBSTONE_BYTES_MAX: Final = 300
"""The most bytes of one tombstone, without the group's name: a topic's name has up to 249."""


class OffsetWrite:
    """Offsets being written to the log; they become visible when the write is settled.

    A write must be settled exactly once, whatever happens; without records, it need not be.
    """

    __slots__ = ("_number", "_offsets", "records")

    def __init__(self, offsets: "Offsets", records: Sequence[GroupRecord]) -> None:
        self._offsets = offsets
        self._number: int | None = None
        self.records = records
        """The records to append: values or tombstones."""
        for record in records:
            offsets._slot(record.key).pending += 1

    def appended(self) -> None:
        """The log has taken the records; the callback for `AppendRecords.appended`."""
        self._number = self._offsets._next_number()

    def settled(self, code: ErrorCode) -> None:
        """The records are committed (NONE) or were refused; to call in `AppendRecords.then`."""
        for record in self.records:
            slot = self._offsets._slot(record.key)
            assert slot.pending > 0, "settled twice"
            slot.pending -= 1
            if code is ErrorCode.NONE:
                assert self._number is not None, "never appended"
                slot.take(_value_in(record), self._number)
            self._offsets._tidy(record.key)


class Offsets:
    """Committed offsets by group, topic and partition."""

    def __init__(self, settings: Callable[[], OffsetSettings]) -> None:
        self._settings = settings
        self._groups: dict[str, dict[TopicPartition, Slot]] = {}
        self._number = 0
        # By producer id, where its open transaction has committed offsets.
        self._open: dict[int, set[tuple[str, TopicPartition]]] = {}

    # -- client requests

    def commit(
        self,
        group_id: str,
        request: OffsetCommitRequest,
        reply: Reply,
        *,
        exists: Exists,
        wall_ms: int,
    ) -> list[Effect]:
        """Commit offsets, after the group has checked the commit.

        Any int64 is valid as an offset, even a negative one.
        """
        asked = commits_in(request)
        values = [
            (key, _value(partition, wall_ms, partition.commit_timestamp, request.retention_time_ms))
            for key, partition in asked
        ]
        codes, records = self._draft(group_id, values, exists)
        names = [key for key, _ in asked]

        def answer(code: ErrorCode) -> list[Effect]:
            codes.update(dict.fromkeys(records, offset_code_of(code)))
            return [Answer(reply, commit_answer(names, codes))]

        return self._write(list(records.values()), answer)

    def commit_in_transaction(
        self,
        group_id: str,
        request: TxnOffsetCommitRequest,
        reply: Reply,
        *,
        exists: Exists,
        wall_ms: int,
    ) -> list[Effect]:
        """Commit offsets as part of a producer's transaction, after the group has checked it.

        They are undecided until `end_transaction`.
        """
        asked = commits_in(request)
        values = [(key, _value(partition, wall_ms)) for key, partition in asked]
        codes, records = self._draft(group_id, values, exists)
        names = [key for key, _ in asked]
        producer = Producer(request.producer_id, request.producer_epoch)

        def appended() -> None:
            for record in records.values():
                self.apply_in_transaction(record, producer.producer_id)

        def then(code: ErrorCode) -> list[Effect]:
            codes.update(dict.fromkeys(records, offset_code_of(code)))
            return [Answer(reply, txn_commit_answer(names, codes))]

        if not records:
            return then(ErrorCode.NONE)
        return [AppendRecords(list(records.values()), then, appended, producer)]

    def fetch(
        self, group_id: str, topics: WantedTopics | None, *, require_stable: bool
    ) -> list[OffsetFetchResponseTopics]:
        """The committed offsets of these partitions, or (None) of all that have one.

        With `require_stable`, a partition with a pending or an undecided write gets
        UNSTABLE_OFFSET_COMMIT.
        """
        slots = self._groups.get(group_id, {})
        if topics is None:
            wanted = [key for key, slot in slots.items() if slot.value is not None]
        else:
            wanted = [(topic.name, index) for topic in topics for index in topic.partition_indexes]
        found: dict[TopicPartition, OffsetCommitValue | ErrorCode | None] = {}
        for key in wanted:
            slot = slots.get(key)
            if slot is not None and require_stable and not slot.is_stable:
                found[key] = ErrorCode.UNSTABLE_OFFSET_COMMIT
            else:
                found[key] = slot.value if slot is not None else None
        return fetch_answer(found)

    def delete(
        self,
        group_id: str,
        request: OffsetDeleteRequest,
        reply: Reply,
        *,
        exists: Exists,
        is_subscribed: Callable[[str], bool],
    ) -> list[Effect]:
        """Delete offsets, after the group has checked the request."""
        asked = deletes_in(request)
        is_subscribed = functools.cache(is_subscribed)  # it asks all members
        codes = {
            key: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed(key[0]) else ErrorCode.NONE
            for key in asked
            if exists(*key)
        }
        slots = self._groups.get(group_id, {})
        gone = [key for key, code in codes.items() if code is ErrorCode.NONE and key in slots]

        def answer(code: ErrorCode) -> list[Effect]:
            if code is not ErrorCode.NONE:
                return [Answer(reply, refuse_delete(coordinator_code_of(code)))]
            return [Answer(reply, delete_answer(asked, codes))]

        return self._write(_tombstones(group_id, gone), answer)

    # -- changes by the coordinator itself

    def delete_all(self, group_id: str) -> list[OffsetWrite]:
        """Delete all of a group's offsets, even pending and undecided ones.

        Returns at least one write.
        """
        keys = list(self._groups.get(group_id, ()))
        return self._deletions(group_id, keys) or [OffsetWrite(self, [])]

    def forget_topic(self, topic: str) -> list[OffsetWrite]:
        """Delete the offsets of a topic that was deleted."""
        gone = {
            group_id: [key for key in slots if key[0] == topic]
            for group_id, slots in self._groups.items()
        }
        return [
            write for group_id, keys in gone.items() for write in self._deletions(group_id, keys)
        ]

    def expired(
        self,
        group_id: str,
        *,
        since_ms: Callable[[int], int | None],
        is_subscribed: Callable[[str], bool],
        wall_ms: int,
    ) -> list[OffsetWrite]:
        """Delete a group's expired offsets (KIP-211).

        `since_ms`: see `Group.offsets_expire_since_ms`.  Offsets for which an old client set a
        retention time of its own expire by that, unless the group holds them.
        """
        retention_ms = self._settings().retention_ms
        is_subscribed = functools.cache(is_subscribed)  # it asks all members

        def is_over(value: OffsetCommitValue) -> bool:
            since = since_ms(value.commit_timestamp)
            if since is None:
                return False
            if value.expire_timestamp != NOT_SET:
                return wall_ms >= value.expire_timestamp
            return wall_ms - since >= retention_ms

        gone = [
            key
            for key, slot in self._groups.get(group_id, {}).items()
            if slot.value is not None
            and slot.is_stable
            and is_over(slot.value)
            and not is_subscribed(key[0])
        ]
        return self._deletions(group_id, gone)

    def apply(self, record: GroupRecord) -> None:
        """Apply a record that was read from the log; other types of record are ignored."""
        if isinstance(record.key, OffsetCommitKey):
            self._slot(record.key).take(_value_in(record), self._next_number())
            self._tidy(record.key)

    def apply_in_transaction(self, record: GroupRecord, producer_id: int) -> None:
        """Apply a record of an open transaction that the log has taken, or that was read from it.

        Other types of record are ignored: only offsets are written in transactions.
        """
        key = record.key
        if isinstance(key, OffsetCommitKey):
            self._slot(key).hold(producer_id, (_value_in(record), self._next_number()))
            places = self._open.setdefault(producer_id, set())
            places.add((key.group, (key.topic, key.partition)))

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """The marker of a producer's transaction is committed, or was read from the log."""
        for group_id, key in self._open.pop(producer_id, ()):
            slot = self._groups.get(group_id, {}).get(key)
            if slot is not None:  # otherwise it was deleted meanwhile
                slot.decide(producer_id, is_committed=is_committed)
                self._tidy(_key(group_id, key))

    def groups(self) -> Iterable[str]:
        """The groups that have offsets, or pending or undecided writes."""
        return list(self._groups)

    def has(self, group_id: str) -> bool:
        """Whether a group has offsets, or pending or undecided writes."""
        return group_id in self._groups

    # -- internals

    def _draft(
        self,
        group_id: str,
        values: Iterable[tuple[TopicPartition, OffsetCommitValue]],
        exists: Exists,
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, GroupRecord]]:
        """The codes of existing partitions, and the records of those that may be written."""
        codes: dict[TopicPartition, ErrorCode] = {}
        records: dict[TopicPartition, GroupRecord] = {}
        for key, value in values:
            if not exists(*key):
                continue
            if self._is_too_large(value.metadata):
                codes[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                records.pop(key, None)
            else:
                codes[key] = ErrorCode.NONE
                records[key] = GroupRecord(_key(group_id, key), value)
        return codes, records

    def _write(
        self, records: list[GroupRecord], answer: Callable[[ErrorCode], list[Effect]]
    ) -> list[Effect]:
        if not records:
            return answer(ErrorCode.NONE)
        write = OffsetWrite(self, records)

        def then(code: ErrorCode) -> list[Effect]:
            write.settled(code)
            return answer(code)

        return [AppendRecords(records, then, write.appended)]

    def _deletions(self, group_id: str, keys: Sequence[TopicPartition]) -> list[OffsetWrite]:
        size_bytes = len(group_id.encode()) + TOMBSTONE_BYTES_MAX
        count = max(1, TOMBSTONES_BYTES_MAX // size_bytes)
        return [
            OffsetWrite(self, _tombstones(group_id, keys[i : i + count]))
            for i in range(0, len(keys), count)
        ]

    def _is_too_large(self, metadata: str) -> bool:
        return len(metadata.encode("utf-16-le")) > 2 * self._settings().metadata_size_max

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _slot(self, key: object) -> Slot:
        assert isinstance(key, OffsetCommitKey)
        slots = self._groups.setdefault(key.group, {})
        return slots.setdefault((key.topic, key.partition), Slot())

    def _tidy(self, key: object) -> None:
        """Remove a slot that is empty, and a group without slots."""
        assert isinstance(key, OffsetCommitKey)
        slots = self._groups[key.group]
        if slots[key.topic, key.partition].is_empty:
            del slots[key.topic, key.partition]
        if not slots:
            del self._groups[key.group]


def _key(group_id: str, key: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=key[0], partition=key[1])


def _tombstones(group_id: str, keys: Iterable[TopicPartition]) -> list[GroupRecord]:
    return [GroupRecord(_key(group_id, key), None) for key in keys]


def _value_in(record: GroupRecord) -> OffsetCommitValue | None:
    assert record.value is None or isinstance(record.value, OffsetCommitValue)
    return record.value


def _value(
    partition: Commit,
    wall_ms: int,
    commit_timestamp: int = NOT_SET,
    retention_time_ms: int = NOT_SET,
) -> OffsetCommitValue:
    expire_timestamp = NOT_SET
    if retention_time_ms != NOT_SET:
        # In Kafka the sum overflows if a client asks for unlimited retention: they expire at once.
        expire_timestamp = min(wall_ms + retention_time_ms, INT64_MAX)
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=wall_ms if commit_timestamp == NOT_SET else commit_timestamp,
        expire_timestamp=expire_timestamp,
    )
