"""Data directories for the tests of `odradek log`, written through the storage."""

from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from odradek.cli import main
from odradek.protocol.records import (
    MarkerType,
    Record,
    build_batch,
    control_batch,
    read_header,
)
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.files import RealFileSystem
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig

WALL_MS: Final = 1_700_000_000_000
CONFIG: Final = LogConfig(segment_bytes=1500, index_interval_bytes=200)


class UnsyncedFileSystem(RealFileSystem):
    """A disk whose fsync does nothing."""

    def fsync(self, descriptor: int) -> None:
        """Do nothing."""


def opened(path: Path) -> DataDir:
    """The directory of broker 0, locked and loaded."""
    files = UnsyncedFileSystem()
    return DataDir.open(
        str(path), 0, "cluster", files, config_of=lambda topic: CONFIG, wall_ms=WALL_MS
    )


def append(log: Log, batch: bytearray, epoch: int = 0) -> None:
    """Append as the leader does."""
    log.append(memoryview(batch), read_header(batch), leader_epoch=epoch, wall_ms=WALL_MS)


def fill(log: Log, rounds: int = 12) -> None:
    """Batches of a producer, two leader epochs, and aborted transactions, over some segments."""
    for number in range(rounds):
        stamp = WALL_MS + number
        records = [Record(n, stamp, b"k%d" % n, b"value %d" % number) for n in range(3)]
        batch = build_batch(records, producer_id=5, producer_epoch=0, base_sequence=number * 3)
        epoch = number // 8
        append(log, batch, epoch)
        identity = {"producer_id": 6, "producer_epoch": 0}
        record = Record(0, stamp, None, b"in a transaction")
        append(log, build_batch([record], is_transactional=True, **identity), epoch)  # type: ignore[arg-type]
        marker = MarkerType.ABORT if number % 2 else MarkerType.COMMIT
        append(log, control_batch(marker, coordinator_epoch=0, timestamp=stamp, **identity), epoch)


def make_directory(path: Path, *, clean: bool = True) -> Path:
    """Two partitions of t, stopped cleanly or not."""
    data_dir = opened(path)
    for partition in range(2):
        topic_id = bytes(range(16))
        fill(data_dir.create_log("t", partition, topic_id=topic_id, config=CONFIG))
    for log in data_dir.logs.values():
        log.high_watermark = log.log_end_offset
    if clean:
        data_dir.close()
    else:
        data_dir.checkpoint()
        data_dir.abandon()
    return path


def run(*arguments: str | Path) -> Result:
    """Run `odradek log …` in this process."""
    result = CliRunner().invoke(main, ["log", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Turn one bit over."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)
