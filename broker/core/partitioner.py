"""Partitions that are computed: of a group or a transactional id, and of a record's key."""

from typing import Final

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def partition_of(key: str, partition_count: int) -> int:
    """Of an internal topic, as in Kafka: the absolute value of Java's string hash, modulo the
    partition count."""
    hashed = _string_hash(key)
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count


def _string_hash(text: str) -> int:
    """Java's: the UTF-16 units as the digits of a number to the base 31, modulo 2**32.

    Ids may have 32,767 characters, for which a loop over them takes milliseconds. So all units are
    the lanes of one integer, with zeros in front. Neighbours are added up twice, then halves.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    lanes = 1
    while 8 * lanes < len(units):
        lanes *= 2
    of_2 = int.from_bytes(b"\0\0\xff\xff" * (2 * lanes), "big")
    of_4 = int.from_bytes(b"\0\0\0\0\xff\xff\xff\xff" * lanes, "big")
    number = int.from_bytes(units, "big")
    number = 31 * (number >> 16 & of_2) + (number & of_2)
    number = 31**2 * (number >> 32 & of_4) + (number & of_4)
    while lanes > 1:
        lanes //= 2
        number &= of_4  # modulo 2**32 in each lane of 64 bits, else they overflow
        half = number >> 64 * lanes
        number = pow(31, 4 * lanes, 1 << 32) * half + (number & (1 << 64 * lanes) - 1)
    return number & _MASK


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
