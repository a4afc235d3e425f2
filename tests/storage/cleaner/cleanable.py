"""A directory of segments to clean: batches go in, the cleaned batches come out."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from odradek.protocol.records import (
    BatchHeader,
    MarkerType,
    Record,
    build_batch,
    control_batch,
    iter_batches,
    iter_records,
    read_header,
)
from odradek.storage.cleaner.output import CLEANED_SUFFIX
from odradek.storage.files import FileSystem
from odradek.storage.jobs import Result, run_job
from odradek.storage.log.txn_index import AbortedTransaction, encode_aborted
from tests.storage.support import WALL_MS, UnsyncedFileSystem

RETENTION_MS: Final = 1000
Batch = tuple[BatchHeader, bytes]


def record(
    offset: int, key: bytes | None, value: bytes | None = b"v", timestamp: int = WALL_MS
) -> Record:
    return Record(offset, timestamp, key, value)


def marker(kind: MarkerType, offset: int, producer_id: int, *, epoch: int = 0) -> bytearray:
    return control_batch(
        kind,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=0,
        timestamp=WALL_MS,
        base_offset=offset,
    )


class Cleanable:
    """Finished segments in a directory, and the offset after them."""

    def __init__(self, path: Path, files: FileSystem | None = None) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.files = files or UnsyncedFileSystem()
        self.end_offset = 0
        self.first_dirty_offset = 0
        self.settings: dict[str, Any] = {}
        self.reports: list[int] = []

    def segment(self, *batches: bytes | bytearray, base_offset: int | None = None) -> None:
        """Add a segment; it begins where the last one ended."""
        base = self.end_offset if base_offset is None else base_offset
        self.file(base, "log").write_bytes(b"".join(batches))
        for suffix in ("index", "timeindex"):
            self.file(base, suffix).write_bytes(b"")
        self.end_offset = max([base, *(read_header(batch).next_offset for batch in batches)])

    def aborted(self, base_offset: int, *transactions: tuple[int, int, int, int]) -> None:
        """Write the transaction index of a segment."""
        entries = b"".join(encode_aborted(AbortedTransaction(*entry)) for entry in transactions)
        self.file(base_offset, "txnindex").write_bytes(entries)

    def file(self, base_offset: int, suffix: str) -> Path:
        return self.path / f"{base_offset:020d}.{suffix}"

    def names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()}

    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.log"))

    def arguments(self) -> dict[str, Any]:
        return {
            "directory": str(self.path),
            "segments": [
                {
                    "base_offset": base,
                    "size_bytes": self.file(base, "log").stat().st_size,
                    "next_offset": following,
                }
                for base, following in pairwise([*self.bases(), self.end_offset])
            ],
            "first_dirty_offset": self.first_dirty_offset,
            "end_offset": self.end_offset,
            "wall_ms": WALL_MS,
            "delete_retention_ms": RETENTION_MS,
            "segment_bytes": 1 << 20,
            "segment_index_bytes": 1 << 20,
            "index_interval_bytes": 200,
            "record_bytes_max": 1 << 20,
            "map_bytes": 1 << 20,
            "load_factor": 0.9,
            "io_buffer_bytes": 1 << 16,
            "producers": [],
            **self.settings,
        }

    def clean(self, **settings: Any) -> Result:
        """Run the job; nothing is swapped."""
        arguments = {**self.arguments(), **settings}
        return run_job("clean", arguments, self.files, self.reports.append)

    def clean_and_swap(self, **settings: Any) -> Result:
        """Run the job and put the new segments in the place of the old ones."""
        result = self.clean(**settings)
        for segment in result["segments"]:
            for base in segment["replaces"]:
                for suffix in ("log", "index", "timeindex", "txnindex"):
                    self.file(base, suffix).unlink(missing_ok=True)
            for path in self.path.glob(f"{segment['base_offset']:020d}.*{CLEANED_SUFFIX}"):
                path.rename(path.with_suffix(""))
        self.first_dirty_offset = result["end_offset"]
        return result

    def batches(self) -> list[Batch]:
        """All batches of the log, with their bytes."""
        return [
            (header, data[position : position + header.size_bytes])
            for base in self.bases()
            for data in (self.file(base, "log").read_bytes(),)
            for position, header in iter_batches(data)
        ]

    def records(self) -> list[tuple[int, bytes | None, bytes | None, int]]:
        """Offset, key, value and timestamp of all records that are data."""
        return [
            (
                each.offset,
                None if each.key is None else bytes(each.key),
                None if each.value is None else bytes(each.value),
                each.timestamp,
            )
            for header, data in self.batches()
            if not header.is_control
            for each in iter_records(data, header, size_bytes_max=1 << 24)
        ]

    def offsets(self) -> list[int]:
        return [offset for offset, *_ in self.records()]


def keyed(offset: int, *keys: str, **arguments: Any) -> bytearray:
    """A batch from `offset` on, a record a key; "k!" is a tombstone of k."""
    records = [
        record(offset + index, key.rstrip("!").encode(), None if "!" in key else b"value")
        for index, key in enumerate(keys)
    ]
    return build_batch(records, **arguments)


def cleaned(
    path: Path, *batches: bytes | bytearray, settings: Mapping[str, Any] | None = None
) -> Cleanable:
    """A log of one segment, cleaned once."""
    log = Cleanable(path)
    log.segment(*batches)
    log.clean_and_swap(**(settings or {}))
    return log


def keys_of(batches: Iterable[Batch]) -> list[Sequence[bytes]]:
    """The keys of each batch."""
    return [
        [bytes(each.key or b"") for each in iter_records(data, header, size_bytes_max=1 << 24)]
        for header, data in batches
    ]
