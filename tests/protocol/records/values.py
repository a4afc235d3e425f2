"""Records to write and read: generated ones, and those of the files in tests/vectors/records."""

from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from odradek.protocol.records import HEADER_SIZE_BYTES, Codec, Record, build_batch
from odradek.protocol.records.batch import seal

VECTORS: Final = Path(__file__).resolve().parents[2] / "vectors" / "records"
CODECS: Final = tuple(Codec)
SIZE_BYTES_MAX: Final = 1 << 20

JAVA_RECORDS: Final = [
    Record(
        1000 + i,
        1_700_000_000_000 + i * 1000,
        None if i % 3 == 0 else f"key-{i}".encode(),
        None if i % 7 == 0 else f"value-{i} ".encode() * i,
        [("h\u00e9", f"x{i}".encode()), ("null", None)] if i % 5 == 0 else [],
    )
    for i in range(100)
]

_bytes = st.none() | st.binary(max_size=200)
_headers = st.lists(st.tuples(st.text(max_size=8), _bytes), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn, *, base_offset: int = 0, size_max: int = 12) -> list[Record]:
    """Records with the consecutive offsets of a producer's batch."""
    count = draw(st.integers(1, size_max))
    base_timestamp = draw(st.sampled_from([0, 1_700_000_000_000]))
    return [
        Record(
            base_offset + index,
            base_timestamp + draw(st.integers(0, 100) | st.integers(0, 2**40)),
            draw(_bytes),
            draw(_bytes),
            draw(_headers),
        )
        for index in range(count)
    ]


def example_records(count: int = 40) -> list[Record]:
    """Records of all shapes, with sizes on both sides of each varint boundary."""
    return [
        Record(
            index,
            1_700_000_000_000 + index * index,
            None if index % 4 == 0 else bytes([65 + index % 26]) * (index * 5),
            None if index % 9 == 8 else b"v" * (index * 7),
            [("trace", b"id-%d" % index), ("empty", None)] if index % 6 == 5 else [],
        )
        for index in range(count)
    ]


def with_body(body: bytes, *, count: int, codec: int = 0) -> bytearray:
    """A batch with a right length and checksum around whatever bytes for records."""
    batch = build_batch([], last_offset=max(count - 1, 0))
    batch[8:12] = (HEADER_SIZE_BYTES - 12 + len(body)).to_bytes(4, "big")
    batch[22] = codec
    batch[23:27] = (count - 1).to_bytes(4, "big", signed=True)
    batch[27:43] = bytes(16)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    batch += body
    seal(batch)
    return batch
