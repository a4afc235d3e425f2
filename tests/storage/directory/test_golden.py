"""What Apache Kafka 3.9.2 left after a clean stop: loaded, rebuilt, written again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.protocol.records import iter_batches
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.log import checkpoint
from odradek.storage.log.checkpoint import (
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
    render_epochs,
    render_offsets,
    render_partition_metadata,
)
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.producer_snapshot import decode_snapshot, encode_snapshot
from tests.support.unpacking import unpack

from ..support import WALL_MS, UnsyncedFileSystem, files_of

VECTORS = Path(__file__).parents[2] / "vectors" / "storage"
SIDE_FILES = {".index", ".timeindex", ".txnindex", ".snapshot"}
CLUSTER_ID = "DF6CJiF1SOisoG3tlt_D8A"
CONFIGS = {"t1": LogConfig(segment_bytes=20_000, index_interval_bytes=200)}
KAFKA_WALL_MS = 1_795_219_040_000  # the time of the recording: no producer has expired


def config_of(topic: str) -> LogConfig:
    return CONFIGS.get(topic, LogConfig())


def unpacked(number: int, tmp_path: Path) -> tuple[int, Path]:
    unpack(VECTORS / f"kafka-3.9.2-broker-{number}.tgz", tmp_path)
    return number, tmp_path / f"b{number}"


@pytest.fixture(params=[1, 2])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[int, Path]:
    return unpacked(request.param, tmp_path)


def opened(broker: tuple[int, Path], wall_ms: int = KAFKA_WALL_MS) -> DataDir:
    number, path = broker
    files = UnsyncedFileSystem()
    return DataDir.open(str(path), number, CLUSTER_ID, files, config_of=config_of, wall_ms=wall_ms)


def partition_files(path: Path) -> dict[str, dict[str, bytes]]:
    return {entry.name: files_of(str(entry)) for entry in path.iterdir() if entry.is_dir()}


def test_a_clean_directory_is_loaded_without_a_scan(broker: tuple[int, Path]) -> None:
    data_dir = opened(broker)
    ends = {f"{t}-{p}": log.log_end_offset for (t, p), log in data_dir.logs.items()}
    assert data_dir.was_clean
    assert (ends["t1-0"], ends["t1-1"], ends["t2-0"], ends["t2-1"]) == (194, 150, 8, 0)
    for log in data_dir.logs.values():
        assert log.high_watermark == log.recovery_point == log.log_end_offset
        assert log.unflushed_bytes == 0
    assert len({log.topic_id for (topic, _), log in data_dir.logs.items() if topic == "t1"}) == 1
    data_dir.abandon()


def test_opened_and_closed_it_is_the_same_byte_for_byte(broker: tuple[int, Path]) -> None:
    before = partition_files(broker[1])
    offsets = {
        name: parse_offsets((broker[1] / name).read_bytes())
        for name in (checkpoint.RECOVERY_POINT, checkpoint.HIGH_WATERMARK, checkpoint.LOG_START)
    }
    opened(broker).close()
    assert partition_files(broker[1]) == before
    for name, expected in offsets.items():
        assert parse_offsets((broker[1] / name).read_bytes()) == expected
    assert (broker[1] / checkpoint.CLEAN_SHUTDOWN).read_bytes() == checkpoint.CLEAN_SHUTDOWN_TEXT


def test_side_files_are_rebuilt_byte_for_byte_from_the_batches(broker: tuple[int, Path]) -> None:
    """What Kafka wrote beside its batches, a recovery that has only the batches writes too."""
    before = partition_files(broker[1])
    removed = set()
    for path in broker[1].glob("*/*"):
        if path.suffix in SIDE_FILES:
            path.unlink()
            removed.add(path.suffix)
    assert removed == SIDE_FILES
    (broker[1] / checkpoint.CLEAN_SHUTDOWN).unlink()
    (broker[1] / checkpoint.RECOVERY_POINT).unlink()
    opened(broker).close()
    after = partition_files(broker[1])
    for files in (*before.values(), *after.values()):
        files.pop(checkpoint.LEADER_EPOCH, None)  # an epoch without records is in no batch
    assert after == before


def test_small_files_are_encoded_as_they_were(broker: tuple[int, Path]) -> None:
    written_again: dict[str, Callable[[bytes], bytes]] = {
        "*/*.snapshot": lambda data: encode_snapshot(decode_snapshot(data)),
        f"*/{checkpoint.LEADER_EPOCH}": lambda data: render_epochs(parse_epochs(data)),
        f"*/{checkpoint.PARTITION_METADATA}": lambda data: render_partition_metadata(
            parse_partition_metadata(data)
        ),
        "*-offset-checkpoint": lambda data: render_offsets(parse_offsets(data)),
    }
    for pattern, write_again in written_again.items():
        paths = list(broker[1].glob(pattern))
        assert paths, pattern
        for path in paths:
            assert write_again(path.read_bytes()) == path.read_bytes()


def test_appending_the_same_batches_writes_the_same_indexes(tmp_path: Path) -> None:
    """Broker 1 led t1-0: `.log`, `.index`, `.timeindex` and snapshot equal Kafka's."""
    broker = unpacked(1, tmp_path)
    before = partition_files(broker[1])["t1-0"]
    shutil.rmtree(broker[1])
    data_dir = opened(broker)
    log = data_dir.create_log("t1", 0, topic_id=None, config=CONFIGS["t1"])
    batches = bytearray(before[f"{0:020d}.log"])
    for position, header in iter_batches(batches):
        batch = memoryview(batches)[position : position + header.size_bytes]
        epoch = header.partition_leader_epoch
        assert log.append(batch, header, leader_epoch=epoch, wall_ms=WALL_MS) == header.base_offset
    log.assign_leader_epoch(1)
    data_dir.close()
    after = partition_files(broker[1])["t1-0"]
    del before[checkpoint.PARTITION_METADATA]
    assert after == before


def test_an_open_transaction_bounds_the_last_stable_offset(broker: tuple[int, Path]) -> None:
    path = broker[1] / "t1-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-78])  # without the last marker
    (broker[1] / checkpoint.CLEAN_SHUTDOWN).unlink()
    data_dir = opened(broker)
    log: Log = data_dir.logs["t1", 0]
    assert (log.high_watermark, log.last_stable_offset) == (193, 183)
    data_dir.abandon()


def test_expired_producers_are_not_taken_over(broker: tuple[int, Path]) -> None:
    day_ms = 24 * 3600 * 1000
    data_dir = opened(broker, KAFKA_WALL_MS + 2 * day_ms)
    assert len(data_dir.logs["t1", 0].producers) == 0
    data_dir.abandon()
