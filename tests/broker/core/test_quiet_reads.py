"""A follower's partitions without news are passed over quickly, and never when there is news."""

from pathlib import Path

import pytest

from odradek.broker.core.fetch_reads import Read, is_quiet, read_as_follower
from odradek.broker.core.fetch_session import PartitionFetch
from odradek.broker.core.fetch_session_slots import FetchSession
from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.partition import Partition
from odradek.protocol.errors import ErrorCode
from tests.support.collecting import count_alive, nothing_collected

from .test_partition import append, partition_of

LAG_MS = 100
FOLLOWER = 2


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    made = partition_of(tmp_path, isr=(1, 2), replicas=(1, 2, 3))
    append(made, b"a")
    return made


def fetch_at(partition: Partition, offset: int) -> PartitionFetch:
    """As a session keeps it, all told."""
    fetch = PartitionFetch(("t", 0), offset, 1 << 20)
    tell(partition, fetch)
    return fetch


def tell(partition: Partition, fetch: PartitionFetch) -> None:
    fetch.told_high_watermark = partition.log.high_watermark
    fetch.told_log_start_offset = partition.log.log_start_offset


def read(
    partition: Partition,
    fetch: PartitionFetch,
    now_ms: int = 0,
    replica: int = FOLLOWER,
    *,
    is_news: bool = True,
) -> Read:
    by = FetchingReplica(replica, is_alive=True, now_ms=now_ms, lag_max_ms=LAG_MS)
    return read_as_follower(
        fetch, lambda _: partition, 1 << 20, by, at_least_one=True, is_news=is_news
    )


def settled(partition: Partition) -> PartitionFetch:
    """A fetch at the end, of which the follower has and knows all."""
    fetch = fetch_at(partition, partition.log.log_end_offset)
    assert not is_quiet(read(partition, fetch))
    tell(partition, fetch)
    assert is_quiet(read(partition, fetch))
    return fetch


def test_what_was_appended_is_read(partition: Partition) -> None:
    fetch = settled(partition)
    append(partition, b"b")
    found = read(partition, fetch)
    assert found.span is not None
    found.span.release()
    assert not is_quiet(found)


def test_another_high_watermark_or_log_start_is_told(partition: Partition) -> None:
    fetch = settled(partition)
    fetch.told_high_watermark -= 1
    assert not is_quiet(read(partition, fetch))
    tell(partition, fetch)
    assert is_quiet(read(partition, fetch))
    partition.log.advance_log_start(1)
    assert not is_quiet(read(partition, fetch))


def test_it_proves_that_the_follower_lives(partition: Partition) -> None:
    fetch = settled(partition)
    read(partition, fetch, 7 * LAG_MS)
    append(partition, b"b")
    assert not partition.shrink_isr(8 * LAG_MS, LAG_MS)
    assert partition.shrink_isr(8 * LAG_MS + 1, LAG_MS)


def test_reading_again_proves_nothing(partition: Partition) -> None:
    fetch = settled(partition)
    read(partition, fetch, 7 * LAG_MS, is_news=False)
    append(partition, b"b")
    assert partition.shrink_isr(8 * LAG_MS, LAG_MS)


def test_another_role_is_an_error(partition: Partition) -> None:
    fetch = settled(partition)
    partition.become(partition.state._replace(leader=3, leader_epoch=6, isr=(3,)), 0)
    assert read(partition, fetch).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_is_not_in_sync_is_looked_at(partition: Partition) -> None:
    fetch = fetch_at(partition, partition.log.log_end_offset)
    partition.become(partition.state._replace(isr=(1,), partition_epoch=1), 0)
    by = FetchingReplica(FOLLOWER, is_alive=True, now_ms=0, lag_max_ms=LAG_MS)
    fetch.settled_in = partition.state
    read_as_follower(fetch, lambda _: partition, 1 << 20, by, at_least_one=True, is_news=True)
    assert by.proposed == [partition]


def test_a_stranger_with_another_ones_session_is_refused(partition: Partition) -> None:
    partition.become(partition.state._replace(isr=(1, 2, 9), partition_epoch=1), 0)
    fetch = settled(partition)
    assert read(partition, fetch, replica=9).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.slow
def test_what_a_session_lets_go_of_does_not_wait_for_the_collector(partition: Partition) -> None:
    """With it stay the partition and its log, of a topic that may have been deleted."""

    def session() -> FetchSession:
        return FetchSession(
            1, [settled(partition)], uses_topic_ids=False, is_follower=True, epoch=1, now_ms=0
        )

    with nothing_collected():
        none = count_alive(PartitionFetch)
        told = session()
        told.update([fetch_at(partition, 1)], [])
        assert count_alive(PartitionFetch) == none + 1
        told.update([], [("t", 0)])
        assert count_alive(PartitionFetch) == none
        told = session()
        told.update([], [("t", 0)])
        assert count_alive(PartitionFetch) == none
        told = session()
        told.end()
        del told
        assert count_alive(PartitionFetch) == none
