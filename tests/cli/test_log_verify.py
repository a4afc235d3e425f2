"""`odradek log verify`: exit codes and sentences."""

import json
import os
from pathlib import Path

import pytest

from odradek.protocol.records import HEADER_SIZE_BYTES, Record, build_batch
from odradek.protocol.records.batch import crc32c
from odradek.storage.inspect.check_partition import PartitionReport
from odradek.storage.log.txn_index import AbortedTransaction, decode_aborted, encode_aborted
from tests.support.unpacking import unpack

from .log_files import CONFIG, append, fill, flip, make_directory, opened, run

VECTORS = Path(__file__).parents[1] / "vectors" / "storage"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "data")


@pytest.fixture
def unclean(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "data", clean=False)


def segments(directory: Path, partition: str = "t-0") -> list[Path]:
    return sorted((directory / partition).glob("*.log"))


def test_sound(directory: Path) -> None:
    for arguments in ([], ["--deep"], ["--while-running"]):
        done = run("verify", directory, *arguments)
        assert done.exit_code == 0
        assert f"{directory} is sound: nothing found in " in done.output
    assert run("verify", directory / "t-0").exit_code == 0


@pytest.mark.parametrize("name", ["broker-1", "broker-2", "segments"])
def test_what_kafka_left_is_sound(tmp_path: Path, name: str) -> None:
    unpack(VECTORS / f"kafka-3.9.2-{name}.tgz", tmp_path)
    (directory,) = tmp_path.iterdir()
    done = run("verify", directory, "--deep")
    assert done.exit_code == 0 and "is sound: nothing found" in done.output, done.output


def test_nothing_is_changed(directory: Path) -> None:
    flip(segments(directory)[0], 100)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in _all(directory)}
    run("verify", directory, "--deep")
    run("repair", directory)
    run("dump", directory, "--records")
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in _all(directory)} == (
        before
    )


