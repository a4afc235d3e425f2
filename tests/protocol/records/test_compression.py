"""Codecs: round trips, and what must not come out of hostile data."""

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BadLength, MalformedMessage, Truncated, UnsupportedVersion
from odradek.protocol.records import Codec, compress, decompress

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
MIB = 1 << 20
MAGICS = {1: b"\x1f\x8b\x08\0", 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}
SAMPLES = [
    b"",
    b"a",
    b"abc" * 40_000,
    bytes(range(256)) * 3_000,
    b"\0" * (3 * MIB),
    cramjam.zstd.compress(bytes(70_000)).read() * 3,
]


@pytest.mark.parametrize("sample", SAMPLES, ids=len)
@pytest.mark.parametrize("codec", list(Codec))
def test_what_was_compressed_comes_back(codec: Codec, sample: bytes) -> None:
    for data in (sample, bytearray(sample), memoryview(sample)):
        packed = compress(codec, data)
        assert bytes(decompress(codec, packed, len(sample))) == sample
        assert bytes(decompress(codec, memoryview(packed), 10 * MIB)) == sample


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.binary(max_size=300))
def test_any_bytes_come_back(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data * 9), len(data) * 9)) == data * 9


@pytest.mark.parametrize("codec", COMPRESSING)
def test_one_byte_over_the_limit_is_too_large(codec: Codec) -> None:
    for sample in SAMPLES[1:]:
        with pytest.raises(BadLength):
            decompress(codec, compress(codec, sample), len(sample) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_prefix_is_refused(codec: Codec) -> None:
    packed = compress(codec, bytes(range(256)) * 600)
    whole_blocks = {16}  # the snappy framing has no end: its header alone is an empty stream
    if codec is Codec.SNAPPY:
        position = 16
        while position < len(packed):
            position += 4 + int.from_bytes(packed[position : position + 4], "big")
            whole_blocks.add(position)
    for size_bytes in range(len(packed)):
        if codec is Codec.SNAPPY and size_bytes in whole_blocks:
            continue
        with pytest.raises(MalformedMessage):
            decompress(codec, packed[:size_bytes], MIB)


@pytest.mark.slow
@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_flipped_bytes_raise_nothing_else(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, bytes(range(256)) * 4))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedMessage):
        assert len(decompress(codec, packed, 5_000)) <= 5_000


@pytest.mark.parametrize("codec", [*COMPRESSING, 5, 6, 7])
@given(data=st.binary(max_size=60))
def test_random_bytes_raise_nothing_else(codec: int, data: bytes) -> None:
    for packed in (data, MAGICS.get(codec, b"") + data):
        with suppress(MalformedMessage):
            decompress(codec, packed, 5_000)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decompress(codec, b"", 1)
    with pytest.raises(ValueError, match="not a valid Codec"):
        compress(codec, b"")


# One gibibyte of zeros each, written by hand: a library would take seconds to make them.
def gzip_bomb() -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    again = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return start + again * 1023 + deflater.flush()


def gzip_members_bomb() -> bytes:
    return gzip.compress(bytes(64 * 1024)) * 16_384


def snappy_raw_bomb() -> bytes:
    copy_64_bytes = b"\xfe\x01\x00"
    return b"\x80\x80\x80\x80\x04" + b"\x00\x00" + copy_64_bytes * (1 << 24)


def snappy_framed_bomb() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    framed = len(block).to_bytes(4, "big") + block
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + framed * 1024


