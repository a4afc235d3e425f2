"""What the power leaves of a data directory: it starts, and what was durable is there.

For each seed a random life of a directory is recorded call by call; then the power is cut at random
calls, and of all that had not been synced any part may be gone (disk.py).
"""

import os
import random
import tempfile
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.records import read_header
from odradek.storage.log.log import Log
from tests.seeds import seeds
from tests.storage.support import WALL_MS, UnsyncedFileSystem, batch_of, flush

from .disk import Fate, Mark, Operation, crash, kept, lost, mangled
from .workload import TOPIC_ID, Life, Promise, Promises, batches_of, open_directory

CRASHES: Final = 40  # of each life
STEPS: Final = 60
MEMORY: Final = "/dev/shm"  # no disk is needed to lose what a disk has lost
FATES: Final[tuple[Fate, ...]] = (kept, lost, mangled, mangled)


def promises_at(operations: list[Operation]) -> Promises:
    """What was promised when the last of these operations was done."""
    for operation in reversed(operations):
        if isinstance(operation, Mark):
            assert isinstance(operation.what, dict)
            return operation.what
    return {}


def check(log: Log, promise: Promise, ever: dict[int, set[bytes]]) -> dict[int, bytes]:
    """What was promised is there, and nothing that was never appended."""
    found = batches_of(log)
    assert log.topic_id == TOPIC_ID
    assert log.log_start_offset <= promise.start
    assert log.log_end_offset >= promise.end
    for base_offset, batch in promise.batches.items():
        if read_header(batch).next_offset > promise.start and base_offset < promise.end:
            assert found.get(base_offset) == batch, f"lost: offset {base_offset} of {log}"
    for base_offset, batch in found.items():
        assert batch in ever.get(base_offset, ()), f"never appended: {base_offset} of {log}"
    return found


def live_on(log: Log, found: dict[int, bytes]) -> None:
    """The log takes more, and keeps it."""
    batch = batch_of([b"after the crash"])
    base_offset = log.append(batch, read_header(batch), leader_epoch=1000, wall_ms=WALL_MS)
    flush(log)
    assert batches_of(log) == {**found, base_offset: bytes(batch)}


def crash_once(life: Life, chance: random.Random, path: Path) -> None:
    count = chance.randrange(len(life.files.operations) + 1)
    operations = life.files.operations[:count]
    crash(operations, chance.choice(FATES), chance, path)
    promises = promises_at(operations)
    directory = open_directory(path, UnsyncedFileSystem())
    found = {}
    for key, promise in promises.items():
        assert key in directory.logs, f"the partition {key} is gone"
        log = directory.logs[key]
        found[key] = check(log, promise, life.ever[key])
        live_on(log, found[key])
    directory.checkpoint()
    directory.abandon()
    again = open_directory(path, UnsyncedFileSystem())
    for key, batches in found.items():
        assert batches.items() <= batches_of(again.logs[key]).items()
    again.abandon()


def run(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
        base = Path(name)
        (base / "life").mkdir()
        life = Life(base / "life", seed)
        life.run(STEPS)
        life.end()
        for number in range(CRASHES):
            path = base / f"crash-{number}"
            path.mkdir()
            crash_once(life, chance, path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_every_crash_state_starts_and_keeps_its_promises(seed: int) -> None:
    run(seed)


@pytest.mark.soak
def test_ten_thousand_crash_states() -> None:
    for seed in range(1000, 1250):
        run(seed)
