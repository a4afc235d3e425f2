"""Files that no broker makes, in the place of its own: a sentence each, no hang, nothing lost."""

import os
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.primitives import INT64_MAX
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import DataDirError
from odradek.storage.log.checkpoint import OFFSET_MAX, parse_epochs, parse_offsets
from odradek.storage.upkeep.retention import expire, remove_plan

from ..support import SMALL, WALL_MS, UnsyncedFileSystem, append_values, contents, files_of

CLUSTER_ID: Final = "abcdefghijklmnopqrstuv"
FIRST: Final = f"{0:020d}"
RECORDS: Final = 40


def opened(path: Path) -> DataDir:
    return DataDir.open(
        str(path),
        1,
        CLUSTER_ID,
        UnsyncedFileSystem(),
        config_of=lambda topic: SMALL,
        wall_ms=WALL_MS,
    )


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Two partitions, t-0 and u-0, after an unclean stop."""
    made = opened(tmp_path)
    for topic in "tu":
        log = made.create_log(topic, 0, topic_id=bytes(16), config=SMALL)
        for number in range(RECORDS):
            append_values(log, b"%d" % number)
    made.abandon()
    return tmp_path


def endless(path: Path) -> None:
    """A terabyte that needs no space."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


def nowhere(path: Path) -> None:
    path.symlink_to("/nonexistent/file")


def itself(path: Path) -> None:
    path.symlink_to(path.name)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS: Final = (os.mkfifo, endless, nowhere, itself, zeros, Path.mkdir)
Make = Callable[[Path], None]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    "name",
    [f"{FIRST}.log", f"{FIRST}.log.swap", f"{0:020d}.snapshot", "leader-epoch-checkpoint"],
)
def test_one_partition_is_not_served_and_its_files_are_left(
    data_dir: Path, name: str, make: Make
) -> None:
    path = data_dir / "t-0" / name
    path.unlink(missing_ok=True)
    make(path)
    before = sorted(os.listdir(data_dir / "t-0"))
    again = opened(data_dir)
    reason = again.unserved["t", 0].reason
    assert str(path) in reason
    assert "\n" not in reason
    assert sorted(os.listdir(data_dir / "t-0")) == before
    assert len(contents(again.logs["u", 0])) == RECORDS
    again.abandon()


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_an_index_without_end_is_made_anew(data_dir: Path, suffix: str) -> None:
    endless(data_dir / "t-0" / f"{FIRST}.{suffix}")
    again = opened(data_dir)
    assert len(contents(again.logs["t", 0])) == RECORDS
    assert (data_dir / "t-0" / f"{FIRST}.{suffix}").stat().st_size < 1000
    again.abandon()


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", ["meta.properties", "recovery-point-offset-checkpoint"])
def test_a_file_of_the_directory_is_named(data_dir: Path, name: str, make: Make) -> None:
    path = data_dir / name
    path.unlink(missing_ok=True)
    make(path)
    with pytest.raises(DataDirError, match=name):
        opened(data_dir)


@pytest.mark.parametrize("make", [nowhere, itself, os.mkfifo])
def test_what_is_in_the_place_of_a_partition_is_named(data_dir: Path, make: Make) -> None:
    make(data_dir / "x-0")
    make(data_dir / "unknown")
    again = opened(data_dir)
    assert list(again.unserved) == [("x", 0)]
    assert len(again.logs) == 2
    again.abandon()


@pytest.mark.parametrize("suffix", ["log", "log.swap"])
@pytest.mark.parametrize("offset", [OFFSET_MAX + 1, INT64_MAX, INT64_MAX + 1, 10**20 - 1])
def test_a_base_offset_beyond_what_can_be_counted(data_dir: Path, offset: int, suffix: str) -> None:
    (data_dir / "t-0" / f"{offset:020d}.{suffix}").write_bytes(b"")
    before = files_of(str(data_dir / "t-0"))
    again = opened(data_dir)
    assert "too high" in again.unserved["t", 0].reason
    assert files_of(str(data_dir / "t-0")) == before
    again.abandon()


def test_a_snapshot_of_a_short_name_is_none(data_dir: Path) -> None:
    (data_dir / "t-0" / "5.snapshot").write_bytes(b"")
    again = opened(data_dir)
    log = again.logs["t", 0]
    log.high_watermark = log.log_end_offset
    log.config = replace(SMALL, retention_bytes=0)
    offset = expire(log, WALL_MS)
    assert offset is not None
    plan = remove_plan(log, offset)
    assert plan is not None
    synced: list[str] = []
    log.files.sync_path = lambda path: synced.append(f"sync {path}")  # type: ignore[method-assign]
    plan.run()  # was it looked for under a name that it has not, the sync was left out
    assert f"sync {data_dir}/t-0" in synced
    assert (data_dir / "t-0" / "5.snapshot").exists()
    again.abandon()


@pytest.mark.parametrize("offset", [OFFSET_MAX + 1, INT64_MAX, 10**30])
def test_checkpoints_hold_no_offset_beyond_it(offset: int) -> None:
    with pytest.raises(ValueError, match="no offset"):
        parse_offsets(b"0\n1\nt 0 %d\n" % offset)
    with pytest.raises(ValueError, match="no epoch"):
        parse_epochs(b"0\n1\n0 %d\n" % offset)
    with pytest.raises(ValueError, match="no epoch"):
        parse_epochs(b"0\n1\n%d 0\n" % (1 << 31))


@pytest.mark.parametrize("damage", ["checksum", "offset"])
def test_old_segments_do_not_go_for_a_damaged_new_one(data_dir: Path, damage: str) -> None:
    """What it replaces is told by offsets that no checksum covers."""
    partition = data_dir / "t-0"
    data = bytearray((partition / f"{FIRST}.log").read_bytes())
    at = 0
    while (end := at + 12 + struct.unpack_from(">i", data, at + 8)[0]) < len(data):
        at = end
    if damage == "checksum":
        data[-1] ^= 1
    else:
        struct.pack_into(">q", data, at, 1 << 40)  # the last batch, whose end is the segment's
    (partition / f"{FIRST}.log.swap").write_bytes(data)
    before = files_of(str(partition))
    again = opened(data_dir)
    assert ".log.swap" in again.unserved["t", 0].reason
    assert files_of(str(partition)) == before
    again.abandon()


@pytest.mark.wire
def test_a_length_that_is_rubbish_takes_no_memory(data_dir: Path) -> None:
    path = sorted((data_dir / "t-0").glob("*.log"))[-1]
    size_bytes = path.stat().st_size
    length = 80 << 20
    with path.open("r+b") as file:
        file.truncate(size_bytes + length + 12)
        file.seek(size_bytes)
        file.write(struct.pack(">qiib", RECORDS, length, 0, 2))
    tracemalloc.start()
    try:
        again = opened(data_dir)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40 << 20
    assert len(contents(again.logs["t", 0])) == RECORDS
    again.abandon()
