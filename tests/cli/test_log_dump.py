"""`odradek log dump`: one JSON object a line, over damage too."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from odradek.protocol.records import HEADER_SIZE_BYTES

from .log_files import flip, make_directory, run


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_directory(tmp_path_factory.mktemp("dump") / "data")


def lines(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run("dump", *arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


def test_everything(directory: Path) -> None:
    counts = Counter(line["type"] for line in lines(directory, "--records"))
    assert counts["batch"] == 2 * 36
    assert counts["record"] == 2 * (36 + 12 + 12)
    assert counts["aborted_transaction"] == 2 * 6
    assert counts["leader_epoch"] == 2 * 2
    assert counts["partition_metadata"] == 2
    assert counts["meta_properties"] == counts["clean_shutdown"] == 1
    assert counts["checkpoint"] == 4
    assert counts["offset_index_entry"] > 0 < counts["time_index_entry"]
    assert counts["producer"] > 0 == counts["damage"]


def test_the_keys_of_a_batch_and_a_record(directory: Path) -> None:
    batch, record = lines(directory / "t-0" / f"{0:020d}.log", "--records", "--max", "2")
    assert list(batch) == [
        "type", "file", "position", "size_bytes", "base_offset", "last_offset", "count",
        "partition_leader_epoch", "magic", "crc", "crc_valid", "codec", "timestamp_type",
        "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence",
        "last_sequence", "is_transactional", "is_control", "delete_horizon_ms",
    ]  # fmt: skip
    assert record == {
        "type": "record",
        "file": batch["file"],
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "sequence": 0,
        "key": "k0",
        "value": "value 0",
        "headers": [],
    }


def test_control_records(directory: Path) -> None:
    controls = [
        line["control"] for line in lines(directory / "t-0", "--records") if "control" in line
    ]
    assert controls[:2] == [
        {"marker": "COMMIT", "coordinator_epoch": 0},
        {"marker": "ABORT", "coordinator_epoch": 0},
    ]


def test_a_range_of_offsets(directory: Path) -> None:
    chosen = ["--records", "--from-offset", "4", "--to-offset", "6"]
    shown = [line for line in lines(directory / "t-0", *chosen) if line["type"] == "record"]
    assert [line["offset"] for line in shown] == [4, 5, 6]


def test_damage_is_a_line_and_the_dump_goes_on(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes((directory / "t-0" / path.name).read_bytes())
    whole = lines(path)
    second = whole[1]
    flip(path, second["position"] + HEADER_SIZE_BYTES + 1)
    shown = lines(path, "--records")
    assert [x["position"] for x in shown if x["type"] == "batch"] == [x["position"] for x in whole]
    assert [x["crc_valid"] for x in shown if x["type"] == "batch"].count(False) == 1
    damage = [line for line in shown if line["type"] == "damage"]
    assert [(x["position"], x["problem"]) for x in damage] == [
        (second["position"], "the checksum is wrong")
    ]
    path.write_bytes(b"\0" * 100 + path.read_bytes())
    first, *rest = lines(path)
    assert first["problem"] == "zeros where a batch should be"
    assert (first["position"], first["size_bytes"]) == (0, 100)
    assert len(rest) == len(whole) + 1


def test_bad_side_files(tmp_path: Path) -> None:
    for name, content in (
        (f"{0:020d}.snapshot", b"x"),
        (f"{0:020d}.index", b"12345678123"),
        ("leader-epoch-checkpoint", b"nonsense\n"),
    ):
        (tmp_path / name).write_bytes(content)
    shown = lines(tmp_path)
    assert [line["type"] for line in shown].count("damage") == 3


def test_refused_paths(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for path, sentence in (
        (tmp_path / "no", "is not there"),
        (tmp_path / "notes.txt", "has a name that no file of a log has"),
    ):
        done = run("dump", path)
        assert done.exit_code == 2
        assert sentence in done.output
