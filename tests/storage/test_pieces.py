"""A segment read over its damage, compared with a look at every byte."""

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.protocol.records import Record, build_batch
from odradek.storage.files import RealFileSystem
from odradek.storage.inspect import Piece, SegmentReader, pieces

Batch = bytes


def batch_of(offset: int, value: bytes, count: int = 1) -> Batch:
    records = [Record(offset + n, 1_700_000_000_000, None, value) for n in range(count)]
    return bytes(build_batch(records))


def read(path: Path, data: bytes, base_offset: int = 0) -> list[Piece]:
    path.write_bytes(data)
    file = RealFileSystem().open_log(str(path), len(data))
    found = list(SegmentReader(file, base_offset).pieces())
    file.close()
    ends = [piece.position_end for piece in found]
    assert [piece.position for piece in found] == [0, *ends][: len(found)]
    assert not found or ends[-1] == len(data)
    return found


def good(found: list[Piece]) -> list[int]:
    """The base offsets of what is read."""
    return [piece.batch.base_offset for piece in found if piece.batch is not None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020d}.log"


def test_a_batch_inside_a_value_is_not_taken_for_one(path: Path) -> None:
    """The bad batch's own length leads to the next one, past the one that it holds."""
    inner = batch_of(2, b"inner")
    data = bytearray(batch_of(0, b"a") + batch_of(1, inner) + batch_of(2, b"c"))
    data[len(batch_of(0, b"a")) + 62] ^= 1
    found = read(path, bytes(data))
    assert good(found) == [0, 2]
    assert found[1].problem == "the checksum is wrong"
    assert found[1].size_bytes == len(batch_of(1, inner))


def test_a_bad_length_does_not_swallow_batches(path: Path) -> None:
    """Even where it leads to a batch boundary."""
    batches = [batch_of(n, b"x" * 59) for n in range(12)]
    assert len(batches[0]) == 128
    data = bytearray(b"".join(batches))
    data[128 + 10] ^= 2  # 512 bytes more: four batches
    assert good(read(path, bytes(data))) == [0, *range(2, 12)]


def test_a_misplaced_batch(path: Path) -> None:
    data = bytearray(b"".join(batch_of(n * 2, b"v", 2) for n in range(4)))
    size = len(batch_of(0, b"v", 2))
    data[size + 4] ^= 1
    found = read(path, bytes(data))
    assert found[1].problem is not None and found[1].expected_offset == 2
    assert good(found) == [0, 2, 4, 6]


def test_a_base_offset_that_is_too_small(path: Path) -> None:
    data = bytearray(b"".join(batch_of(n * 2, b"v", 2) for n in range(4)))
    data[len(batch_of(0, b"v", 2)) + 7] = 0
    found = read(path, bytes(data))
    assert found[1].problem == "base offset 0 where at least 2 is expected"
    assert good(found) == [0, 2, 4, 6]


def test_where_the_log_ends_says_nothing_of_batches_before_the_last(path: Path) -> None:
    data = bytearray(b"".join(batch_of(n * 2, b"v", 2) for n in range(4)))
    data[len(batch_of(0, b"v", 2)) + 4] ^= 1
    path.write_bytes(data)
    file = RealFileSystem().open_log(str(path), len(data))
    found = list(SegmentReader(file, 0, log_end_offset=8).pieces())
    file.close()
    assert good(found) == [0, 2, 4, 6]


def test_a_batch_that_reaches_into_the_next_segment(path: Path) -> None:
    data = batch_of(0, b"v", 2) + batch_of(2, b"v", 3)
    path.write_bytes(data)
    file = RealFileSystem().open_log(str(path), len(data))
    found = list(SegmentReader(file, 0, offset_end=4).pieces())
    file.close()
    assert [piece.problem for piece in found] == [
        None,
        "last offset 4 where 3 is the greatest",
    ]


def test_large_batches_are_read_by_parts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_CHUNK_BYTES", 500)
    monkeypatch.setattr(pieces, "_SEARCH_BYTES", 300)
    data = bytearray(b"".join(batch_of(n, b"v" * 2000) for n in range(3)))
    assert good(read(path, bytes(data))) == [0, 1, 2]
    data[3000] ^= 1
    assert good(read(path, bytes(data))) == [0, 2]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=12),
    faults=st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 4)), min_size=1, max_size=3),
    seed=st.integers(0, 1 << 32),
)
@example(sizes=[74, 0, 64, 64, 135, 300], faults=[(261, 1), (6480, 1)], seed=134)
def test_no_intact_batch_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    faults: list[tuple[int, int]],
    seed: int,
) -> None:
    rng = random.Random(seed)
    batches = [batch_of(number, rng.randbytes(size)) for number, size in enumerate(sizes)]
    data = bytearray(b"".join(batches))
    for place, kind in faults:
        at = place % len(data)
        match kind:
            case 0 | 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at : at + 50] = bytes(len(data[at : at + 50]))
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 80))
            case _ if len(data) > 100:
                del data[at : at + 40]
    left = [number for number, batch in enumerate(batches) if batch in data]
    path = tmp_path_factory.mktemp("pieces") / f"{0:020d}.log"
    assert set(left) <= set(good(read(path, bytes(data))))
