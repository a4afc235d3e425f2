"""A data directory lives through one fault at each of its system calls.

Whatever failed: an append that was acknowledged is there when the directory is loaded again, what
was not is there as a whole or not at all, and a disk that was only full goes on.
"""

import contextlib
import errno
import functools
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import DiskFull, LogDirFailed, StorageError
from odradek.storage.files import RealFileSystem
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.upkeep.retention import expire, remove_plan, removed, start_plan

from .faulty_os import SHORT, TORN, Fault, FaultyOs
from .support import WALL_MS, append, batch_of, contents

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=50)
KEPT = ("t", 0)
DELETED = ("u", 0)
UUID = bytes(16)
MEMORY = Path("/dev/shm")


class Offline(Exception):
    """The directory is not to be used any more."""


class Unfinished(Exception):
    """It could not be opened, or not be closed cleanly."""


class Life:
    """One data directory, and what has been promised about it."""

    def __init__(self, path: Path, faulty: FaultyOs, full_at: int = 0) -> None:
        """`full_at`: the disk is full when so many things have been done, until that is noticed."""
        self.path = path
        self.faulty = faulty
        self.full_at = full_at
        self.deeds = 0
        self.promised: dict[int, bytes] = {}
        self.possible: defaultdict[int, set[bytes]] = defaultdict(set)
        """What may be there, as it was tried."""
        self.starts = {0}
        self.sequence = 0
        self.directory: DataDir

    @property
    def log(self) -> Log:
        return self.directory.logs[KEPT]

    def live(self) -> None:
        """Everything that a data directory is used for.  Raises: Offline, Unfinished."""
        self._begin()
        for key in (KEPT, DELETED):
            self._do(functools.partial(self._create, key))
        for number in range(8):
            self._append(b"%d" % number * 20)
        self._flush()
        self._checkpoint()
        for number in range(3):
            self._append(b"more%d" % number)
        self._do(lambda: self.log.assign_leader_epoch(1))
        self._append(b"of another epoch", leader_epoch=1)
        self._flush()
        self._truncate(9)
        self._checkpoint()
        for number in range(6):
            self._append(b"again%d" % number * 5, leader_epoch=1)
        self._flush()
        self._move_start(3)
        self._retain()
        self._delete()
        self._checkpoint()
        self._end()
        self._begin()
        self._append(b"after a start", leader_epoch=1)
        self._end()

    def _do(self, deed: Callable[[], object]) -> None:
        """Do it; if the disk was full then once more."""
        self.deeds += 1
        self.faulty.is_full = self.deeds == self.full_at
        try:
            try:
                deed()
            except DiskFull:
                self.faulty.is_full = False
                self.check(self.log if KEPT in self.directory.logs else None)
                deed()
        except LogDirFailed as error:
            self.directory.abandon()
            raise Offline from error

    def _begin(self) -> None:
        try:
            self.directory = opened(self.path)
        except StorageError as error:
            raise Unfinished from error

    def _end(self) -> None:
        try:
            self.directory.close()
        except LogDirFailed as error:  # without the marker, and the files are let go
            raise Unfinished from error

    def _create(self, key: tuple[str, int]) -> None:
        if key not in self.directory.logs:
            self.directory.create_log(*key, topic_id=bytes(range(16)), config=CONFIG)

    def _append(self, value: bytes, leader_epoch: int = 0) -> None:
        def deed() -> None:
            batch = batch_of([value], producer_id=7, base_sequence=self.sequence)
            self.possible[self.log.log_end_offset].add(value)
            base_offset = append(self.log, batch, leader_epoch=leader_epoch)
            self.promised[base_offset] = value
            self.sequence += 1
            self.log.high_watermark = base_offset + 1

        self._do(deed)

    def _flush(self) -> None:
        for log in list(self.directory.logs.values()):
            self._do(functools.partial(flush, log))

    def _checkpoint(self) -> None:
        self._do(lambda: self.directory.checkpoint())

    def _truncate(self, offset: int) -> None:
        for gone in [o for o in self.promised if o >= offset]:
            del self.promised[gone]
        self._do(lambda: self.log.truncate(offset))
        for gone in [o for o in self.possible if o >= offset]:
            del self.possible[gone]

    def _move_start(self, offset: int) -> None:
        self.starts.add(offset)
        self._do(lambda: self.log.advance_log_start(offset))
        self._checkpoint()

    def _retain(self) -> None:
        def deed() -> None:
            self.log.config = replace(CONFIG, retention_bytes=700)
            offset = expire(self.log, WALL_MS)
            if offset is None:
                return
            self.starts.add(offset)
            plan = start_plan(self.log, offset)
            if plan is not None:
                plan.run()
                self.log.flushed(plan)
            self.directory.checkpoint()
            removal = remove_plan(self.log, offset)
            if removal is not None:
                removal.run()
                removed(self.log)
                removal.unlink_plan().run()

        self._do(deed)

    def _delete(self) -> None:
        def deed() -> None:
            if DELETED in self.directory.logs:
                self.directory.delete_log(*DELETED, UUID).run()

        self._do(deed)

    def check(self, log: Log | None) -> None:
        """What is promised is there, and nothing that never was."""
        if log is None:
            assert not self.promised
            return
        found = dict(contents(log))
        assert log.log_start_offset in self.starts
        assert list(found) == list(range(log.log_start_offset, log.log_end_offset))
        for offset, value in self.promised.items():
            if offset >= log.log_start_offset:
                assert found[offset] == value
        for offset, value in found.items():
            assert value in self.possible[offset]


