"""How a topic stores its batches: the codec of compression.type, and that codec's level."""

from typing import Final, NamedTuple

from odradek.protocol.records import Codec

KEPT: Final = "producer"
"""The compression.type that keeps the codec of the producer."""
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", KEPT)
"""In Kafka's order."""


class Compression(NamedTuple):
    """A codec and its level; None: it has none."""

    codec: Codec
    level: int | None


def compression_of(
    name: str, *, gzip_level: int, lz4_level: int, zstd_level: int
) -> Compression | None:
    """The compression of a compression.type; None: whatever the producer has chosen."""
    if name == KEPT:
        return None
    codec = _CODECS[name]
    levels = {Codec.GZIP: gzip_level, Codec.LZ4: lz4_level, Codec.ZSTD: zstd_level}
    return Compression(codec, levels.get(codec))


def gzip_level(text: str) -> str | None:
    """None if `text` is a level of gzip, or else what is allowed."""
    return "from 1 to 9, or -1" if int(text) == 0 else None
