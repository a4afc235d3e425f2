"""Every file that Apache Kafka 3.9.2 left: decoded and encoded again it is the same, and what can
be made from its batches is what Kafka made."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.protocol.records import (
    Record,
    build_batch,
    control_batch,
    iter_batches,
    iter_records,
    read_marker,
)
from odradek.protocol.records.batch import HEADER, HEADER_SIZE_BYTES
from odradek.storage.directory.meta_properties import read_meta_properties, render_meta_properties
from odradek.storage.files import RealFileSystem
from odradek.storage.inspect.repair_side_files import final_time_entries
from odradek.storage.log import checkpoint
from odradek.storage.log.index import OFFSET_ENTRY, TIME_ENTRY
from odradek.storage.log.producer_snapshot import decode_snapshot, encode_snapshot
from odradek.storage.log.producer_state import ProducerState
from odradek.storage.log.segment_scan import ScanStart, scan_segment
from odradek.storage.log.txn_index import AbortedTransaction, decode_aborted, encode_aborted
from tests.support.unpacking import unpack

VECTORS = Path(__file__).parents[2] / "vectors" / "storage"
INTERVALS = {"t1": 200, "codecs": 1000, "aborts": 1000, "compacted": 1000}
# What a cleaned segment no longer tells: producers whose batches are gone are in its snapshot.
NOT_TOLD = {
    "compacted-0/00000000000000000630.snapshot",
    "compacted-0/00000000000000000945.snapshot",
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All recorded directories, unpacked side by side."""
    folder = tmp_path_factory.mktemp("golden")
    for path in VECTORS.glob("*.tgz"):
        unpack(path, folder)
    return folder


