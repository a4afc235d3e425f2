"""A log against a plain list: append, stage, read, truncate, roll, flush, stop, be killed."""

import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.protocol.records import iter_batches
from odradek.storage.log import following
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.staging import Staged
from odradek.storage.recovery.load import LoadHints
from tests.broker.batches import altered

from ..support import WALL_MS, append, batch_of, clean_hints, contents, new_log, reload

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)


class LogMachine(RuleBasedStateMachine):
    """`self.batches`: (base offset, values, timestamp, leader epoch) of each batch in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.log: Log = new_log(Path(self.directory.name), CONFIG)
        self.batches: list[tuple[int, list[bytes], int, int]] = []
        self.leader_epoch = 0
        self.checkpointed = 0
        self.staged: Staged | None = None
        self.fetched: list[tuple[int, list[bytes], int, int]] = []
        """What is staged, as `batches`."""

    def teardown(self) -> None:
        self.log.abandon()
        self.directory.cleanup()

    @property
    def end(self) -> int:
        return self.batches[-1][0] + len(self.batches[-1][1]) if self.batches else 0

    @rule(
        values=st.lists(st.binary(max_size=60), min_size=1, max_size=4),
        timestamp=st.integers(0, 6),
        new_epoch=st.booleans(),
    )
    def append(self, values: list[bytes], timestamp: int, new_epoch: bool) -> None:
        self.leader_epoch += new_epoch
        batch = batch_of(values, timestamp=WALL_MS + timestamp)
        base_offset = append(self.log, batch, leader_epoch=self.leader_epoch)
        assert base_offset == self.end
        self.batches.append((base_offset, values, WALL_MS + timestamp, self.leader_epoch))

    @precondition(lambda self: self.batches and self.staged is None)
    @rule(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), has_run=st.booleans())
    def stage(self, sizes: list[int], has_run: bool) -> None:
        """What a leader sent; a thread may have written it by the time that it is appended."""
        fetched, offset, epoch = [], self.end, self.log.epochs.latest
        for size in sizes:
            fetched.append((offset, [b"fetched"] * size, WALL_MS, epoch))
            offset += size
        batches = [
            altered(bytes(batch_of(values)), base_offset=base, partition_leader_epoch=epoch)
            for base, values, _, _ in fetched
        ]
        with mock.patch.object(following, "STAGED_BYTES_MIN", 1):
            self.staged = self.log.stage(memoryview(b"".join(batches)))
        if self.staged is not None:
            self.fetched = fetched[: len(self.staged.batches)]
            if has_run:
                self.staged.run()

    @precondition(lambda self: self.staged is not None)
    @rule(runs=st.booleans())
    def append_staged(self, runs: bool) -> None:
        assert self.staged is not None
        if runs:
            self.staged.run()
        goes_on = (self.fetched[0][0], self.fetched[0][3]) == (self.end, self.log.epochs.latest)
        taken = self.log.append_staged(self.staged, wall_ms=WALL_MS)
        assert bool(taken.size_bytes) == goes_on
        if goes_on:
            self.batches += self.fetched
        self.forget_staged()

    @precondition(lambda self: self.staged is not None)
    @rule()
    def forget_staged(self) -> None:
        assert self.staged is not None
        self.staged.close()
        self.staged = None
        active = self.log.segments.active
        assert Path(active.file.path).stat().st_size == active.size_bytes

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        new_end = self.log.truncate(offset)
        self.batches = [batch for batch in self.batches if batch[0] + len(batch[1]) <= offset]
        assert new_end == self.end
        self.checkpointed = min(self.checkpointed, self.log.recovery_point)
        self.leader_epoch += 1

    @rule()
    def flush(self) -> None:
        plan = self.log.flush_plan()
        if plan is not None:
            plan.run()
            self.log.flushed(plan)
        assert self.log.recovery_point == self.end
        self.checkpointed = self.log.recovery_point

    @rule()
    def stop_cleanly(self) -> None:
        self.log.close()
        self.log = reload(self.log, clean_hints(self.log))

    @rule()
    def kill(self) -> None:
        self.log.abandon()
        self.log = reload(self.log, LoadHints(clean=False, recovery_point=self.checkpointed))

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        offset_end = data.draw(
            st.sampled_from([0, *(batch[0] for batch in self.batches), self.end])
        )
        limit = data.draw(st.integers(0, 1500))
        span = self.log.read(offset, size_bytes_max=limit, offset_end=offset_end)
        if offset >= offset_end:
            assert span is None
            return
        assert span is not None
        bases = [header.base_offset for _, header in iter_batches(span.read())]
        expected = [
            base
            for base, values, _, _ in self.batches
            if base + len(values) > offset and base < offset_end
        ]
        assert bases == expected[: len(bases)]
        assert len(span) <= limit or len(bases) == 1
        span.release()

    @rule(timestamp=st.integers(0, 7))
    def look_up(self, timestamp: int) -> None:
        found = self.log.offset_for_timestamp(WALL_MS + timestamp)
        expected = [b for b in self.batches if b[2] >= WALL_MS + timestamp]
        assert found == ((expected[0][2], expected[0][0], expected[0][3]) if expected else None)

    @rule()
    def look_up_newest(self) -> None:
        found = self.log.max_timestamp_offset()
        newest = max((batch[2] for batch in self.batches), default=None)
        expected = [b for b in self.batches if b[2] == newest]
        assert found == ((expected[0][2], expected[0][0], expected[0][3]) if expected else None)

    @invariant()
    def holds_the_batches(self) -> None:
        expected = [
            (base + index, value)
            for base, values, _, _ in self.batches
            for index, value in enumerate(values)
        ]
        assert contents(self.log, size_bytes_max=400) == expected
        assert self.log.log_end_offset == self.end

    @invariant()
    def knows_the_epochs(self) -> None:
        epochs = [batch[3] for batch in self.batches]
        assert [epoch for epoch, _ in self.log.epochs.entries()] == sorted(set(epochs))


LogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestLogMachine = pytest.mark.slow(LogMachine.TestCase)
