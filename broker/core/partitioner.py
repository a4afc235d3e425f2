"""Partitions that are computed: of a group or a transactional id, and of a record's key."""

from typing import Final

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def partition_of(key: str, partition_count: int) -> int:
    """Of an internal topic, as in Kafka: the absolute value of Java's string hash, modulo the
    partition count."""
    hashed = 0
    for unit in memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H"):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Of a record, as Java's producer chooses it: the key's hash, without its sign bit."""
    return (_murmur2(key) & 0x7FFFFFFF) % partition_count


def _murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits, with Kafka's seed."""
    hashed = _SEED ^ len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = hashed * _M & _MASK ^ word
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15