def lz4_bomb() -> bytes:
    packed = compress(Codec.LZ4, bytes(4 * MIB))
    flags_and_size = packed[4:7]
    block_end = 11 + int.from_bytes(packed[7:11], "little") + (4 if packed[4] & 0x10 else 0)
    block_bytes = 1 << (8 + 2 * (flags_and_size[1] >> 4))
    return packed[:7] + packed[7:block_end] * ((1 << 30) // block_bytes) + bytes(4)


def zstd_bomb() -> bytes:
    window_1_mib = bytes([10 << 3])
    run_of_128_kib = (1 << 1 | (1 << 17) << 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00" + window_1_mib + run_of_128_kib * 8191 + b"\x03\x00\x10\0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codec", "make"),
    [
        (Codec.GZIP, gzip_bomb),
        (Codec.GZIP, gzip_members_bomb),
        (Codec.SNAPPY, snappy_raw_bomb),
        (Codec.SNAPPY, snappy_framed_bomb),
        (Codec.LZ4, lz4_bomb),
        (Codec.ZSTD, zstd_bomb),
    ],
)
def test_a_bomb_is_refused_within_the_limit(codec: Codec, make: Callable[[], bytes]) -> None:
    bomb = memoryview(make())
    tracemalloc.start()
    try:
        with pytest.raises(BadLength):
            decompress(codec, bomb, MIB)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2 * MIB + len(bomb) // 4


@pytest.mark.parametrize("codec", COMPRESSING)
def test_little_data_reserves_little_memory(codec: Codec) -> None:
    packed = compress(codec, b"x" * 100)
    decompress(codec, packed, MIB)  # imports
    tracemalloc.start()
    try:
        decompress(codec, packed, 1 << 40)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 200_000


def test_a_snappy_length_that_its_bytes_cannot_hold_is_refused() -> None:
    with pytest.raises(BadLength):
        decompress(Codec.SNAPPY, b"\x80\x80\x80\x80\x04" + b"\xfe\x01\x00" * 100, 1 << 40)


def test_snappy_is_read_bare_and_framed_and_framed_again() -> None:
    bare = bytes(cramjam.snappy.compress_raw(b"hello" * 100))
    header = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    framed = header + len(bare).to_bytes(4, "big") + bare
    for packed, count in ((bare, 1), (framed, 1), (framed * 3, 3), (header, 0)):
        assert bytes(decompress(Codec.SNAPPY, packed, MIB)) == b"hello" * 100 * count
    assert compress(Codec.SNAPPY, b"hello").startswith(header)
    for broken in (framed + b"\0\0\0", framed + bytes(4), framed + b"\xff\xff\xff\xff"):
        with pytest.raises(Truncated):
            decompress(Codec.SNAPPY, broken, MIB)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_concatenated_frames_are_read_to_the_end(codec: Codec) -> None:
    packed = compress(codec, b"a" * 9) + compress(codec, b"") + compress(codec, b"b" * 70_000)
    assert bytes(decompress(codec, packed, MIB)) == b"a" * 9 + b"b" * 70_000
    with pytest.raises(MalformedMessage):
        decompress(codec, packed + b"junk", MIB)


def test_a_gzip_member_longer_than_a_chunk_is_read() -> None:
    noise = bytes(cramjam.zstd.compress(b"".join(i.to_bytes(3, "big") for i in range(1 << 17))))
    packed = compress(Codec.GZIP, noise, 1) * 2
    assert len(packed) > 2 * (1 << 16)
    assert bytes(decompress(Codec.GZIP, packed, MIB)) == noise * 2


def test_a_skippable_zstd_frame_is_skipped() -> None:
    packed = b"\x53\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc" + compress(Codec.ZSTD, b"x")
    assert bytes(decompress(Codec.ZSTD, packed, MIB)) == b"x"


def test_only_the_first_lz4_frame_exists_as_for_java() -> None:
    packed = compress(Codec.LZ4, b"first" * 40_000)
    for rest in (b"", packed, b"junk"):
        assert bytes(decompress(Codec.LZ4, packed + rest, MIB)) == b"first" * 40_000


def test_checksums_of_frames_are_stepped_over() -> None:
    compressor = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    compressor.compress(b"x" * 1000)
    packed = bytes(compressor.finish())
    assert bytes(decompress(Codec.LZ4, packed + b"junk", MIB)) == b"x" * 1000
    for cut in (1, 4):
        with pytest.raises(Truncated):
            decompress(Codec.LZ4, packed[:-cut], MIB)
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(b"x" * 1000) * 2
    assert bytes(decompress(Codec.ZSTD, packed, MIB)) == b"x" * 2000


def test_lz4_blocks_are_independent_as_java_needs_them() -> None:
    linked = bytearray(cramjam.lz4.compress(bytes(200_000)))
    for flags in (linked[4], linked[4] | 0x01):  # the second announces a dictionary, too
        linked[4] = flags
        with pytest.raises(UnsupportedVersion):
            decompress(Codec.LZ4, linked, MIB)
    assert compress(Codec.LZ4, bytes(200_000))[4] & 0x20


@pytest.mark.parametrize("level", [1, 9])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_levels_reach_the_library(codec: Codec, level: int) -> None:
    data = b"".join(str(number * number).encode() for number in range(20_000))
    packed = compress(codec, data, level)
    assert bytes(decompress(codec, packed, len(data))) == data
    assert len(compress(codec, data, 9)) != len(compress(codec, data, 1))


@pytest.mark.slow
def test_lz4_has_the_levels_of_kafka() -> None:
    data = b"".join(str(number * number).encode() for number in range(20_000))
    sizes_bytes = {level: len(compress(Codec.LZ4, data, level)) for level in range(1, 18)}
    fast = sizes_bytes.pop(9)
    assert fast == len(compress(Codec.LZ4, data))  # the default
    assert fast > max(sizes_bytes.values())
    assert list(sizes_bytes.values()) == sorted(sizes_bytes.values(), reverse=True)
    assert sizes_bytes[12] < sizes_bytes[3]


def test_lz4_is_framed_as_by_java() -> None:
    noise = random.Random(7).randbytes(150_000)
    packed = compress(Codec.LZ4, noise)
    assert packed[:7].hex() == "04224d18604082"
    assert packed[-4:] == bytes(4)
    assert packed.count(b"\0\0\1\x80", 0) == 2  # two whole blocks, stored as they are
    assert bytes(decompress(Codec.LZ4, packed, len(noise))) == noise
    assert bytes(cramjam.lz4.decompress(packed)) == noise
