"""Logs are compared byte for byte, up to an offset."""

from pathlib import Path

import pytest

from odradek.protocol.records import Record, build_batch
from tests.lab.verify.logs import batches, differences


def write(directory: Path, *parts: bytes, segment: int = 0) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / f"{segment:020}.log").write_bytes(b"".join(parts))
    return directory


def batch(first: int, count: int, text: bytes = b"x") -> bytes:
    records = [Record(first + index, 0, None, text) for index in range(count)]
    return bytes(build_batch(records))


def test_the_same_logs_in_other_segments(tmp_path: Path) -> None:
    one = write(tmp_path / "one", batch(0, 2), batch(2, 1), batch(3, 4))
    other = write(tmp_path / "other", batch(0, 2))
    write(other, batch(2, 1), batch(3, 4), segment=2)
    assert [(b.first, b.last) for b in batches(other)] == [(0, 1), (2, 2), (3, 6)]
    assert differences({"one": one, "other": other}, 7) == []


def test_what_is_above_the_end_may_differ(tmp_path: Path) -> None:
    one = write(tmp_path / "one", batch(0, 2), batch(2, 1, b"a"), batch(3, 1)[:-1])
    other = write(tmp_path / "other", batch(0, 2))
    assert differences({"one": one, "other": other}, 2) == []


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([batch(0, 2), batch(2, 1, b"y")], "one and other differ at offset 2"),
        ([batch(0, 1), batch(1, 1), batch(2, 1)], "one and other differ at offset 0"),
        ([batch(0, 2)], "other ends at 2, not 3"),
        ([], "other ends at 0, not 3"),
    ],
)
def test_differences_are_found(tmp_path: Path, parts: list[bytes], expected: str) -> None:
    one = write(tmp_path / "one", batch(0, 2), batch(2, 1))
    other = write(tmp_path / "other", *parts)
    assert expected in differences({"one": one, "other": other}, 3)


def test_an_earlier_log_start_is_no_difference(tmp_path: Path) -> None:
    one = write(tmp_path / "one", batch(0, 2), batch(2, 1))
    other = write(tmp_path / "other", batch(2, 1), segment=2)
    assert differences({"one": one, "other": other}, 3) == []