def _all(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


def test_a_flipped_bit_in_a_batch(directory: Path) -> None:
    flip(segments(directory)[0], 100)
    done = run("verify", directory)
    assert done.exit_code == 1
    path = segments(directory)[0]
    assert f"lost: {path} at 0: " in done.output
    assert "bytes are no batch: the checksum is wrong (offsets 0..2)" in done.output
    assert f"{directory} is damaged: 1 lost" in done.output


def test_json_lines(directory: Path) -> None:
    flip(segments(directory)[0], 100)
    done = run("verify", directory, "--json")
    finding, summary = map(json.loads, done.output.splitlines())
    assert finding == {
        "type": "finding",
        "grade": "lost",
        "file": str(segments(directory)[0]),
        "position": 0,
        "offset_first": 0,
        "offset_end": 3,
        "what": finding["what"],
    }
    assert summary["state"] == "damaged"
    assert summary["findings"] == {"harmless": 0, "unclean": 0, "repairable": 0, "lost": 1}


@pytest.mark.parametrize(
    ("suffix", "position", "sentence"),
    [
        (".index", 7, "entry 0 names position"),
        (".index", 3, "entry 0 names offset"),
        (".timeindex", 7, "entry 0 names the time"),
        (".txnindex", 9, "should be AbortedTransaction"),
        (".snapshot", 20, "the snapshot cannot be read: the checksum is wrong"),
    ],
)
def test_a_bad_side_file(directory: Path, suffix: str, position: int, sentence: str) -> None:
    path = next(p for p in _all(directory) if p.suffix == suffix and p.stat().st_size > position)
    flip(path, position, bit=1)
    done = run("verify", directory)
    assert done.exit_code == 1
    assert f"repairable: {path}: " in done.output and sentence in done.output


def test_what_an_unclean_stop_leaves(unclean: Path) -> None:
    """A torn tail, padded and missing indexes, an old epoch file: a start sees to all of it."""
    last = segments(unclean)[-1]
    end = b"\0" * 512
    (last.with_suffix(".index")).write_bytes(last.with_suffix(".index").read_bytes() + end)
    last.with_suffix(".timeindex").unlink()
    os.truncate(segments(unclean, "t-1")[-1], segments(unclean, "t-1")[-1].stat().st_size - 9)
    high_watermark = unclean / "replication-offset-checkpoint"
    high_watermark.write_bytes(b"0\n0\n")
    done = run("verify", unclean)
    assert done.exit_code == 0
    assert "zeros are behind its entries" in done.output
    assert "the index is missing" in done.output
    assert "at the end of the log; the next start cuts it off" in done.output
    assert "unclean: " in done.output and "is sound: " in done.output
    assert run("repair", unclean).output == "nothing to repair\n"
    data_dir = opened(unclean)
    data_dir.close()
    assert "nothing found" in run("verify", unclean).output


def test_a_torn_tail_below_the_high_watermark_is_a_loss(unclean: Path) -> None:
    path = segments(unclean)[-1]
    os.truncate(path, path.stat().st_size - 9)
    done = run("verify", unclean)
    assert done.exit_code == 1
    assert f"lost: {path} at" in done.output and "below the high watermark 60" in done.output


def test_a_torn_tail_under_a_running_broker_may_be_its_write(unclean: Path) -> None:
    path = segments(unclean)[-1]
    os.truncate(path, path.stat().st_size - 9)
    done = run("verify", unclean, "--while-running")
    assert done.exit_code == 0
    assert f"harmless: {path} at" in done.output
    assert "it may be a write of the running broker" in done.output


def test_a_hole_is_damage_after_an_unclean_stop_too(unclean: Path) -> None:
    """A start would cut off the intact batches behind it."""
    flip(segments(unclean)[0], 100)
    assert run("verify", unclean).exit_code == 1


def test_a_base_offset_is_told_by_the_neighbours(directory: Path) -> None:
    path = segments(directory)[0]
    header = json.loads(run("dump", path).output.splitlines()[1])
    flip(path, header["position"] + 5)
    done = run("verify", directory)
    assert done.exit_code == 1
    assert "by its neighbours it must be 3" in done.output


def test_leader_epochs(directory: Path) -> None:
    path = directory / "t-0" / "leader-epoch-checkpoint"
    assert path.read_bytes() == b"0\n2\n0 0\n1 40\n"
    for content, sentence in (
        (b"0\n2\n0 1\n1 40\n", "the first epoch begins at 1, past the log's start 0"),
        (b"0\n1\n0 0\n", "offset 40 is of epoch 1, by the file of 0"),
        (b"0\n3\n0 0\n1 40\n2 70\n", "an epoch begins at 70, past the end of the log at 60"),
        (b"0\n2\n1 40\n0 0\n", "the file cannot be read: '0 0' does not rise"),
    ):
        path.write_bytes(content)
        done = run("verify", directory)
        assert done.exit_code == 1 and f"repairable: {path}: {sentence}" in done.output


def test_missing_segment(directory: Path) -> None:
    lost = segments(directory)[1]
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        lost.with_suffix(suffix).unlink(missing_ok=True)
    done = run("verify", directory)
    assert done.exit_code == 1
    assert "nothing here says that compaction removed them (offsets 28..53)" in done.output
    assert run("verify", directory, "--allow-gaps").exit_code == 0


def test_what_is_missing_below_the_cleaner_offset_was_cleaned(directory: Path) -> None:
    bases = [int(path.stem) for path in segments(directory)]
    for path in (directory / "t-0").glob(f"{bases[1]:020d}.*"):
        path.unlink()
    checkpoint = directory / "cleaner-offset-checkpoint"
    checkpoint.write_bytes(b"0\n1\nt 0 %d\n" % (bases[2] - 1))
    assert run("verify", directory).exit_code == 1
    checkpoint.write_bytes(b"0\n1\nt 0 %d\n" % bases[2])
    assert run("verify", directory).exit_code == 0


def test_a_time_index_without_its_last_entry(directory: Path) -> None:
    path = segments(directory)[0].with_suffix(".timeindex")
    path.write_bytes(path.read_bytes()[:-12])
    done = run("verify", directory)
    assert done.exit_code == 1
    assert f"repairable: {path}: the greatest timestamp" in done.output


def test_an_abort_that_never_was(directory: Path) -> None:
    path = next(p for p in _all(directory) if p.suffix == ".txnindex" and p.stat().st_size)
    last = decode_aborted(path.read_bytes())[-1]
    more = AbortedTransaction(6, last.last_offset + 1, last.last_offset + 2, last.last_offset + 3)
    path.write_bytes(path.read_bytes() + encode_aborted(more))
    done = run("verify", directory)
    assert done.exit_code == 1
    assert f"{path}: no transaction was aborted at {more.last_offset}" in done.output


def test_a_snapshot_tells_what_lies_before_the_first_segment(directory: Path) -> None:
    """So that the aborts of the first segment are certain though its beginning was deleted."""
    first, second = segments(directory)[:2]
    for path in (directory / "t-0").glob(f"{first.stem}.*"):
        path.unlink()
    checkpoint = directory / "log-start-offset-checkpoint"
    checkpoint.write_bytes(b"0\n1\nt 0 %d\n" % int(second.stem))
    assert second.with_suffix(".snapshot").exists()
    assert run("verify", directory).exit_code == 0
    index = second.with_suffix(".txnindex")
    entry = decode_aborted(index.read_bytes())[0]
    flip(index, 17)
    done = run("verify", directory)
    assert done.exit_code == 1
    assert f"{index}: " in done.output and f"should be {entry}" in done.output


def test_one_batch_of_another_epoch(tmp_path: Path) -> None:
    """One other batch is enough to say that the file is right and the batch is not."""
    data_dir = opened(tmp_path)
    log = data_dir.create_log("t", 0, topic_id=bytes(16), config=CONFIG)
    for _ in range(2):
        append(log, build_batch([Record(0, 1, None, b"v")]))
    log.high_watermark = log.log_end_offset
    data_dir.close()
    (path,) = segments(tmp_path)
    flip(path, path.stat().st_size // 2 + 14)
    done = run("verify", tmp_path)
    assert done.exit_code == 1
    assert "in a batch of epoch 0" in done.output


def test_a_record_before_its_batch(tmp_path: Path) -> None:
    data_dir = opened(tmp_path)
    log = data_dir.create_log("t", 0, topic_id=bytes(16), config=CONFIG)
    append(log, build_batch([Record(0, 1, None, b"v")]))
    log.high_watermark = log.log_end_offset
    data_dir.close()
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    assert data[HEADER_SIZE_BYTES + 3] == 0
    data[HEADER_SIZE_BYTES + 3] = 1  # an offset delta of -1
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    path.write_bytes(data)
    assert run("verify", tmp_path).exit_code == 0
    done = run("verify", tmp_path, "--deep")
    assert done.exit_code == 1
    assert "record 0 has offset -1, in a batch whose checksum is right" in done.output


def test_a_partition_without_segments_ends_at_zero() -> None:
    assert PartitionReport("t-0").log_end_offset == 0


def test_foreign_and_unfinished_files_are_named(directory: Path) -> None:
    (directory / "notes.txt").write_text("x")
    (directory / "notes.tmp").write_text("x")
    (directory / "t-0" / "core").write_text("x")
    (directory / "t-0" / f"{9:020d}.log.swap").write_text("x")
    (directory / "lost+found").mkdir()
    (directory / f"t-2.{'a' * 32}-delete").mkdir()
    done = run("verify", directory)
    assert done.exit_code == 0
    for sentence in (
        "notes.txt: a file that does not belong here",
        "notes.tmp: left by a write that was not finished",
        "core: a file that does not belong here",
        "a compaction was not finished; the next start finishes it",
        "lost+found: a directory of no partition, not looked into",
        "-delete: a directory set aside (delete), not looked into",
    ):
        assert sentence in done.output


def test_own_files_of_a_data_directory_belong_there(directory: Path) -> None:
    for name in (".odradek-store.sqlite3-wal", ".odradek_boot_id", ".odradek-scrub"):
        (directory / name).write_text("x")
    assert "does not belong" not in run("verify", directory).output


def test_bad_checkpoints(directory: Path) -> None:
    (directory / "recovery-point-offset-checkpoint").write_bytes(b"0\n2\nt 0 60\n")
    (directory / "replication-offset-checkpoint").write_bytes(b"0\n1\nt 0 61\n")
    done = run("verify", directory)
    assert done.exit_code == 1
    assert "the checkpoint cannot be read: 2 entries are announced and 1 are there" in done.output
    assert "the checkpointed high watermark 61 lies past the end of the log" in done.output


def test_messages_of_an_old_format_are_left_alone(directory: Path) -> None:
    import zlib

    body = b"\1\0" + bytes(8) + b"\xff\xff\xff\xff\0\0\0\1x"
    message = bytes(8) + (len(body) + 4).to_bytes(4, "big")
    message += zlib.crc32(body).to_bytes(4, "big") + body
    path = segments(directory)[0]
    path.write_bytes(message)
    done = run("verify", directory)
    assert done.exit_code == 1
    assert "holds messages of format 1" in done.output
    assert run("repair", directory, "--apply").exit_code == 1
    assert path.read_bytes() == message


def test_a_kraft_directory(directory: Path) -> None:
    (directory / "meta.properties").write_text("version=1\nnode.id=1\n")
    done = run("verify", directory)
    assert done.exit_code == 1
    assert "belongs to a KRaft broker" in done.output


def test_a_running_broker_keeps_us_out(tmp_path: Path) -> None:
    data_dir = opened(tmp_path)
    fill(data_dir.create_log("t", 0, topic_id=None, config=CONFIG))
    try:
        done = run("verify", tmp_path)
        assert done.exit_code == 2
        assert "a broker is running on" in done.output and "--while-running" in done.output
        assert run("verify", tmp_path / "t-0").exit_code == 2
        assert run("repair", tmp_path).exit_code == 2
        assert run("repair", tmp_path, "--apply").exit_code == 2
        assert run("verify", tmp_path, "--while-running").exit_code == 0
        assert run("dump", tmp_path).exit_code == 0
    finally:
        data_dir.abandon()


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_could_not_run(tmp_path: Path, command: str) -> None:
    for path, sentence in (
        (tmp_path / "no", "is not a directory"),
        (tmp_path, "is neither a data directory nor one of a partition"),
    ):
        done = run(command, path)
        assert done.exit_code == 2
        assert sentence in done.output


@pytest.mark.parametrize("name", [f"{0:020d}.log", f"{0:020d}.index", f"{10**20 - 1}.log"])
def test_what_no_broker_makes_is_named_and_left(directory: Path, name: str) -> None:
    path = directory / "t-0" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    done = run("verify", directory)
    assert done.exit_code == 1
    assert f"lost: {path}: is not a regular file" in done.output
    before = sorted(os.listdir(directory / "t-0"))
    assert run("repair", directory, "--apply").exit_code == 1
    assert sorted(os.listdir(directory / "t-0")) == before


@pytest.mark.parametrize("size_bytes", [1 << 31, 1 << 40])
def test_a_segment_larger_than_any_is_not_read(directory: Path, size_bytes: int) -> None:
    os.truncate(segments(directory)[-1], size_bytes)
    done = run("verify", directory)
    assert done.exit_code == 1
    assert "more than a segment can have" in done.output
    assert run("repair", directory, "--apply").exit_code == 1
    assert segments(directory)[-1].stat().st_size == size_bytes


def test_directories_of_any_name(directory: Path) -> None:
    (directory / "x-0").mkdir()
    for name in ("x.damaged", f"{0:020d}-{5:020d}.damaged", "x.repair", "x.tmp"):
        (directory / "t-0" / name).mkdir()
    done = run("verify", directory)
    assert done.exit_code == 0
    assert "x.damaged: a directory that does not belong here" in done.output
    assert run("repair", directory, "--apply").exit_code == 0
