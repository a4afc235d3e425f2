"""Compaction under transactions: who reads committed records reads the same before and after.

Some transactions are open while segments are compacted, some are aborted, and the marker of the
last one is not replicated. The compaction is killed at any call, and the power may be cut with it.
"""

import random
import shutil
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.records import (
    MarkerType,
    Record,
    build_batch,
    control_batch,
    iter_batches,
    iter_records,
    read_marker,
)
from odradek.storage.log.log import Log
from odradek.storage.recovery.load import LoadHints, load_log
from tests.seeds import seeds

from ..crash.disk import Fate, RecordingFiles, crash, kept, lost, mangled
from ..support import WALL_MS, UnsyncedFileSystem, append, flush, new_log
from .test_swap import CONFIG, clean, flush_directory, swap_all, swaps

KEYS: Final = 4
CRASHES: Final = 6  # of each fate
LAST: Final = 9
"""Its transaction ends last; the marker is not replicated."""
Contents = list[tuple[int, bytes, bytes]]


class Writers:
    """Producers that write into one log at the same time, and what they have committed."""

    def __init__(self, log: Log, chance: random.Random) -> None:
        self.log = log
        self.chance = chance
        self.pending: dict[int, Contents] = {}
        self.committed: Contents = []

    def write(self, producer_id: int) -> None:
        """Append one to three records: of few keys, or of a key of their own, which stays."""
        log, count = self.log, self.chance.randint(1, 3)
        records = []
        for index in range(count):
            offset = log.log_end_offset + index
            is_own = self.chance.random() < 0.3
            key = b"own-%d" % offset if is_own else b"k%d" % self.chance.randrange(KEYS)
            records.append(Record(index, WALL_MS, key, b"v%d" % offset))
        entry = log.producers.entry(producer_id)
        batch = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=entry.last_sequence + 1 if entry is not None else 0,
            is_transactional=True,
        )
        base_offset = append(log, memoryview(batch))
        self.pending.setdefault(producer_id, []).extend(
            (base_offset + index, bytes(each.key or b""), bytes(each.value or b""))
            for index, each in enumerate(records)
        )

    def end(self, producer_id: int, how: MarkerType) -> None:
        marker = control_batch(
            how, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=WALL_MS
        )
        append(self.log, memoryview(marker))
        written = self.pending.pop(producer_id)
        if how == MarkerType.COMMIT:
            self.committed = sorted(self.committed + written)

    def fill(self, batches: int) -> None:
        for _ in range(batches):
            producer_id = self.chance.randint(1, 3)
            if producer_id in self.pending and self.chance.random() < 0.4:
                self.end(producer_id, self.chance.choice(tuple(MarkerType)))
            else:
                self.write(producer_id)

    def end_all(self) -> None:
        for producer_id in sorted(self.pending):
            self.end(producer_id, self.chance.choice(tuple(MarkerType)))


def read_committed(log: Log) -> Contents:
    """What a consumer is shown: it leaves out what the answers to its Fetches name as aborted."""
    found: Contents = []
    offset, stable = log.log_start_offset, log.last_stable_offset
    while offset < stable:
        span = log.read(offset, size_bytes_max=300, offset_end=stable)
        if span is None:
            break
        data, next_offset = memoryview(span.read()), span.next_offset
        span.release()
        waiting = sorted(
            (entry.first_offset, entry.producer_id)
            for entry in log.aborted_transactions(offset, next_offset)
        )
        aborted: set[int] = set()
        for position, header in iter_batches(data):
            while waiting and waiting[0][0] <= header.last_offset:
                aborted.add(waiting.pop(0)[1])
            records = list(iter_records(data[position:], header, size_bytes_max=1 << 20))
            if header.is_control:
                if records and read_marker(records[0]).type == MarkerType.ABORT:
                    aborted.discard(header.producer_id)
            elif header.producer_id not in aborted:
                found += [(r.offset, bytes(r.key or b""), bytes(r.value or b"")) for r in records]
        offset = next_offset
    return found


def check(log: Log, committed: Contents) -> None:
    """Everything that is the newest of its key is shown, and nothing that was not committed."""
    expected = [record for record in committed if record[0] < log.last_stable_offset]
    newest = {key: (offset, value) for offset, key, value in expected}
    shown = read_committed(log)
    assert set(shown) <= set(expected)
    assert {key: (offset, value) for offset, key, value in shown} == newest


def compacted_on_record(path: Path, seed: int) -> tuple[Writers, RecordingFiles, int]:
    """A compaction below an open transaction, operation by operation from the number on."""
    path.mkdir()
    files = RecordingFiles(path)
    log = new_log(path, CONFIG, files)
    writers = Writers(log, random.Random(seed))
    writers.fill(50)
    log.roll(log.log_end_offset, WALL_MS)
    begun = log.log_end_offset
    writers.write(LAST)
    writers.fill(10)
    writers.end_all()
    log.high_watermark = log.log_end_offset - 1
    stable = log.last_stable_offset
    assert stable <= begun
    flush(log)
    flush_directory(log)
    check(log, writers.committed)
    first = len(files.operations)
    before = read_committed(log)
    result = clean(log)
    assert len(result["segments"]) > 1
    for step in swaps(log, result):
        step()
        check(log, writers.committed)
        assert log.last_stable_offset == stable
    assert len(read_committed(log)) < len(before)
    return writers, files, first


def load(directory: Path, before: Log) -> Log:
    hints = LoadHints(
        clean=False,
        recovery_point=before.recovery_point,
        high_watermark=before.high_watermark,
    )
    return load_log(
        UnsyncedFileSystem(), str(directory), "t", 0, config=CONFIG, hints=hints, wall_ms=WALL_MS
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_compaction_changes_nothing_for_who_reads_committed_records(
    tmp_path: Path, seed: int
) -> None:
    writers, files, first = compacted_on_record(tmp_path / "life", seed)
    before, directory = writers.log, tmp_path / "left"
    fates: tuple[Fate, ...] = (kept, lost, mangled)
    for fate in fates:
        for count in writers.chance.sample(range(first, len(files.operations) + 1), CRASHES):
            directory.mkdir()
            crash(files.operations[:count], fate, writers.chance, directory)
            log = load(directory / "t-0", before)
            assert log.last_stable_offset == before.last_stable_offset
            check(log, writers.committed)
            swap_all(log, clean(log))
            check(log, writers.committed)
            log.high_watermark = log.log_end_offset
            check(log, writers.committed)
            log.abandon()
            shutil.rmtree(directory)
