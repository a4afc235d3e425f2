"""What a follower has cut off its log is gone for good before anything relies on it."""

import asyncio
import threading
from typing import Any
from unittest import mock

import pytest

from odradek.broker.core.log_uses import Use
from odradek.storage.errors import DiskFull
from odradek.storage.log.following import Appended
from odradek.storage.log.load_report import LoadReport
from odradek.storage.log.log import Log
from tests.broker.faulty_files import FULL
from tests.support.awaiting import until

from .cluster import KEY, Cluster, on_cluster, produce, state_of


@on_cluster()
async def test_a_cut_is_safe_before_anything_follows_it(cluster: Cluster) -> None:
    """Or, when the power goes, what was cut might be there before what came after it."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    await cluster[2].take(state_of(2, 1, [2], [1, 2]))
    await produce(cluster, 1, b"lost")
    await produce(cluster, 2, b"b")
    safe = []

    def note(log: Log, *args: Any, **options: Any) -> Appended:
        safe.append(log.recovery_point)
        return append(log, *args, **options)

    append = Log.append_as_follower
    with mock.patch.object(Log, "append_as_follower", note):
        await cluster[1].take(state_of(2, 1, [2], [1, 2]))
        await cluster.until_equal()
    assert safe == [1]


@pytest.mark.slow
@on_cluster()
async def test_a_cut_is_safe_before_its_log_leads(cluster: Cluster) -> None:
    """The leader that it was cut for may go before that is so."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    await cluster[2].take(state_of(2, 1, [2], [1, 2]))
    await produce(cluster, 1, b"lost")
    go_on = threading.Event()
    replica = cluster[1]

    def hold(operation: str) -> None:
        assert operation != "sync" or go_on.wait(20)

    replica.files.before = hold
    await replica.take(state_of(2, 1, [2], [1, 2]))
    log = replica.partition().log
    await until(lambda: log.log_end_offset == 1)
    asyncio.get_running_loop().call_later(0.1, go_on.set)
    await replica.take(state_of(1, 2, [1], [1, 2]))
    assert (replica.partition().is_leader, log.recovery_point) == (True, 1)
    assert not replica.replicas.uses.having(Use.CUT)


@on_cluster()
async def test_a_cut_that_a_full_disk_leaves_unsafe(cluster: Cluster) -> None:
    """Another is to lead; as soon as there is room this one may."""
    await cluster.take(state_of(2, 0, [2], [1, 2]))
    replica = cluster[1]
    replicas, log = replica.replicas, replica.partition().log
    replicas.uses.begin(log, Use.CUT)
    full = mock.AsyncMock(side_effect=DiskFull("no space", log.directory))
    with (
        mock.patch.object(replicas, "checkpoint", full),
        pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"),
    ):
        await replica.take(state_of(1, 1, [1], [1, 2]))
    assert not replica.partition().is_leader
    assert not replicas.is_offline
    await replica.take(state_of(1, 2, [1], [1, 2]))
    assert replica.partition().is_leader


async def with_a_gap(cluster: Cluster) -> Log:
    """That of replica 1, as if it had just been loaded and found to have a gap at offset 1."""
    replica = cluster[1]
    await replica.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", b"b")
    log = replica.partition().log
    log.loaded = LoadReport(gap_offset=1)
    replica.replicas.stop_serving([KEY])
    return log


@on_cluster()
async def test_a_cut_at_a_gap_is_safe_before_its_log_leads(cluster: Cluster) -> None:
    replica = cluster[1]
    log = await with_a_gap(cluster)
    await replica.take(state_of(1, 1, [1, 2], [1, 2]))
    assert (log.log_end_offset, log.recovery_point) == (1, 1)
    assert replica.partition().is_leader
    assert not replica.replicas.uses.having(Use.CUT)


@on_cluster()
async def test_a_cut_at_a_gap_that_a_full_disk_leaves_unsafe(cluster: Cluster) -> None:
    """Not all that the controller has said in the same breath fails for it."""
    replica = cluster[1]
    log = await with_a_gap(cluster)
    replica.files.where, replica.files.faults = log.directory.rpartition("/")[0], {"write": FULL}
    with pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"):
        await replica.take(state_of(1, 1, [1, 2], [1, 2]))
    assert not replica.partition().is_leader
    replica.files.faults = {}
    await replica.take(state_of(1, 2, [1, 2], [1, 2]))
    assert replica.partition().is_leader
    assert replica.partition().log is log
    assert log.log_end_offset == 1


@on_cluster()
async def test_a_log_that_is_cut_again_is_not_safe_yet(cluster: Cluster) -> None:
    """What made it safe before may end only now."""
    await cluster.take(state_of(1, 0, [1], [1, 2]))
    await produce(cluster, 1, b"a")
    replicas, log = cluster[1].replicas, cluster[1].partition().log
    replicas.uses.begin(log, Use.CUT)

    async def cut_again(_: object) -> None:
        log.truncate(0)

    with mock.patch.object(replicas, "checkpoint", cut_again):
        await replicas.make_cuts_safe([cluster[1].partition()])
    assert replicas.uses.having(Use.CUT) == [log]
    await replicas.make_cuts_safe([cluster[1].partition()])
    assert not replicas.uses.having(Use.CUT)


@on_cluster()
async def test_a_cut_log_that_is_deleted_is_forgotten(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1], [1, 2]))
    replicas = cluster[1].replicas
    replicas.uses.begin(cluster[1].partition().log, Use.CUT)
    replicas.stop_serving([KEY])
    await replicas.logs.delete(KEY)
    assert not replicas.uses.having(Use.CUT)