def opened(path: Path) -> DataDir:
    return DataDir.open(
        str(path), 1, "c" * 22, RealFileSystem(), config_of=lambda _: CONFIG, wall_ms=WALL_MS
    )


def flush(log: Log) -> None:
    plan = log.flush_plan()
    if plan is not None:
        try:
            plan.run()
        except LogDirFailed:
            plan.release()
            raise
        log.flushed(plan)


def live_with(fault: Fault, path: Path) -> tuple[Life, FaultyOs, bool]:
    """The life until its end, or until the directory went offline."""
    faulty = FaultyOs(fault)
    life = Life(path, faulty)
    is_offline = False
    with faulty.installed():
        try:
            with contextlib.suppress(Unfinished):
                life.live()
        except Offline:
            is_offline = True
    return life, faulty, is_offline


@pytest.fixture(scope="module", autouse=True)
def index_entries_are_written_soon() -> Iterator[None]:
    """So that an append writes them, and not only a flush."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("odradek.storage.log.index.PENDING_BYTES_MAX", 16)
        yield


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, if there is one: hundreds of lives make many small files."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def whole_life(tmp_path_factory: pytest.TempPathFactory) -> FaultyOs:
    """A life without a fault, and all its calls."""
    faulty = FaultyOs()
    with faulty.installed():
        Life(tmp_path_factory.mktemp("whole"), faulty).live()
    return faulty


def outlive(faults: list[Fault], path: Path) -> None:
    for number, fault in enumerate(faults):
        try:
            outlive_one(fault, path / str(number))
        except BaseException as error:
            error.add_note(str(fault))
            raise


def outlive_one(fault: Fault, path: Path) -> None:
    life, faulty, is_offline = live_with(fault, path)
    assert faulty.fsyncs_after_failure == 0
    if fault.kind in (SHORT, TORN) or (fault.kind == errno.ENOSPC and fault.site[-1] != "fsync"):
        assert not is_offline
    again = opened(path)
    try:
        life.check(again.logs.get(KEPT))
        if KEPT in again.logs:
            log = again.logs[KEPT]
            offset = append(log, batch_of([b"and goes on"]), leader_epoch=2)
            assert dict(contents(log))[offset] == b"and goes on"
    finally:
        again.abandon()


def test_every_kind_of_call_is_made(whole_life: FaultyOs) -> None:
    calls = {site[-1] for site in whole_life.sites}
    assert calls >= {
        *("create", "open", "read", "write", "pread", "pwrite", "ftruncate"),
        *("replace", "unlink", "mkdir", "scandir", "fsync", "rmtree"),
    }


@pytest.mark.slow
def test_one_fault_at_each_call_site(whole_life: FaultyOs, memory: Path) -> None:
    faults = whole_life.faults()
    assert len(faults) > 100
    outlive(faults, memory)


@pytest.mark.slow
def test_a_full_disk_at_any_time(memory: Path) -> None:
    number, deeds = 0, 1
    while number < deeds:
        number += 1
        faulty = FaultyOs()
        life = Life(memory / str(number), faulty, full_at=number)
        with faulty.installed():
            life.live()
        deeds = life.deeds
    assert deeds > 30


@pytest.mark.soak
def test_one_fault_at_every_call(whole_life: FaultyOs, memory: Path) -> None:
    outlive(whole_life.faults(every_call=True), memory)
