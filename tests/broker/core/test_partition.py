"""A partition as its leader sees it, on a log in a directory."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker.config import load_config
from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import NO_LEADER, PartitionState
from odradek.protocol.errors import BadChecksum, ErrorCode, Refused
from odradek.protocol.records import (
    Marker,
    MarkerType,
    Record,
    build_batch,
    iter_records,
    read_header,
    read_marker,
)
from odradek.storage.errors import ProducerError
from odradek.storage.log.producer_state import ProducerState
from tests.storage.support import new_log, read_bytes
from tests.support.messages import batch_of

STATE = PartitionState(
    topic="t",
    topic_id=bytes(range(16)),
    partition=0,
    leader=1,
    leader_epoch=5,
    isr=(1,),
    replicas=(1,),
    partition_epoch=0,
    controller_epoch=1,
)


def partition_of(path: Path, node_id: int = 1, **state: Any) -> Partition:
    config = load_config(overrides={}).topic_config({})
    state_of = STATE._replace(**state)
    return Partition(new_log(path), config, state_of, node_id, begin_flush=lambda _: None, now_ms=0)


def append(partition: Partition, *values: bytes) -> int:
    batch = memoryview(batch_of(*values))
    return partition.append(batch, read_header(batch), wall_ms=0)


def code(partition: Partition, epoch: int = -1) -> ErrorCode:
    try:
        partition.check_leader(epoch)
    except Refused as refused:
        return refused.code
    return ErrorCode.NONE


def test_a_leader_alone_commits_what_it_writes(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    assert partition.is_leader
    assert append(partition, b"a", b"b") == 0
    assert append(partition, b"c") == 2
    assert partition.log.high_watermark == 3
    assert partition.log.end_offset_for_epoch(5) == (5, 3)


def test_a_leader_with_followers_waits_for_them(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, isr=(1, 2), replicas=(1, 2))
    append(partition, b"a")
    assert partition.log.high_watermark == 0
    partition.become(partition.state._replace(isr=(1,), partition_epoch=1), 0)
    assert partition.log.high_watermark == 1


def test_a_leader_waits_for_who_leaves(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, replicas=(1,), isr=(1, 2))
    append(partition, b"a")
    assert partition.log.high_watermark == 0, "2 may be elected yet"
    assert partition.shrink_isr(0, 10_000)
    proposal = partition.proposal
    assert proposal is not None
    assert proposal.isr == (1,)
    partition.isr_altered(proposal, (1,), 5, partition.state.partition_epoch + 1)
    assert partition.log.high_watermark == 1


def test_a_leader_has_recovered_once_its_isr_changes(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, replicas=(1,), isr=(1, 2), is_recovering=True)
    append(partition, b"a")
    assert partition.shrink_isr(0, 10_000)
    proposal = partition.proposal
    assert proposal is not None
    partition.isr_altered(proposal, (1,), 5, 1)
    assert not partition.state.is_recovering


def test_a_follower_is_told_once_what_is_committed(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, isr=(1, 2), replicas=(1, 2))
    append(partition, b"a")
    by = FetchingReplica(2, is_alive=True, now_ms=0, lag_max_ms=10_000)
    partition.follower_fetched(by, 1, 0)
    assert partition.must_tell(2)
    partition.told(2, 1)
    assert not partition.must_tell(2)


def test_who_may_be_served(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    assert [code(partition, epoch) for epoch in (-1, 5, 4, 6, -2)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
    ]
    partition.become(STATE._replace(leader=2, leader_epoch=6), 0)
    assert code(partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(partition, 5) == ErrorCode.FENCED_LEADER_EPOCH, "the epoch is looked at first"
    assert code(partition, 6) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.become(STATE._replace(leader=NO_LEADER, leader_epoch=7), 0)
    assert code(partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_older_decision_is_ignored(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    partition.become(STATE._replace(leader=2, leader_epoch=4), 0)
    assert partition.is_leader
    assert partition.state.leader_epoch == 5


@pytest.mark.parametrize(("leader_epoch", "known"), [(6, 1), (7, 0)])
def test_followers_have_what_they_had_if_nobody_else_led(
    tmp_path: Path, leader_epoch: int, known: int
) -> None:
    """Of epoch 6 a leader may not hear: a follower may have cut its log for the leader of then."""
    partition = partition_of(tmp_path, isr=(1, 2, 3), replicas=(1, 2, 3))
    append(partition, b"a")
    by = FetchingReplica(2, is_alive=True, now_ms=0, lag_max_ms=10_000)
    partition.follower_fetched(by, 1, 0)
    assert partition.log.high_watermark == 0, "3 has not fetched"
    partition.become(partition.state._replace(leader_epoch=leader_epoch, isr=(1, 2)), 0)
    assert partition.log.high_watermark == known
    partition.follower_fetched(by, 1, 0)
    assert partition.log.high_watermark == 1


@pytest.mark.parametrize("what", ["append", "become"])
def test_who_waits_is_woken(tmp_path: Path, what: str) -> None:
    partition = partition_of(tmp_path)
    woken = []

    def waiter() -> None:
        partition.waiters.discard(waiter)
        woken.append(partition.log.high_watermark)

    partition.waiters.add(waiter)
    if what == "append":
        append(partition, b"a")
        assert woken == [1]
    else:
        partition.become(STATE._replace(leader=2, leader_epoch=6), 0)
        assert woken == [0]
    append(partition, b"b")
    assert len(woken) == 1


def flush(partition: Partition) -> None:
    plan = partition.log.flush_plan()
    assert plan is not None
    plan.run()
    partition.log.flushed(plan)
    partition.flushed(1)


def due_after(path: Path, flush_messages: int) -> tuple[Partition, list[int]]:
    """A partition, and up to where a flush was begun each time."""
    begun: list[int] = []
    config = load_config(overrides={}).topic_config({"flush.messages": str(flush_messages)})
    partition = Partition(
        new_log(path), config, STATE, 1, begin_flush=lambda p: begun.append(p.flush_due), now_ms=0
    )
    return partition, begun


def test_what_came_before_a_bad_batch_is_due(tmp_path: Path) -> None:
    """It is kept, and the next fetch tells the leader so."""
    partition, begun = due_after(tmp_path, 1)
    bad = bytearray(batch_of(b"b"))
    bad[7], bad[-1] = 1, bad[-1] ^ 1  # its base offset, and what its checksum is not of
    with pytest.raises(BadChecksum):
        partition.append_fetched(memoryview(bytes(batch_of(b"a")) + bad), wall_ms=0)
    assert partition.log.log_end_offset == 1
    assert partition.awaits_flush
    assert begun == [1]


def test_so_many_records_are_due_and_the_high_watermark_waits(tmp_path: Path) -> None:
    partition, begun = due_after(tmp_path, 3)
    news: list[int] = []
    partition.waiters.add(lambda: news.append(partition.log.high_watermark))
    for _ in range(8):
        append(partition, b"v")
    assert begun == [3, 6]  # those for which a flush is under way do not count
    assert partition.log.high_watermark == 2
    flush(partition)
    assert not partition.awaits_flush
    assert partition.log.high_watermark == partition.log.recovery_point == 8
    assert news == [1, 2, 8]
    append(partition, b"v")
    assert begun == [3, 6]


def test_a_flush_that_covers_some_of_what_is_due(tmp_path: Path) -> None:
    partition, _ = due_after(tmp_path, 1)
    append(partition, b"a")
    plan = partition.log.flush_plan()
    assert plan is not None
    append(partition, b"b")
    plan.run()
    partition.log.flushed(plan)
    partition.flushed(1)
    assert partition.awaits_flush
    assert partition.log.high_watermark == 1


def test_what_is_due_in_a_log_is_due_in_its_copy(tmp_path: Path) -> None:
    partition, _ = due_after(tmp_path, 1)
    append(partition, b"a")
    copy = new_log(tmp_path / "copy")
    copy.append(memoryview(batch_of(b"a")), read_header(batch_of(b"a")), leader_epoch=5, wall_ms=0)
    copy.generation += 7
    partition.go_on_in(copy)
    assert partition.awaits_flush
    flush(partition)
    assert not partition.awaits_flush
    assert copy.high_watermark == 1


@pytest.mark.parametrize("is_cut_first", [True, False])
def test_what_was_due_before_a_cut_and_a_move_is_not_so_any_more(
    tmp_path: Path, is_cut_first: bool
) -> None:
    """The copy may never come so far, and who waits for it would wait for ever."""
    partition, _ = due_after(tmp_path, 2)
    append(partition, b"a", b"b", b"c")
    copy = new_log(tmp_path / "copy")
    if is_cut_first:
        partition.log.truncate(0)
        partition.go_on_in(copy)
    else:
        partition.go_on_in(copy)
        copy._ends_at(0, [])
    assert not partition.awaits_flush
    append(partition, b"d")
    assert partition.log.high_watermark == 1


def test_what_was_due_before_a_cut_is_not_so_any_more(tmp_path: Path) -> None:
    partition, begun = due_after(tmp_path, 2)
    append(partition, b"a", b"b", b"c")
    partition.log.truncate(0)
    assert not partition.awaits_flush
    append(partition, b"d")
    assert partition.log.high_watermark == 1
    append(partition, b"e")
    assert begun == [3, 2]


def test_who_waits_no_longer_is_not_woken(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    woken: list[str] = []

    def wait(name: str) -> None:
        def waiter() -> None:
            partition.waiters.discard(waiter)
            woken.append(name)
            if len(woken) == 1:
                append(partition, b"this wakes the other one")

        partition.waiters.add(waiter)

    wait("a")
    wait("b")
    partition.wake()
    assert sorted(woken) == ["a", "b"]


def test_a_follower_deletes_nothing_above_its_high_watermark(tmp_path: Path) -> None:
    """Whatever log start its leader has, it may lack the records before that."""
    partition = partition_of(tmp_path, leader=2, isr=(1, 2), replicas=(1, 2))
    fetched = build_batch([Record(0, 0, None, b"a"), Record(1, 0, None, b"b")])
    partition.append_fetched(memoryview(fetched), wall_ms=0)
    partition.take_offsets(1, 2)
    assert (partition.log.high_watermark, partition.log.log_start_offset) == (1, 1)
    partition.take_offsets(2, 2)
    assert (partition.log.high_watermark, partition.log.log_start_offset) == (2, 2)


def transactional(base_sequence: int, producer_epoch: int = 3) -> memoryview:
    return memoryview(
        build_batch(
            [Record(0, 0, None, b"v")],
            producer_id=7,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=True,
        )
    )


def end_transaction(
    partition: Partition, producer_epoch: int = 3, coordinator_epoch: int = 9
) -> int:
    marker = Marker(MarkerType.COMMIT, coordinator_epoch)
    return partition.append_marker(
        marker, producer_id=7, producer_epoch=producer_epoch, wall_ms=1000
    )


def test_a_leader_appends_markers(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, isr=(1, 2), replicas=(1, 2))
    log = partition.log
    batch = transactional(0)
    partition.append(batch, read_header(batch), wall_ms=0)
    assert end_transaction(partition) == 2
    by = FetchingReplica(2, is_alive=True, now_ms=0, lag_max_ms=10_000)
    stable = []
    for offset in (1, 2):
        partition.follower_fetched(by, offset, 0)
        stable.append(log.last_stable_offset)
    assert stable == [0, 2]
    assert end_transaction(partition, producer_epoch=4) == 3, "also without a transaction"
    entry = log.producers.entry(7)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (4, 9, 1000)
    (record,) = iter_records(read_bytes(log, 1)[:78], size_bytes_max=100)
    assert read_marker(record) == (MarkerType.COMMIT, 9)


def test_a_marker_that_must_not_be_appended(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, isr=(1, 2), replicas=(1, 2))
    end_transaction(partition)
    for epochs, code in (
        ((2, 9), ErrorCode.INVALID_PRODUCER_EPOCH),
        ((3, 8), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(ProducerError) as error:
            end_transaction(partition, *epochs)
        assert error.value.code == code
    partition.config.min_insync_replicas = 2
    partition.become(partition.state._replace(isr=(1,), partition_epoch=1), 0)
    with pytest.raises(Refused) as refused:
        end_transaction(partition)
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    partition.become(STATE._replace(leader=2, leader_epoch=6, partition_epoch=2), 0)
    with pytest.raises(Refused) as refused:
        end_transaction(partition)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_end_offset == 1


def test_a_follower_takes_what_its_leader_took(tmp_path: Path) -> None:
    """Also what it would refuse: its own producer state may know less, or more."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    leader = partition_of(tmp_path / "1", isr=(1, 2), replicas=(1, 2))
    follower = partition_of(tmp_path / "2", node_id=2, isr=(1, 2), replicas=(1, 2))
    for base_sequence, producer_epoch in ((0, 3), (7, 3), (0, 1)):
        batch = transactional(base_sequence, producer_epoch)
        leader.append(batch, read_header(batch), wall_ms=0)
    end_transaction(leader, coordinator_epoch=9)
    leader.log.producers = ProducerState()
    end_transaction(leader, producer_epoch=1, coordinator_epoch=2)
    data = read_bytes(leader.log, 0)
    assert follower.append_fetched(memoryview(data), wall_ms=0).offset_end == 5
    assert read_bytes(follower.log, 0) == data
