"""At any time, what is committed is what the log says below the high watermark."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.core.effects import Answer, AppendRecords, Effect
from odradek.broker.core.groups.offsets import Offsets, OffsetWrite
from odradek.broker.core.groups.settings import OffsetSettings
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord, encode_record
from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

RETENTION_MS = 10
GROUPS = ("g", "h")
TOPICS = ("t", "u")
PARTITIONS = 2

groups = st.sampled_from(GROUPS)
topics = st.sampled_from(TOPICS)
producers = st.integers(1, 2)
some = st.lists(st.tuples(topics, st.integers(0, PARTITIONS)), max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), groups, some, st.sampled_from((-1, -1, 5))),
        st.tuples(st.just("commit_in"), producers, groups, some),
        st.tuples(st.just("end"), producers, st.booleans()),
        st.tuples(st.just("delete"), groups, some, topics),
        st.tuples(st.just("delete_all"), groups),
        st.tuples(st.just("forget_topic"), topics),
        st.tuples(st.just("expire"), groups, st.booleans()),
        st.tuples(st.just("commits pass"), st.integers(1, 3)),
        st.tuples(st.just("commits pass"), st.integers(1, 3)),
        st.tuples(st.just("refuse next")),
        st.tuples(st.just("time passes"), st.integers(1, 8)),
        st.tuples(st.just("lose")),
    ),
    max_size=50,
)


def exists(topic: str, partition: int) -> bool:
    return partition < PARTITIONS


class Batch(NamedTuple):
    """What the log has: records, or the end of a transaction."""

    records: Sequence[GroupRecord]
    producer_id: int | None = None
    is_committed: bool | None = None
    then: Callable[[ErrorCode], Any] = lambda code: ()


class World:
    """A log with a high watermark, and the machine in front of it."""

    def __init__(self) -> None:
        self.offsets = self.new()
        self.log: list[Batch] = []
        self.waiting: deque[Batch] = deque()
        self.asked = self.answered = 0
        self.refuse_next = False
        self.wall_ms = 1000
        self.next_offset = 0

    def new(self) -> Offsets:
        return Offsets(lambda: OffsetSettings(retention_ms=RETENTION_MS))

    # What happens.

    def commit(self, group: str, some: list[tuple[str, int]], retention_ms: int) -> None:
        self.next_offset += 1
        request = OffsetCommitRequest(retention_time_ms=retention_ms)
        for topic, partition in some:
            item = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=self.next_offset
            )
            request.topics.append(OffsetCommitRequestTopic(name=topic, partitions=[item]))
        self.asked += 1
        self.run(self.offsets.commit(group, request, 1, exists=exists, wall_ms=self.wall_ms))

    def commit_in(self, producer_id: int, group: str, some: list[tuple[str, int]]) -> None:
        self.next_offset += 1
        request = TxnOffsetCommitRequest(producer_id=producer_id, producer_epoch=0)
        for topic, partition in some:
            item = TxnOffsetCommitRequestPartition(
                partition_index=partition, committed_offset=self.next_offset
            )
            request.topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=[item]))
        self.asked += 1
        effects = self.offsets.commit_in_transaction(
            group, request, 1, exists=exists, wall_ms=self.wall_ms
        )
        self.run(effects)

    def end(self, producer_id: int, is_committed: bool) -> None:
        """A marker; until it is committed, its producer begins nothing."""
        self.waiting.append(Batch([], producer_id, is_committed))
        self.pass_commits(len(self.waiting))

    def delete(self, group: str, some: list[tuple[str, int]], subscribed: str) -> None:
        request = OffsetDeleteRequest()
        for topic, partition in some:
            item = OffsetDeleteRequestPartition(partition_index=partition)
            request.topics.append(OffsetDeleteRequestTopic(name=topic, partitions=[item]))
        self.asked += 1
        effects = self.offsets.delete(
            group, request, 1, exists=exists, is_subscribed=lambda topic: topic == subscribed
        )
        self.run(effects)

    def delete_all(self, group: str) -> None:
        for write in self.offsets.delete_all(group):
            self.write(write)

    def forget_topic(self, topic: str) -> None:
        for write in self.offsets.forget_topic(topic):
            self.write(write)

    def expire(self, group: str, held: bool) -> None:
        writes = self.offsets.expired(
            group,
            since_ms=lambda commit_ms: None if held else commit_ms,
            is_subscribed=lambda topic: False,
            wall_ms=self.wall_ms,
        )
        for record in (record for write in writes for record in write.records):
            assert not held
            kept: Any = self.committed[place(record)].value
            expire_ms = kept.expire_timestamp
            end_ms = expire_ms if expire_ms != -1 else kept.commit_timestamp + RETENTION_MS
            assert self.wall_ms >= end_ms
        for write in writes:
            self.write(write)

    def write(self, write: OffsetWrite) -> None:
        def then(code: ErrorCode) -> list[Effect]:
            write.settled(code)
            return []

        if write.records:
            self.run([AppendRecords(write.records, then, write.appended)])

    def run(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self.answered += 1
                continue
            assert isinstance(effect, AppendRecords)
            if self.refuse_next:
                self.refuse_next = False
                self.run(effect.then(ErrorCode.NOT_ENOUGH_REPLICAS))
            else:
                for record in effect.records:
                    encode_record(record)
                assert effect.appended is not None
                effect.appended()
                producer_id = effect.producer.producer_id if effect.producer else None
                self.waiting.append(Batch(effect.records, producer_id, then=effect.then))

    def pass_commits(self, count: int) -> None:
        for _ in range(min(count, len(self.waiting))):
            batch = self.waiting.popleft()
            self.log.append(batch)
            self.run(batch.then(ErrorCode.NONE))
            if batch.producer_id is not None and batch.is_committed is not None:
                self.offsets.end_transaction(batch.producer_id, is_committed=batch.is_committed)

    def lose(self) -> None:
        """Leadership is lost, and what was not committed; then this broker leads again."""
        while self.waiting:
            self.run(self.waiting.popleft().then(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self.offsets = self.new()
        for batch in self.log:
            for record in batch.records:
                if batch.producer_id is None:
                    self.offsets.apply(record)
                else:
                    self.offsets.apply_in_transaction(record, batch.producer_id)
            if batch.producer_id is not None and batch.is_committed is not None:
                self.offsets.end_transaction(batch.producer_id, is_committed=batch.is_committed)

    # What must hold.

    @property
    def committed(self) -> dict[tuple[str, str, int], GroupRecord]:
        """The last record of each place that is not of an open or aborted transaction."""
        counting: list[tuple[int, GroupRecord]] = []
        undecided: dict[int, list[tuple[int, GroupRecord]]] = {}
        for number, batch in enumerate(self.log):
            records = [(number, record) for record in batch.records]
            if batch.producer_id is None:
                counting += records
            elif batch.is_committed is None:
                undecided.setdefault(batch.producer_id, []).extend(records)
            else:
                ended = undecided.pop(batch.producer_id, [])
                counting += ended if batch.is_committed else []
        counting.sort(key=lambda each: each[0])
        return {place(record): record for _, record in counting}

    @property
    def undecided(self) -> set[tuple[str, str, int]]:
        """What open transactions have written, also above the high watermark, if not deleted."""
        found: dict[int, dict[tuple[str, str, int], int]] = {}
        for number, batch in enumerate([*self.log, *self.waiting]):
            if batch.producer_id is None:
                for record in batch.records:
                    if record.value is None and number < len(self.log):
                        for places in found.values():
                            places.pop(place(record), None)
            elif batch.is_committed is None:
                places = found.setdefault(batch.producer_id, {})
                places.update((place(record), number) for record in batch.records)
            else:
                found.pop(batch.producer_id, None)
        return {each for places in found.values() for each in places}

    def check(self) -> None:
        found, stable = self.fetched(require_stable=False), self.fetched(require_stable=True)
        live = {key: r.value for key, r in self.committed.items() if r.value is not None}
        assert found == {key: (value.offset, 0) for key, value in live.items()}  # type: ignore[attr-defined]
        moving = {place(record) for batch in self.waiting for record in batch.records}
        moving |= self.undecided
        unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert stable == {key: unstable if key in moving else found[key] for key in found}
        expected = {key[0] for key in (*live, *moving)}
        assert set(self.offsets.groups()) == expected
        assert all(self.offsets.has(group) == (group in expected) for group in GROUPS)

    def fetched(self, *, require_stable: bool) -> dict[tuple[str, str, int], tuple[int, int]]:
        return {
            (group, topic.name, p.partition_index): (p.committed_offset, p.error_code)
            for group in GROUPS
            for topic in self.offsets.fetch(group, None, require_stable=require_stable)
            for p in topic.partitions
        }


def place(record: GroupRecord) -> tuple[str, str, int]:
    key: Any = record.key
    return key.group, key.topic, key.partition


@pytest.mark.slow
@settings(max_examples=100)
@given(steps)
def test_what_is_committed_is_what_the_log_says(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    for what, *more in steps:
        if what == "commits pass":
            world.pass_commits(*more)
        elif what == "refuse next":
            world.refuse_next = True
        elif what == "time passes":
            world.wall_ms += more[0]
        else:
            getattr(world, what)(*more)
        world.check()
    world.pass_commits(len(world.waiting))
    world.check()
    assert world.answered == world.asked
