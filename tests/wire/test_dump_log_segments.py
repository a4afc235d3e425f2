"""Kafka's DumpLogSegments reads the directories that we write, and says what our dump says.

The directories are written through the storage, without a broker; what brokers and clients leave
is in test_log_files.py.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.protocol.group_records import GroupRecord, encode_record
from odradek.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.records import (
    Codec,
    MarkerType,
    Record,
    build_batch,
    control_batch,
    read_header,
)
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.files import RealFileSystem
from odradek.storage.inspect import Finding, Grade, ReadOnlyFileSystem
from odradek.storage.inspect.check_directory import check_directory
from odradek.storage.inspect.context import Context
from odradek.storage.jobs import run_job
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.upkeep.cleanable import cleanable
from odradek.storage.upkeep.swap import Swap
from tests.kafka.java import ToolRunner
from tests.support.unpacking import unpack
from tests.wire.kafka_dump import in_kafkas_words

pytestmark = pytest.mark.java

WALL_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=500)
VECTORS = Path(__file__).parents[1] / "vectors" / "storage"
SIDE_FILES = (".index", ".timeindex", ".txnindex", ".snapshot")
NO_ENTRY = re.compile(r"|Log starting offset: \d+|/\S+ is empty\.")
# So it complains of Kafka's own empty batches: it looks for the time in the records.
FALSE_ALARM = re.compile(
    r"^Found timestamp mismatch in :\S+\n  Index timestamp: \d+, log timestamp: -1\n", re.M
)
# What a compaction removed.
GAPS = re.compile(r"^Non-consecutive offsets in \S+\n(  \d+ is followed by \d+\n)+", re.M)
COMPLAINT = re.compile(
    r"mismatch|corrupt|\binvalid\b|isvalid: false|could not|non-consecutive|found timestamp", re.I
)


@pytest.fixture
def tools(runners: Mapping[str, ToolRunner]) -> ToolRunner:
    return runners["3.9.2"]


def said(
    tools: ToolRunner, files: list[Path], *arguments: str, gaps: bool = False
) -> dict[Path, list[str]]:
    """What the tool prints of each file; it must not complain."""
    ended = tools.run("DumpLogSegments", "--files", ",".join(map(str, files)), *arguments)
    complaints = FALSE_ALARM.sub("", ended.stderr)
    printed = ended.stdout + (GAPS.sub("", complaints) if gaps else complaints)
    complaint = COMPLAINT.search(printed)
    assert complaint is None, printed[max(0, complaint.start() - 300) : complaint.end() + 500]
    parts = re.split(r"^Dumping (.*)\n", ended.stdout, flags=re.M)[1:]
    return {
        Path(path): [line for line in part.splitlines() if not NO_ENTRY.fullmatch(line)]
        for path, part in zip(parts[::2], parts[1::2], strict=True)
    }


def assert_same(tools: ToolRunner, folder: Path, *, gaps: bool = False) -> int:
    """Both dumps of everything below `folder` are the same, line by line; their count."""
    count = 0
    logs = sorted(folder.rglob("*.log"))
    sides = sorted(path for path in folder.rglob("*") if path.suffix in SIDE_FILES)
    found = said(tools, logs, "--deep-iteration", "--print-data-log", gaps=gaps)
    found |= said(tools, sides)
    for path in (*logs, *sides):
        assert list(in_kafkas_words(path)) == found.get(path, []), path
        count += len(found.get(path, []))
    indexes = [path for path in sides if path.suffix in (".index", ".timeindex")]
    said(tools, indexes, "--verify-index-only")
    sane = said(tools, indexes, "--index-sanity-check")
    for path in indexes:
        passed = any("passed sanity check" in line for line in sane[path])
        assert passed or not path.stat().st_size, path
    return count


def opened(path: Path) -> DataDir:
    return DataDir.open(
        str(path),
        0,
        "b2RyYWRlay10ZXN0cy0wMQ",
        RealFileSystem(),
        config_of=lambda topic: CONFIG,
        wall_ms=WALL_MS,
    )


def append(log: Log, batch: bytearray, epoch: int = 0) -> None:
    log.append(memoryview(batch), read_header(batch), leader_epoch=epoch, wall_ms=WALL_MS)


def fill(log: Log, rounds: int = 6) -> None:
    """All codecs, headers, tombstones, idempotent producers, transactions."""
    sequence, epoch = 0, max(0, log.epochs.latest)
    for number in range(rounds * len(Codec)):
        records = [
            Record(n, WALL_MS + number * 10 + n, b"key %d" % n, b"value " * n, [("h", None)] * n)
            for n in range(8)
        ]
        records[3].value, records[4].key = None, None
        codec = list(Codec)[number % len(Codec)]
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        append(log, build_batch(records, codec=codec, **producer), epoch)  # type: ignore[arg-type]
        sequence += len(records)
        append(log, build_batch([Record(0, WALL_MS, None, b"plain")], codec=codec), epoch)
        append(
            log,
            build_batch(
                [Record(0, WALL_MS + number, b"k", b"in a transaction")],
                producer_id=9,
                producer_epoch=1,
                base_sequence=number,
                is_transactional=True,
            ),
            epoch,
        )
        marker = MarkerType.COMMIT if number % 3 else MarkerType.ABORT
        append(
            log,
            control_batch(
                marker, producer_id=9, producer_epoch=1, coordinator_epoch=2, timestamp=WALL_MS
            ),
            epoch,
        )
        epoch += number % 10 == 9


def test_what_we_write(tools: ToolRunner, tmp_path: Path) -> None:
    data_dir = opened(tmp_path)
    fill(data_dir.create_log("t", 0, topic_id=None, config=CONFIG))
    data_dir.create_log("empty", 0, topic_id=None, config=CONFIG)
    data_dir.close()
    assert len(list((tmp_path / "t-0").glob("*.log"))) > 2
    assert assert_same(tools, tmp_path) > 400


def test_after_a_truncation(tools: ToolRunner, tmp_path: Path) -> None:
    data_dir = opened(tmp_path)
    log = data_dir.create_log("t", 0, topic_id=None, config=CONFIG)
    fill(log)
    log.truncate(log.log_end_offset - 100)
    fill(log, rounds=1)
    data_dir.close()
    assert assert_same(tools, tmp_path) > 400


def test_after_a_kill_and_recovery(tools: ToolRunner, tmp_path: Path) -> None:
    data_dir = opened(tmp_path)
    fill(data_dir.create_log("t", 0, topic_id=None, config=CONFIG))
    data_dir.abandon()
    newest = max((tmp_path / "t-0").glob("*.log"))
    newest.write_bytes(newest.read_bytes()[:-20])
    data_dir = opened(tmp_path)
    fill(data_dir.logs["t", 0], rounds=1)
    data_dir.close()
    assert assert_same(tools, tmp_path) > 400


def compact(log: Log) -> None:
    """Clean all but the active segment, and swap."""
    log.high_watermark = log.log_end_offset
    found = cleanable(log, WALL_MS)
    result = run_job(
        "clean",
        {
            "directory": log.directory,
            "segments": [
                {"base_offset": one.base_offset, "size_bytes": one.size_bytes, "next_offset": end}
                for one, end in found.segments()
            ],
            "first_dirty_offset": found.first_dirty_offset,
            "end_offset": found.end_offset,
            "wall_ms": WALL_MS,
            "delete_retention_ms": 0,
            "segment_bytes": CONFIG.segment_bytes,
            "segment_index_bytes": CONFIG.segment_index_bytes,
            "index_interval_bytes": CONFIG.index_interval_bytes,
            "record_bytes_max": 1 << 20,
            "map_bytes": 1 << 20,
            "load_factor": 0.9,
            "io_buffer_bytes": 1 << 16,
            "producers": found.producers(),
        },
        log.files,
        lambda _: None,
    )
    assert result["segments"]
    for segment in result["segments"]:
        swap = Swap(log, segment["base_offset"], segment["replaces"])
        for step in (swap.begin, swap.switch, swap.retire, swap.settle, swap.sync):
            step()
    log.cleaner_offset = result["end_offset"]


def test_after_a_compaction(tools: ToolRunner, tmp_path: Path) -> None:
    """Batches that were compressed anew, dropped markers, gaps."""
    data_dir = opened(tmp_path)
    log = data_dir.create_log("t", 0, topic_id=None, config=replace(CONFIG, compacts=True))
    fill(log)
    size_bytes = sum(segment.size_bytes for segment in log.segments)
    compact(log)
    assert sum(segment.size_bytes for segment in log.segments) < size_bytes // 2
    fill(log, rounds=1)
    data_dir.close()
    assert assert_same(tools, tmp_path, gaps=True) > 100
    findings: list[Finding] = []
    check_directory(
        ReadOnlyFileSystem(), str(tmp_path), Context(deep=True), findings.append, lambda _: None
    )
    assert [one for one in findings if one.grade != Grade.HARMLESS] == []  # .deleted files


def test_records_of_groups(tools: ToolRunner, tmp_path: Path) -> None:
    data_dir = opened(tmp_path)
    log = data_dir.create_log("__consumer_offsets", 0, topic_id=None, config=CONFIG)
    for n in range(5):
        key = OffsetCommitKey(group="g", topic="t", partition=n)
        value = OffsetCommitValue(offset=n, metadata="m", commit_timestamp=WALL_MS) if n else None
        append(log, build_batch([Record(0, WALL_MS, *encode_record(GroupRecord(key, value)))]))
    data_dir.close()
    path = next(tmp_path.rglob("*.log"))
    lines = said(tools, [path], "--offsets-decoder", "--print-data-log")[path]
    decoded = [line for line in lines if line.startswith("|")]
    assert len(decoded) == 5
    for n, line in enumerate(decoded):
        assert f'"group":"g","topic":"t","partition":{n}' in line
        assert n == 0 or f'"offset":{n},"leaderEpoch":-1,"metadata":"m"' in line


def test_what_kafka_wrote(tools: ToolRunner, tmp_path: Path) -> None:
    """Several segments of every codec, aborts, a cleaned topic with empty batches."""
    unpack(VECTORS / "kafka-3.9.2-segments.tgz", tmp_path)
    for folder in ("codecs-0", "aborts-0", "compacted-0"):
        assert assert_same(tools, tmp_path / "segments" / folder) > 50
