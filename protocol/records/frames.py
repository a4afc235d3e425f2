"""Upper bounds for the decompressed size of a compressed frame, from its block headers alone.

The libraries write into a buffer of a given size. These functions find a size that suffices,
without trusting the length that the sender claims.
"""

from typing import Final

from ..errors import MalformedMessage, Truncated, UnsupportedVersion

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_SIZES_BYTES: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_RATIO_MAX: Final = 255  # a block's longest matches grow by one byte of length per 255 bytes

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE: Final = 0x184D2A50  # the low four bits are free
_ZSTD_BLOCK_SIZE_BYTES_MAX: Final = 1 << 17
_ZSTD_RLE, _ZSTD_COMPRESSED = 1, 2


def lz4_frame_extent(data: memoryview) -> tuple[int, int]:
    """Return where the first LZ4 frame ends and the most bytes that it can contain.

    Raises: Truncated, MalformedMessage, UnsupportedVersion.
    """
    if len(data) < 7:
        raise Truncated("the bytes end inside an LZ4 frame header")
    flags, block_code = data[4], data[5] >> 4 & 7
    if bytes(data[:4]) != _LZ4_MAGIC or flags >> 6 != 1 or block_code not in _LZ4_BLOCK_SIZES_BYTES:
        raise MalformedMessage("the data is not an LZ4 frame")
    if not flags & 0x20:
        # Java can't read them, so Kafka never accepts them.
        raise UnsupportedVersion("LZ4 blocks that depend on each other are not read by Kafka")
    block_trailer_bytes = 4 if flags & 0x10 else 0
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    block_count = 0
    while block := _little_endian(data, position, 4):
        position += 4 + (block & 0x7FFFFFFF) + block_trailer_bytes
        block_count += 1
    position += 4 + (4 if flags & 0x04 else 0)
    if position > len(data):
        raise Truncated("the bytes end inside an LZ4 frame")
    return position, min(
        block_count * _LZ4_BLOCK_SIZES_BYTES[block_code], position * _LZ4_RATIO_MAX
    )


def zstd_size_bytes_bound(data: memoryview) -> int:
    """Return the most bytes that the concatenated zstd frames in `data` can contain.

    Raises: Truncated, MalformedMessage.
    """
    position = bound_bytes = 0
    while position < len(data):
        magic = _little_endian(data, position, 4)
        if magic & ~0xF == _ZSTD_SKIPPABLE:
            position += 8 + _little_endian(data, position + 4, 4)
        elif magic == _ZSTD_MAGIC:
            position, frame_bytes = _zstd_frame_extent(data, position + 4)
            bound_bytes += frame_bytes
        else:
            raise MalformedMessage("the data is not a zstd frame")
    if position > len(data):
        raise Truncated("the bytes end inside a zstd frame")
    return bound_bytes


def _zstd_frame_extent(data: memoryview, position: int) -> tuple[int, int]:
    """Return where the frame after the magic number at `position` ends and its size bound."""
    descriptor = _little_endian(data, position, 1)
    is_single_segment = descriptor & 0x20 != 0
    window_field_bytes = 0 if is_single_segment else 1
    dictionary_field_bytes = (0, 1, 2, 4)[descriptor & 3]
    size_field_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    position += 1 + window_field_bytes + dictionary_field_bytes
    claimed_bytes = None
    if size_field_bytes:
        # A two-byte field has an offset of 256 (RFC 8878, 3.1.1.1.4).
        offset_bytes = 256 if size_field_bytes == 2 else 0
        claimed_bytes = _little_endian(data, position, size_field_bytes) + offset_bytes
        position += size_field_bytes
    bound_bytes = 0
    is_last = False
    while not is_last:
        block = _little_endian(data, position, 3)
        is_last, kind, size_bytes = block & 1 == 1, block >> 1 & 3, block >> 3
        position += 3 + (1 if kind == _ZSTD_RLE else size_bytes)
        if kind == _ZSTD_COMPRESSED:
            size_bytes = _ZSTD_BLOCK_SIZE_BYTES_MAX
        bound_bytes += min(size_bytes, _ZSTD_BLOCK_SIZE_BYTES_MAX)
    position += 4 if descriptor & 0x04 else 0
    # The library rejects a frame whose content differs from its claim, so the lesser one suffices.
    return position, bound_bytes if claimed_bytes is None else min(bound_bytes, claimed_bytes)


def _little_endian(data: memoryview, position: int, size_bytes: int) -> int:
    if position + size_bytes > len(data):
        raise Truncated("the bytes end inside a compressed frame")
    return int.from_bytes(data[position : position + size_bytes], "little")
