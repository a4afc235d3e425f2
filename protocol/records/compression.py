"""The compression codecs of record batches, with a limit on the decompressed size.

Levels and framing follow the Java client, so that all clients can read what is written here.
cramjam is imported when first needed, which saves three milliseconds at a broker's start.
"""

import zlib
from enum import IntEnum
from typing import Final

from ..errors import BadLength, MalformedMessage, Truncated, UnsupportedVersion
from ..primitives import Buffer
from .frames import lz4_frame_extent, zstd_size_bytes_bound


class Codec(IntEnum):
    """How the records of a batch are compressed: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVEL_DEFAULT: Final = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's defaults (KIP-390); -1 leaves the level to zlib."""

_GZIP_WINDOW_BITS: Final = 31  # 15 for the largest window, 16 for gzip's header and trailer
_GZIP_CHUNK_BYTES: Final = 1 << 16
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SNAPPY_RATIO_MAX: Final = 22  # three bytes copy at most 64
# Version 1, independent blocks of up to 64 KiB, no checksums, and the header's own checksum.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_END: Final = bytes(4)
_LZ4_BLOCK_BYTES: Final = 1 << 16
_LZ4_FAST: Final = 1  # of the library's levels; from 3 on it searches thoroughly
_LZ4_THOROUGH_MIN: Final = 3


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`, with one of Kafka's levels; codecs without levels ignore `level`.

    The libraries release the GIL, so that a thread may do it.
    Raises: ValueError for an unknown codec.
    """
    codec = Codec(codec)
    if level is None:
        level = LEVEL_DEFAULT.get(codec, 0)
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, level, _GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            import cramjam

            return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: int, data: Buffer, size_bytes_max: int) -> memoryview:
    """Decompress `data` without producing or allocating more than `size_bytes_max` bytes.

    For `Codec.NONE` the result is a view of `data`, otherwise a new buffer.
    Raises: BadLength (too large), UnsupportedVersion (unknown codec), MalformedMessage.
    """
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            return view
        case Codec.GZIP:
            return _decompress_gzip(view, size_bytes_max)
        case Codec.SNAPPY:
            return _decompress_snappy(view, size_bytes_max)
        case Codec.LZ4:
            return _decompress_lz4(view, size_bytes_max)
        case Codec.ZSTD:
            return _decompress_zstd(view, size_bytes_max)
    raise UnsupportedVersion(f"compression codec {codec} is unknown")


def _too_large(size_bytes_max: int) -> BadLength:
    return BadLength(f"the records are larger than {size_bytes_max} bytes when decompressed")


def _decompress_gzip(data: memoryview, size_bytes_max: int) -> memoryview:
    """Read every member, as Java does.

    zlib copies the input after a member, so the input is passed in chunks. Otherwise many small
    members would take quadratic time.
    """
    if not data:
        raise Truncated("there is no gzip member")
    parts: list[bytes] = []
    size_bytes = position = 0
    inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
    while position < len(data):
        if inflater.eof:
            inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
        chunk = data[position : position + _GZIP_CHUNK_BYTES]
        try:
            # One byte more than allowed tells "full" from "too large"; 0 would mean no limit.
            part = inflater.decompress(chunk, size_bytes_max - size_bytes + 1)
        except zlib.error as error:
            raise MalformedMessage(f"the gzip data is broken: {error}") from None
        size_bytes += len(part)
        if size_bytes > size_bytes_max:
            raise _too_large(size_bytes_max)
        parts.append(part)
        position += len(chunk) - len(inflater.unused_data)
    if not inflater.eof:
        raise Truncated("the bytes end inside a gzip member")
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))


def _compress_snappy(data: Buffer) -> bytes:
    """Compress with the framing of xerial's snappy-java, which Kafka's clients expect."""
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, size_bytes_max: int) -> memoryview:
    """Read Java's framing, or one raw block as librdkafka and others write it."""
    import cramjam

    if not data:
        raise Truncated("there is no snappy block")
    blocks = _xerial_blocks(data) if bytes(data[:8]) == _XERIAL_MAGIC else [data]
    try:
        sizes_bytes = [_snappy_size_bytes(block) for block in blocks]
        size_bytes = sum(sizes_bytes)
        if size_bytes > size_bytes_max:
            raise _too_large(size_bytes_max)
        out = memoryview(bytearray(size_bytes))
        position = 0
        for block, block_bytes in zip(blocks, sizes_bytes, strict=True):
            cramjam.snappy.decompress_raw_into(block, out[position : position + block_bytes])
            position += block_bytes
    except cramjam.DecompressionError as error:
        raise MalformedMessage(f"the snappy data is broken: {error}") from None
    return out


def _snappy_size_bytes(block: memoryview) -> int:
    """Return the size that a raw block announces.  Raises: BadLength (impossible for its bytes)."""
    import cramjam

    size_bytes = int(cramjam.snappy.decompress_raw_len(block))
    if size_bytes > len(block) * _SNAPPY_RATIO_MAX:
        raise BadLength(f"{len(block)} bytes of snappy cannot hold {size_bytes} bytes")
    return size_bytes


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """Split Java's framing into raw blocks; the header may be repeated between them."""
    blocks = []
    position = 0
    while position < len(data):
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        size_bytes = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size_bytes == 0 or size_bytes > len(data) - position:
            raise Truncated("a snappy block is empty or leads out of its batch")
        blocks.append(data[position : position + size_bytes])
        position += size_bytes
    if position > len(data):
        raise Truncated("the bytes end inside the header of snappy's framing")
    return blocks


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """Write one frame of independent blocks: Java can't read dependent ones.

    Each block is taken out of a frame of its own. cramjam can make independent blocks by itself,
    but then holds the GIL.
    """
    import cramjam

    # Kafka calls the fast method 9, and 1 to 8 and 10 to 17 the levels of the thorough one.
    own = _LZ4_FAST if level == LEVEL_DEFAULT[Codec.LZ4] else max(level, _LZ4_THOROUGH_MIN)
    view = memoryview(data)
    parts: list[Buffer] = [_LZ4_HEADER]
    for position in range(0, len(view), _LZ4_BLOCK_BYTES):
        frame = memoryview(
            cramjam.lz4.compress(view[position : position + _LZ4_BLOCK_BYTES], level=own)
        )
        start = len(_LZ4_HEADER)
        size_bytes = int.from_bytes(frame[start : start + 4], "little") & 0x7FFFFFFF
        parts.append(frame[start : start + 4 + size_bytes])
    parts.append(_LZ4_END)
    return b"".join(parts)


def _decompress_lz4(data: memoryview, size_bytes_max: int) -> memoryview:
    """Read the first frame and ignore the rest, like Java."""
    import cramjam

    frame_end, bound_bytes = lz4_frame_extent(data)
    out = memoryview(bytearray(min(bound_bytes, size_bytes_max)))
    try:
        size_bytes = cramjam.lz4.decompress_into(data[:frame_end], out)
    except cramjam.DecompressionError as error:
        if bound_bytes > size_bytes_max:
            raise _too_large(size_bytes_max) from None
        raise MalformedMessage(f"the LZ4 data is broken: {error}") from None
    return out[:size_bytes]


def _decompress_zstd(data: memoryview, size_bytes_max: int) -> memoryview:
    """Read every frame.  libzstd itself rejects windows above 128 MiB."""
    import cramjam

    bound_bytes = zstd_size_bytes_bound(data)
    out = memoryview(bytearray(min(bound_bytes, size_bytes_max)))
    try:
        size_bytes = cramjam.zstd.decompress_into(data, out)
    except cramjam.DecompressionError as error:
        if bound_bytes > size_bytes_max:
            raise _too_large(size_bytes_max) from None
        raise MalformedMessage(f"the zstd data is broken: {error}") from None
    return out[:size_bytes]
