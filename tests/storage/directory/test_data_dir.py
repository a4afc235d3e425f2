"""The data directory: lock, owner, marker, checkpoints, unknown and deleted directories."""

import logging
import os
from pathlib import Path

import pytest

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.meta_properties import MetaProperties
from odradek.storage.errors import DataDirError, LogDirFailed
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.plans import create_together

from ..support import WALL_MS, UnsyncedFileSystem, append_values, contents

CLUSTER_ID = "abcdefghijklmnopqrstuv"
MARKER = ".kafka_cleanshutdown"


def opened(path: Path, broker_id: int = 1, cluster_id: str = CLUSTER_ID) -> DataDir:
    return DataDir.open(
        str(path),
        broker_id,
        cluster_id,
        UnsyncedFileSystem(),
        config_of=lambda topic: LogConfig(),
        wall_ms=WALL_MS,
    )


def with_records(path: Path, count: int = 5) -> DataDir:
    data_dir = opened(path)
    log = data_dir.create_log("t", 0, topic_id=bytes(16), config=LogConfig())
    for number in range(count):
        append_values(log, b"%d" % number)
    log.high_watermark = count
    return data_dir


def test_a_clean_stop_leaves_everything_for_the_next_start(tmp_path: Path) -> None:
    data_dir = with_records(tmp_path / "new" / "data")
    log = data_dir.logs["t", 0]
    log.advance_log_start(2)
    data_dir.close()
    assert (tmp_path / "new/data" / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    again = opened(tmp_path / "new" / "data")
    log = again.logs["t", 0]
    assert again.was_clean
    assert not (tmp_path / "new/data" / MARKER).exists()
    assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (2, 5, 5)
    assert log.topic_id == bytes(16)
    assert [offset for offset, _ in contents(log)] == [2, 3, 4]
    again.abandon()


def test_a_crash_loses_nothing_that_was_written(tmp_path: Path) -> None:
    data_dir = with_records(tmp_path)
    data_dir.checkpoint()
    append_values(data_dir.logs["t", 0], b"5")
    data_dir.abandon()
    again = opened(tmp_path)
    assert not again.was_clean
    assert len(contents(again.logs["t", 0])) == 6
    assert again.logs["t", 0].high_watermark == 5
    again.abandon()


@pytest.mark.parametrize(
    "name", ["recovery-point-offset", "replication-offset", "log-start-offset"]
)
@pytest.mark.parametrize("text", [None, "", "x", "0\n2\nt 0 5\n", "1\n0\n", "0\n1\nt 0 5"])
def test_a_marker_without_all_checkpoints_is_not_trusted(
    tmp_path: Path, name: str, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with_records(tmp_path).close()
    log_path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(log_path.read_bytes())
    data[-1] ^= 1  # only a scan sees it
    log_path.write_bytes(data)
    path = tmp_path / f"{name}-checkpoint"
    path.unlink() if text is None else path.write_text(text)
    again = opened(tmp_path)
    assert again.logs["t", 0].log_end_offset == 4
    assert len(contents(again.logs["t", 0])) == 4
    assert ("checkpoint unreadable" in caplog.text) == bool(text)
    again.abandon()


def test_a_partition_that_the_checkpoint_does_not_name_is_scanned(tmp_path: Path) -> None:
    with_records(tmp_path).close()
    os.rename(tmp_path / "t-0", tmp_path / "t-7")
    again = opened(tmp_path)
    assert again.logs["t", 7].recovery_point == 0
    assert again.logs["t", 7].log_end_offset == 5
    again.abandon()


def test_unknown_directories_are_named_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["lost+found", "t-01", "t--1", "-1", "t-0.abc-delete", "t-0-stray", "store"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").write_text("not a directory")
    with caplog.at_level(logging.WARNING):
        data_dir = opened(tmp_path)
    assert list(data_dir.logs) == [("t-", 1)]  # topic "t-", partition 1: a good name
    for name in names:
        assert (tmp_path / name).is_dir()
        assert (f"/{name}" in caplog.text) == (name != "t--1")
    data_dir.abandon()


def test_unfinished_deletions_are_handed_out_once(tmp_path: Path) -> None:
    data_dir = with_records(tmp_path)
    data_dir.delete_log("t", 0, bytes(16))
    assert data_dir.logs == {}
    data_dir.close()
    again = opened(tmp_path)
    assert again.logs == {}
    (plan,) = again.deleted_plans()
    plan.run()
    plan.run()
    assert again.deleted_plans() == []
    assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]
    log = again.create_log("t", 0, topic_id=None, config=LogConfig())
    assert log.log_end_offset == 0
    again.abandon()


def sentence(error: pytest.ExceptionInfo[DataDirError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    data_dir = opened(tmp_path)
    with pytest.raises(DataDirError) as error:
        opened(tmp_path)
    assert "is locked by another broker" in sentence(error)
    data_dir.close()
    opened(tmp_path).close()


def test_another_owner_is_refused_and_the_lock_given_back(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(DataDirError) as error:
        opened(tmp_path, broker_id=2)
    assert "belongs to broker 1, not to broker 2" in sentence(error)
    with pytest.raises(DataDirError) as error:
        opened(tmp_path, cluster_id="x" * 22)
    assert f"belongs to the cluster {CLUSTER_ID}, not" in sentence(error)
    opened(tmp_path).close()


def test_the_owner_can_be_read_before_the_directory_is_claimed(tmp_path: Path) -> None:
    data_dir = DataDir.lock(str(tmp_path), UnsyncedFileSystem())
    assert data_dir.stored_owner() is None
    data_dir.identify(4, CLUSTER_ID)
    assert data_dir.stored_owner() == MetaProperties(4, CLUSTER_ID)
    data_dir.load(lambda topic: LogConfig(), WALL_MS)
    data_dir.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version=1\nnode.id=1\ncluster.id=x\n", "version 1"),
        ("", "unreadable"),
        ("version=0\nbroker.id=one\ncluster.id=x\n", "unreadable"),
        ("version=0\ncluster.id=x\n", "unreadable"),
        ("version=2\nbroker.id=1\ncluster.id=x\n", "newer broker"),
        ("\x00\x01", "unreadable"),
    ],
)
def test_foreign_properties_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(DataDirError) as error:
        opened(tmp_path)
    assert words in sentence(error)
    assert (tmp_path / "meta.properties").read_text() == text


def test_properties_as_java_writes_them_are_read(tmp_path: Path) -> None:
    text = "#\n#Fri Nov 20 23:56:09 UTC 2026\r\nbroker.id = 1\n!x\ncluster.id:a\\=b\nversion=0\n"
    (tmp_path / "meta.properties").write_text(text)
    opened(tmp_path, cluster_id="a=b").close()


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirError) as error:
        opened(tmp_path / "file")
    assert "not writable" in sentence(error)


def test_a_partition_of_an_old_format_is_not_served_and_the_others_are(tmp_path: Path) -> None:
    import struct
    import zlib

    with_records(tmp_path).close()
    os.rename(tmp_path / "t-0", tmp_path / "u-1")
    body = struct.pack(">bbii", 0, 0, -1, 1) + b"v"
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(message)
    data_dir = opened(tmp_path)
    assert list(data_dir.logs) == [("u", 1)]
    unserved = data_dir.unserved["t", 0]
    assert "messages of format 0" in unserved.reason
    data_dir.close()
    points = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert sorted(points.splitlines()[2:]) == ["t 0 5", "u 1 5"]  # what was known stays known
    assert (tmp_path / "t-0" / f"{0:020d}.log").read_bytes() == message
    again = opened(tmp_path)
    path = again.set_unserved_aside("t", 0, bytes(16))
    assert path == f"{tmp_path}/t-0.{'0' * 32}-stray"
    assert (Path(path) / f"{0:020d}.log").read_bytes() == message
    again.abandon()


def test_checkpoints_hold_what_kafka_expects(tmp_path: Path) -> None:
    data_dir = with_records(tmp_path)
    data_dir.checkpoint()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 0\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert (tmp_path / "t-0" / "partition.metadata").read_bytes() == (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"
    )
    data_dir.abandon()


def test_foreign_files_are_named_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_records(tmp_path).close()
    for name in ("notes.txt", "u-3", ".hidden", "t-0/readme", "x" * 250 + "-0"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "t-0" / "sub").mkdir()
    data_dir = opened(tmp_path)
    assert [offset for offset, _ in contents(data_dir.logs["t", 0])] == list(range(5))
    assert "a file where a directory should be" in data_dir.unserved["u", 3].reason
    for name in ("notes.txt", "u-3", "x" * 250 + "-0", "t-0/sub"):
        assert (
            caplog.text.count(f"{tmp_path}/{name} ") + caplog.text.count(f"{tmp_path}/{name}\n")
            == 1
        )
    assert ".hidden" not in caplog.text
    data_dir.close()
    for name in ("notes.txt", "u-3", ".hidden", "t-0/readme", "x" * 250 + "-0"):
        assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version=1\nnode.id=1\n", "KRaft"),
        ("version=7\nbroker.id=1\n", "newer broker"),
        ("", "unreadable"),
        ("version=zero\nbroker.id=1\ncluster.id=x\n", "unreadable"),
    ],
)
def test_an_owner_that_cannot_be_understood_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(DataDirError) as error:
        opened(tmp_path)
    assert said in sentence(error)
    assert (tmp_path / "meta.properties").read_text() == text


class UnsyncableFiles(UnsyncedFileSystem):
    """What has this in its path can't be synced."""

    where = ""

    def sync_path(self, path: str) -> None:
        if self.where in path:
            raise LogDirFailed(f"{path}: Input/output error", path)
        super().sync_path(path)


def test_partitions_that_can_not_be_made_safe_are_not_made(tmp_path: Path) -> None:
    for where in ("/t-1/partition.metadata", "/t-1", ""):
        files = UnsyncableFiles()
        path = tmp_path / f"data-{len(where)}"
        data_dir = DataDir.lock(str(path), files)
        plans = [
            data_dir.create_plan("t", number, topic_id=bytes(16), config=LogConfig(), epoch=0)
            for number in range(3)
        ]
        files.where = where
        create_together(plans)
        failed = [plan.error is not None for plan in plans]
        assert failed == ([False, True, False] if where else [True] * 3)
        made = [f"t-{number}" for number, plan in enumerate(plans) if plan.log is not None]
        assert sorted(name for name in os.listdir(path) if name[0] == "t") == made
        data_dir.abandon()
