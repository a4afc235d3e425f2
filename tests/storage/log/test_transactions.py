"""The last stable offset and the aborted transactions of a log, against a naive model of them."""

import random
import sys
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest

from odradek.protocol.records import MarkerType
from odradek.storage.log import producer_rebuild
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.transactions import NONE_UNSTABLE, Transactions
from odradek.storage.log.txn_index import AbortedColumns, AbortedTransaction
from tests.seeds import seeds

from ..support import append_values, clean_hints, new_log, reload
from .test_txn_index import Producers

ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT


class World:
    """A log, and what was written into it: (producer, marker or None) at each offset."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = new_log(path, LogConfig(segment_bytes=700, index_interval_bytes=100))
        self.written: list[tuple[int, MarkerType | None]] = []
        self.stable = 0

    def run(self, steps: int) -> None:
        doings: list[Callable[[], None]] = [
            *[self.write] * 8,
            *[self.end] * 5,
            *[self.replicate] * 6,
            *[self.read] * 3,
            self.plain,
            self.flush,
            self.truncate,
            self.restart,
        ]
        for _ in range(steps):
            self.chance.choice(doings)()
            self.check()

    def write(self) -> None:
        producer_id = self.chance.randint(1, 4)
        Producers(self.log).write(producer_id, b"v")
        self.written.append((producer_id, None))

    def plain(self) -> None:
        append_values(self.log, b"v")
        self.written.append((-1, None))

    def end(self) -> None:
        producer_id, how = self.chance.randint(1, 4), self.chance.choice((ABORT, COMMIT))
        Producers(self.log).end(producer_id, how)
        self.written.append((producer_id, how))

    def replicate(self) -> None:
        self.log.high_watermark += self.chance.randint(1, 4)

    def flush(self) -> None:
        plan = self.log.flush_plan()
        if plan is not None:
            plan.run()
            self.log.flushed(plan)

    def truncate(self) -> None:
        """Cut batches, as followers do; at times below their high watermark."""
        high_watermark = self.log.high_watermark
        end = self.log.truncate(max(0, len(self.written) - self.chance.randrange(8)))
        del self.written[end:]
        if end < high_watermark:
            self.stable = 0  # transactions are open again

    def restart(self) -> None:
        hints = clean_hints(self.log)
        if self.chance.random() < 0.5:
            self.log.close()
        else:
            hints = hints._replace(clean=False, recovery_point=self.log.recovery_point)
            self.log.abandon()
        self.log = reload(self.log, hints)

    def read(self) -> None:
        """Ask for what was aborted in a range; twice, since the entries are decoded once."""
        stable = self.log.last_stable_offset
        if not stable:
            return
        offset = self.chance.randrange(stable)
        end = self.chance.randint(offset + 1, stable)
        expected = {
            (producer_id, first, marker)
            for producer_id, first, marker, how in self.transactions()
            if marker is not None and how == ABORT and first < end and marker >= offset
        }
        for _ in range(2):
            found = self.log.aborted_transactions(offset, end)
            assert {entry[:3] for entry in found} == expected

    def transactions(self) -> list[tuple[int, int, int | None, MarkerType | None]]:
        """Producer, first offset, marker and how it ended."""
        found: list[tuple[int, int, int | None, MarkerType | None]] = []
        begun: dict[int, int] = {}
        for offset, (producer_id, how) in enumerate(self.written):
            if how is None and producer_id >= 0:
                begun.setdefault(producer_id, offset)
            elif how is not None and producer_id in begun:
                found.append((producer_id, begun.pop(producer_id), offset, how))
        return found + [(producer_id, first, None, None) for producer_id, first in begun.items()]

    def check(self) -> None:
        log = self.log
        assert log.log_end_offset == len(self.written)
        unstable = [
            first
            for _, first, marker, _ in self.transactions()
            if marker is None or marker >= log.high_watermark
        ]
        stable = log.last_stable_offset
        assert stable == min([log.high_watermark, *unstable])
        assert stable >= self.stable, "it goes back only when the log is cut"
        self.stable = stable


@pytest.mark.slow
@pytest.mark.parametrize("nearby_bytes", [producer_rebuild.NEARBY_BYTES, (150, 300)])
def test_random_transactions(tmp_path: Path, nearby_bytes: tuple[int, ...]) -> None:
    with mock.patch.object(producer_rebuild, "NEARBY_BYTES", nearby_bytes):
        for seed in seeds(8, 100):
            (tmp_path / str(seed)).mkdir()
            world = World(tmp_path / str(seed), seed)
            world.run(120)
            world.log.abandon()


def test_a_marker_counts_once_it_is_replicated(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    producers = Producers(log)
    producers.write(1, b"a")
    producers.end(1, COMMIT)
    producers.write(2, b"b")
    stable = []
    for high_watermark in (0, 1, 2, 3):
        log.high_watermark = high_watermark
        stable.append(log.last_stable_offset)
    assert stable == [0, 0, 2, 2]
    producers.end(2, ABORT)
    assert log.last_stable_offset == 2
    log.truncate(3)
    assert log.last_stable_offset == 2, "it did not pass the marker that was cut off"
    producers.end(2, ABORT)
    log.high_watermark = 4
    assert log.last_stable_offset == 4


def test_a_later_transaction_that_began_earlier_counts_for_both() -> None:
    found = Transactions([(1, 5), (2, 3), (3, 9)])
    assert found.first_unstable_offset == 3
    found.end(1, 10)
    found.end(2, 11)
    assert found.first_open_offset() == 9
    cut = Transactions([(2, 3), (3, 9)])
    cut.take_unreplicated(found, 11)
    assert cut.first_unstable_offset == 3
    for high_watermark, expected in ((11, 3), (12, 9)):
        found.replicated(high_watermark)
        assert found.first_unstable_offset == expected
    found.end(3, 12)
    found.replicated(13)
    assert found.first_unstable_offset == NONE_UNSTABLE
    assert not found.unreplicated


def steps_of(call: Callable[[], object]) -> int:
    """How many of the interpreter's instructions a call takes, which no machine changes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_looks_at_many_open_transactions_take_no_time() -> None:
    many = 2000
    found = Transactions((number, number) for number in range(many))

    def looks() -> None:
        for number in range(100):
            assert found.first_open_offset(except_of=number) == number + 1
            found.end(number, many + number)
            found.replicated(many + number + 1)
            assert found.first_unstable_offset == number + 1

    assert steps_of(looks) < 100 * 300


def test_a_short_range_of_many_aborts_takes_no_time() -> None:
    """Also if all of them were open at the same time, and ended in the other order."""
    many = 20_000
    one_by_one, backwards = (AbortedColumns(*(array("q") for _ in range(4))) for _ in range(2))
    for number in range(many):
        first = 2 * number
        one_by_one.append(AbortedTransaction(1, first, first + 1, first + 2))
        first = many - 1 - number
        stable = 0 if first else 2 * many
        backwards.append(AbortedTransaction(first, first, many + number, stable))
    for columns, offset, expected in (
        (one_by_one, 0, [0]),
        (one_by_one, 20_000, [20_000]),
        (backwards, 0, [1, 0]),
        (backwards, 2 * many - 2, [1, 0]),
    ):
        found: list[AbortedTransaction] = []
        steps = steps_of(partial(columns.collect, offset, offset + 2, found))
        assert [entry.first_offset for entry in found] == expected
        assert steps < 3000
