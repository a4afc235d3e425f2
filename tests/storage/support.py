"""What the tests of the log share: small batches, a log in a directory, a look at what it holds."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odradek.protocol.records import Record, build_batch, iter_batches, iter_records, read_header
from odradek.storage.files import FileSystem, RealFileSystem
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.staging import Staged
from odradek.storage.recovery.load import LoadHints, create_log, load_log

WALL_MS: Final = 1_700_000_000_000
SMALL: Final = LogConfig(segment_bytes=1000, index_interval_bytes=100)


class UnsyncedFileSystem(RealFileSystem):
    """A disk whose fsync does nothing: most tests do not cut the power."""

    def fsync(self, descriptor: int) -> None:
        """Do nothing."""


UNCLEAN: Final = LoadHints(clean=False)


def new_log(path: Path, config: LogConfig = SMALL, files: FileSystem | None = None) -> Log:
    """An empty partition t-0 below `path`."""
    directory = str(path / "t-0")
    files = files or UnsyncedFileSystem()
    return create_log(files, directory, "t", 0, topic_id=bytes(range(16)), config=config)


def reload(
    log: Log,
    hints: LoadHints = UNCLEAN,
    *,
    files: FileSystem | None = None,
    wall_ms: int = WALL_MS,
) -> Log:
    """Load the log's directory as another process would."""
    return load_log(
        files or UnsyncedFileSystem(),
        log.directory,
        log.topic,
        log.partition,
        config=log.config,
        hints=hints,
        wall_ms=wall_ms,
    )


def clean_hints(log: Log) -> LoadHints:
    """What the checkpoints say after a clean stop of `log`."""
    return LoadHints(
        clean=True,
        recovery_point=log.log_end_offset,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
    )


def batch_of(
    values: Sequence[bytes],
    *,
    timestamp: int = WALL_MS,
    producer_id: int = -1,
    producer_epoch: int = 0,
    base_sequence: int = 0,
    codec: int = 0,
) -> memoryview:
    """A batch with one record a value, all of one timestamp."""
    records = [Record(index, timestamp, None, value) for index, value in enumerate(values)]
    if producer_id < 0:
        return memoryview(build_batch(records, codec=codec))
    return memoryview(
        build_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


def append(log: Log, batch: memoryview, *, leader_epoch: int = 0, wall_ms: int = WALL_MS) -> int:
    """Append as the leader does."""
    return log.append(batch, read_header(batch), leader_epoch=leader_epoch, wall_ms=wall_ms)


def append_values(log: Log, *values: bytes, leader_epoch: int = 0) -> int:
    """Append one batch with these values."""
    return append(log, batch_of(values), leader_epoch=leader_epoch)


def flush(log: Log) -> None:
    """Make safe what there is, of which some is not, and move the recovery point."""
    plan = log.flush_plan()
    assert plan is not None
    plan.run()
    log.flushed(plan)


def read_bytes(log: Log, offset: int, *, size_bytes_max: int = 1 << 20) -> bytes:
    """One read up to the log end; b"" if there is nothing."""
    span = log.read(offset, size_bytes_max=size_bytes_max, offset_end=log.log_end_offset)
    if span is None:
        return b""
    try:
        return span.read()
    finally:
        span.release()


def contents(log: Log, *, size_bytes_max: int = 1 << 20) -> list[tuple[int, bytes]]:
    """(offset, value) of every record from the log start on, as a consumer reads them."""
    found = []
    offset = log.log_start_offset
    while data := read_bytes(log, offset, size_bytes_max=size_bytes_max):
        for position, header in iter_batches(data):
            batch = memoryview(data)[position : position + header.size_bytes]
            for record in iter_records(batch, header, size_bytes_max=1 << 20):
                if record.offset >= offset:
                    found.append((record.offset, bytes(record.value or b"")))
            next_offset = header.next_offset
        offset = next_offset
    return found


def files_of(directory: str) -> dict[str, bytes]:
    """Name and bytes of each file."""
    return {path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())}


def slow_staged(begun: threading.Event, go_on: threading.Event) -> type[Staged]:
    """A `Staged` that says when it has begun to write, and waits until it may go on."""

    class Slow(Staged):
        __slots__ = ()

        def _write(self, data: memoryview, position: int) -> None:
            begun.set()
            assert go_on.wait(60)
            super()._write(data, position)

    return Slow