def segment_again(data: bytes) -> bytes:
    """Each batch from its fields; its records too, unless compression leaves a choice."""
    again = bytearray()
    for position, header in iter_batches(data):
        batch = memoryview(data)[position : position + header.size_bytes]
        if header.codec or not header.record_count:
            again += HEADER.pack(*header) + batch[HEADER_SIZE_BYTES:]
            continue
        if header.is_control and not header.has_delete_horizon:
            (record,) = iter_records(batch, header, size_bytes_max=100)
            marker = read_marker(record)
            again += control_batch(
                marker.type,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=header.max_timestamp,
                base_offset=header.base_offset,
                leader_epoch=header.partition_leader_epoch,
            )
            continue
        records = [
            Record(r.offset, r.timestamp, r.key, r.value, r.headers)
            for r in iter_records(batch, header, size_bytes_max=1 << 20)
        ]
        rebuilt = build_batch(
            records,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        # Compaction keeps a batch's base timestamp, and may set a horizon in its place.
        again += batch if records[0].timestamp != header.base_timestamp else rebuilt
    return bytes(again)


def owner_again(path: Path) -> bytes:
    """Java adds comments and has no order."""
    owner = read_meta_properties(RealFileSystem(), str(path))
    assert owner is not None
    return b"".join(sorted(render_meta_properties(owner).splitlines(keepends=True)))


def entries_again(entry: type, data: bytes) -> bytes:
    return b"".join(entry.pack(*numbers) for numbers in entry.iter_unpack(data))  # type: ignore[attr-defined]


AGAIN: dict[str, Callable[[bytes], bytes]] = {
    r".*\.log": segment_again,
    r".*\.index": lambda data: entries_again(OFFSET_ENTRY, data),  # type: ignore[arg-type]
    r".*\.timeindex": lambda data: entries_again(TIME_ENTRY, data),  # type: ignore[arg-type]
    r".*\.txnindex": lambda data: b"".join(map(encode_aborted, decode_aborted(data))),
    r".*\.snapshot": lambda data: encode_snapshot(decode_snapshot(data)),
    checkpoint.LEADER_EPOCH: lambda data: checkpoint.render_epochs(checkpoint.parse_epochs(data)),
    checkpoint.PARTITION_METADATA: lambda data: checkpoint.render_partition_metadata(
        checkpoint.parse_partition_metadata(data)
    ),
    r"(recovery-point|replication|log-start|cleaner)-offset-checkpoint": lambda data: (
        checkpoint.render_offsets(checkpoint.parse_offsets(data))
    ),
    r"\.kafka_cleanshutdown": lambda data: checkpoint.CLEAN_SHUTDOWN_TEXT,
}


@pytest.mark.slow
def test_every_file_is_encoded_as_it_was(golden: Path) -> None:
    seen = set()
    for path in sorted(golden.rglob("*")):
        name = path.relative_to(golden).as_posix()
        if path.is_dir():
            continue
        data = path.read_bytes()
        if path.name == "meta.properties":
            lines = data.splitlines(keepends=True)
            kept = sorted(line for line in lines if not line.startswith(b"#"))
            assert owner_again(path) == b"".join(kept), name
        elif data:  # Kafka makes empty files where there is nothing to say
            kind = next(kind for kind in AGAIN if re.fullmatch(kind, path.name))
            assert AGAIN[kind](data) == data, name
            seen.add(kind)
    assert seen == AGAIN.keys()


def rebuilt(directory: Path) -> dict[str, bytes]:
    """All side files of a partition, made from its `.log` files."""
    interval_bytes = INTERVALS.get(directory.name.rpartition("-")[0], 4096)
    producers, made = ProducerState(), {}
    epochs: list[tuple[int, int]] = []
    for path in sorted(directory.glob("*.log")):
        aborted, base_offset = bytearray(), int(path.stem)
        made[f"{path.stem}.snapshot"] = encode_snapshot(producers)
        file = RealFileSystem().open_log(str(path), path.stat().st_size)

        def note(header, batch, aborted=aborted):  # type: ignore[no-untyped-def]
            ended = producers.note(header, batch, header.base_offset, header.max_timestamp)
            if ended is not None and ended.is_aborted:
                first_open = producers.transactions.first_open_offset()
                stable = ended.last_offset + 1 if first_open is None else first_open
                fields = ended.producer_id, ended.first_offset, ended.last_offset, stable
                aborted += encode_aborted(AbortedTransaction(*fields))

        scan = scan_segment(
            file,
            base_offset,
            ScanStart(),
            index_interval_bytes=interval_bytes,
            on_producer_batch=note,
        )
        file.close()
        assert scan.problem is None
        made[f"{path.stem}.index"] = bytes(scan.offset_entries)
        made[f"{path.stem}.timeindex"] = final_time_entries(scan, base_offset)
        made[f"{path.stem}.txnindex"] = bytes(aborted)
        epochs += [entry for entry in scan.epochs if not epochs or entry[0] > epochs[-1][0]]
        end = scan.next_offset
    made[f"{end:020d}.snapshot"] = encode_snapshot(producers)
    made[checkpoint.LEADER_EPOCH] = checkpoint.render_epochs(epochs)
    return made


def test_side_files_made_from_the_batches_are_kafkas(golden: Path) -> None:
    """Kafka is deterministic but for: a leadership without records, which no batch tells; producers
    in snapshots of segments that were cleaned later; where an epoch began whose first batches were
    cleaned away."""
    count = 0
    for directory in sorted(path for path in golden.glob("*/*") if path.is_dir()):
        made = rebuilt(directory)
        for path in directory.iterdir():
            name = f"{directory.name}/{path.name}"
            if path.suffix in (".log", ".metadata") or name in NOT_TOLD:
                continue
            if path.name == checkpoint.LEADER_EPOCH:
                end = max(int(name[:20]) for name in made if name.endswith(".snapshot"))
                told = checkpoint.parse_epochs(made[path.name])
                kafkas = checkpoint.parse_epochs(path.read_bytes())
                kafkas = [(epoch, start) for epoch, start in kafkas if start < end]
                if directory.name.startswith("compacted"):
                    told, kafkas = [(e, 0) for e, _ in told], [(e, 0) for e, _ in kafkas]
                assert told == kafkas, name
            else:
                assert made[path.name] == path.read_bytes(), name
                count += 1
    assert count >= 100
