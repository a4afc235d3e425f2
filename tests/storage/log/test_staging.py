"""Batches that a thread writes before they are appended; whoever comes in between has the file."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from odradek.protocol.errors import BadChecksum
from odradek.storage.log import staging
from odradek.storage.log.following import STAGED_BATCHES_MAX, STAGED_BYTES_MIN
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.staging import Staged
from odradek.storage.recovery.load import LoadHints
from tests.broker.batches import altered
from tests.support.messages import batch_of

from ..support import append_values, contents, new_log, reload, slow_staged

EPOCH = 3
SIZE_BYTES = STAGED_BYTES_MIN // 3
BIG = LogConfig(segment_bytes=4 * STAGED_BYTES_MIN)


def fetched(first: int, count: int, *, epoch: int = EPOCH, size_bytes: int = SIZE_BYTES) -> bytes:
    """Batches of one record each."""
    return b"".join(
        altered(
            batch_of(b"%d" % offset * size_bytes),
            base_offset=offset,
            partition_leader_epoch=epoch,
        )
        for offset in range(first, first + count)
    )


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """It has a batch of the epoch, as a log has that is being followed."""
    log = new_log(tmp_path, BIG)
    log.append_as_follower(memoryview(fetched(0, 1, size_bytes=1)), wall_ms=0)
    return log


def staged_in(log: Log, batches: bytes) -> Staged:
    staged = log.stage(memoryview(batches))
    assert staged is not None
    return staged


def physical(log: Log) -> bytes:
    return Path(log.segments.active.file.path).read_bytes()


def is_cut(log: Log) -> bool:
    return len(physical(log)) == log.segments.active.size_bytes


def test_what_was_written_is_not_written_again(log: Log) -> None:
    batches, before = fetched(1, 4), physical(log)
    staged = staged_in(log, batches)
    staged.run()
    assert (physical(log), log.log_end_offset) == (before + batches, 1)
    with mock.patch.object(os, "pwrite", side_effect=AssertionError):
        assert log.append_staged(staged, wall_ms=0) == (1, 5, len(batches))
    staged.close()
    assert physical(log) == before + batches
    assert [offset for offset, _ in contents(log)] == [0, 1, 2, 3, 4]
    append_values(log, b"next")
    assert is_cut(log)


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(fetched(1, 2), id="few bytes"),
        pytest.param(fetched(1, 2 * STAGED_BATCHES_MAX, size_bytes=100), id="small batches"),
        pytest.param(fetched(2, 4), id="a gap"),
        pytest.param(fetched(0, 4), id="what is there"),
        pytest.param(fetched(1, 4, epoch=EPOCH + 1), id="another epoch"),
        pytest.param(fetched(1, 1) + fetched(2, 4, epoch=EPOCH + 1), id="another epoch after one"),
        pytest.param(bytes(STAGED_BYTES_MIN), id="no batches"),
        pytest.param(fetched(1, 1, size_bytes=4 * STAGED_BYTES_MIN), id="more than a segment"),
    ],
)
def test_what_is_not_for_a_thread(log: Log, batches: bytes) -> None:
    assert log.stage(memoryview(batches)) is None


def test_without_a_descriptor_to_spare(log: Log) -> None:
    """The append needs none, as the file is open."""
    batches = memoryview(fetched(1, 4))
    with mock.patch.object(os, "dup", side_effect=OSError(errno.EMFILE, "too many")):
        assert log.stage(batches) is None
        log.append_as_follower(batches, wall_ms=0)
    assert log.log_end_offset == 5


def test_the_rest_is_for_the_usual_append(log: Log) -> None:
    """What goes on as usual is written ahead, up to what does not."""
    batches = fetched(1, 4) + fetched(5, 1, epoch=EPOCH + 1)
    staged = staged_in(log, batches + batches[:50])
    staged.run()
    taken = log.append_staged(staged, wall_ms=0)
    staged.close()
    assert taken.offset_end == 5
    log.append_as_follower(memoryview(batches)[taken.size_bytes :], wall_ms=0)
    assert log.epochs.entries() == [(EPOCH, 0), (EPOCH + 1, 5)]


def test_of_an_epoch_that_was_asked_for(log: Log) -> None:
    assert log.stage(memoryview(fetched(1, 4)), epoch_max=EPOCH - 1) is None


def test_nobody_wrote(log: Log) -> None:
    """The thread had no turn: the append writes."""
    batches, before = fetched(1, 4), physical(log)
    staged = staged_in(log, batches)
    log.append_staged(staged, wall_ms=0)
    staged.run()
    staged.close()
    assert physical(log) == before + batches


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_is_for_the_append_to_tell(log: Log, error: int) -> None:
    batches, before = fetched(1, 4), physical(log)
    staged = staged_in(log, batches)
    true_pwrite, calls = os.pwrite, []

    def pwrite(descriptor: int, data: Any, position: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise OSError(error, os.strerror(error))
        return true_pwrite(descriptor, data[:100], position)

    with mock.patch.object(os, "pwrite", pwrite):
        staged.run()
    assert (len(calls), len(physical(log))) == (2, len(before) + 100)
    log.append_staged(staged, wall_ms=0)
    assert physical(log) == before + batches


def test_a_batch_with_a_wrong_checksum(log: Log) -> None:
    batches = bytearray(fetched(1, 4))
    batches[-1] ^= 1
    staged = staged_in(log, bytes(batches))
    staged.run()
    with pytest.raises(BadChecksum):
        log.append_staged(staged, wall_ms=0)
    staged.close()
    assert log.log_end_offset == 4
    assert is_cut(log)


INTRUDERS: list[Callable[[Log], object]] = [
    lambda log: append_values(log, b"of a leader", leader_epoch=EPOCH + 1),
    lambda log: log.append_as_follower(memoryview(fetched(1, 1, size_bytes=9)), wall_ms=0),
    lambda log: log.truncate(0),
    lambda log: log.restart_at(7),
    lambda log: log.roll(log.log_end_offset, 0),
    lambda log: log.close(),
    lambda log: log.abandon(),
]


@pytest.mark.parametrize("intrude", INTRUDERS)
@pytest.mark.parametrize("runs", ["before", "after", "never"])
def test_somebody_else_comes_in_between(
    log: Log, intrude: Callable[[Log], object], runs: str
) -> None:
    """He finds the log as if nothing had been staged, and so does the next start."""
    staged = staged_in(log, fetched(1, 4))
    if runs == "before":
        staged.run()
    intrude(log)
    if runs == "after":
        with mock.patch.object(os, "pwrite", side_effect=AssertionError):
            staged.run()
    for segment in log.segments:
        assert Path(segment.file.path).stat().st_size == segment.size_bytes
    state = physical(log), log.log_end_offset
    staged.close()
    assert (physical(log), log.log_end_offset) == state
    assert reload(log).log_end_offset == log.log_end_offset


def test_the_append_that_comes_too_late(log: Log) -> None:
    staged = staged_in(log, fetched(1, 4))
    staged.run()
    append_values(log, b"of a leader", leader_epoch=EPOCH + 1)
    assert log.append_staged(staged, wall_ms=0) == (2, 2, 0)


def test_a_log_that_was_replaced_meanwhile(log: Log, tmp_path: Path) -> None:
    """As when a replica moves between directories: the other one has its own file."""
    other = new_log(tmp_path / "other", BIG)
    other.append_as_follower(memoryview(fetched(0, 1, size_bytes=1)), wall_ms=0)
    staged = staged_in(log, fetched(1, 4))
    staged.run()
    other.append_staged(staged, wall_ms=0)
    staged.close()
    assert physical(other) == physical(log) + fetched(1, 4)
    assert is_cut(log)


def test_a_roll_in_the_middle(log: Log) -> None:
    """The rest goes into the new segment."""
    batches = fetched(1, 4)
    staged = staged_in(log, batches)
    staged.run()
    log.config = LogConfig(segment_bytes=2 * SIZE_BYTES)
    log.append_staged(staged, wall_ms=0)
    staged.close()
    assert len(log.segments) == 4
    for segment in log.segments:
        assert Path(segment.file.path).stat().st_size == segment.size_bytes
    assert [offset for offset, _ in contents(log, size_bytes_max=1 << 22)] == [0, 1, 2, 3, 4]


def test_a_crash_in_between(log: Log) -> None:
    """What was written by then is in the log, as after a crash in the middle of an append."""
    staged_in(log, fetched(1, 4)).run()
    assert reload(log).log_end_offset == 5


@pytest.mark.parametrize("size_bytes", [100, None])
def test_a_power_cut_that_undoes_the_cut(log: Log, size_bytes: int | None) -> None:
    """No fsync came after it, as all of the segment was synced before; the next one survived."""
    batches = fetched(1, 4)
    staged = staged_in(log, batches)
    staged.run()
    finished = Path(log.segments.active.file.path)
    log.roll(log.log_end_offset, 0)
    append_values(log, b"of a leader", leader_epoch=EPOCH + 1)
    found = contents(log)
    finished.write_bytes(finished.read_bytes() + batches[:size_bytes])
    loaded = reload(log, LoadHints(clean=False, recovery_point=1))
    assert contents(loaded) == found
    for segment in loaded.segments:
        assert Path(segment.file.path).stat().st_size == segment.size_bytes
    plan = loaded.flush_plan()
    assert plan is not None
    assert loaded.segments[0].file.path in plan._paths, "it is not synced"


def test_who_comes_in_between_waits_for_the_thread(log: Log) -> None:
    """Else it would write over what he has written."""
    begun, go_on, appended = threading.Event(), threading.Event(), threading.Event()

    def append() -> None:
        append_values(log, b"of a leader", leader_epoch=EPOCH + 1)
        appended.set()

    with mock.patch("odradek.storage.log.log_file.Staged", slow_staged(begun, go_on)):
        staged = staged_in(log, fetched(1, 4))
    writing = threading.Thread(target=staged.run)
    writing.start()
    assert begun.wait(60)
    appending = threading.Thread(target=append)
    appending.start()
    assert not appended.wait(0.05)
    go_on.set()
    for thread in (writing, appending):
        thread.join(60)
    assert is_cut(log)
    assert [value for _, value in contents(log)][1:] == [b"of a leader"]


def test_who_comes_in_between_waits_for_a_step_only(log: Log) -> None:
    """The rest is not written any more: it may be 100 MB."""
    begun, unset, steps = threading.Event(), threading.Event(), []

    class Slow(Staged):
        __slots__ = ()

        def _write(self, data: memoryview, position: int) -> None:
            begun.set()
            steps.append(len(data))
            for _ in range(60_000):
                if self._has_ended:
                    break
                unset.wait(0.001)
            super()._write(data, position)

    with (
        mock.patch("odradek.storage.log.log_file.Staged", Slow),
        mock.patch.object(staging, "STEP_BYTES", SIZE_BYTES),
    ):
        staged = staged_in(log, fetched(1, 4))
        writing = threading.Thread(target=staged.run)
        writing.start()
        assert begun.wait(60)
        append_values(log, b"of a leader", leader_epoch=EPOCH + 1)
        writing.join(60)
    assert steps == [SIZE_BYTES]
    assert is_cut(log)
