"""XXH3 with 64 bits and seed 0, for the metadata hash of a group: a few hundred bytes, rarely.

Implemented here, because so little use does not justify a dependency.

Source: the XXH3 section of the xxHash specification (doc/xxhash_spec.md).
"""

from struct import Struct
from typing import Final

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_P32_1: Final = 0x9E37_79B1
_P32_2: Final = 0x85EB_CA77
_P32_3: Final = 0xC2B2_AE3D
_P64_1: Final = 0x9E37_79B1_85EB_CA87
_P64_2: Final = 0xC2B2_AE3D_27D4_EB4F
_P64_3: Final = 0x1656_67B1_9E37_79F9
_P64_4: Final = 0x85EB_CA77_C2B2_AE63
_P64_5: Final = 0x27D4_EB2F_1656_67C5
_MX_1: Final = 0x1656_6791_9E37_79F9
_MX_2: Final = 0x9FB2_1C65_1E98_DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_A_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_EIGHT: Final = Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The hash of at least 4 bytes, unsigned."""
    assert len(data) >= 4, "shorter ones are never hashed here"
    if len(data) <= 8:
        return _hash_to_8(data)
    if len(data) <= 16:
        return _hash_to_16(data)
    if len(data) <= 128:
        return _hash_to_128(data)
    return _hash_to_240(data) if len(data) <= 240 else _hash_long(data)


def _hash_to_8(data: bytes) -> int:
    first, last = _read32(data, 0), _read32(data, len(data) - 4)
    h = (last + (first << 32)) ^ _secret(8) ^ _secret(16)
    h ^= _rotated(h, 49) ^ _rotated(h, 24)
    h = h * _MX_2 & _MASK
    h ^= (h >> 35) + len(data)
    h = h * _MX_2 & _MASK
    return h ^ h >> 28


def _hash_to_16(data: bytes) -> int:
    low = _read64(data, 0) ^ _secret(24) ^ _secret(32)
    high = _read64(data, len(data) - 8) ^ _secret(40) ^ _secret(48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(len(data) + swapped + high + _folded(low, high))


def _hash_to_128(data: bytes) -> int:
    total = len(data) * _P64_1
    for i in range((len(data) - 1) // 32 + 1):
        total += _mixed(data, 16 * i, 32 * i)
        total += _mixed(data, len(data) - 16 * (i + 1), 32 * i + 16)
    return _avalanche(total)


def _hash_to_240(data: bytes) -> int:
    total = len(data) * _P64_1
    total += sum(_mixed(data, 16 * i, 16 * i) for i in range(8))
    total = _avalanche(total)
    total += sum(_mixed(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, len(data) // 16))
    return _avalanche(total + _mixed(data, len(data) - 16, 136 - 17))


def _hash_long(data: bytes) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    # The last stripe overlaps the previous one, unless the length is a multiple of the stripe.
    for stripe in range((len(data) - 1) // _STRIPE):
        in_block = stripe % _STRIPES_A_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, 8 * in_block)
        if in_block == _STRIPES_A_BLOCK - 1:
            for i, key in enumerate(_EIGHT.unpack_from(_SECRET, len(_SECRET) - _STRIPE)):
                lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ key) * _P32_1 & _MASK
    _accumulate(lanes, data, len(data) - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = len(data) * _P64_1
    for i in range(4):
        low, high = lanes[2 * i] ^ _secret(11 + 16 * i), lanes[2 * i + 1] ^ _secret(19 + 16 * i)
        total += _folded(low, high)
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    keys = _EIGHT.unpack_from(_SECRET, secret_at)
    for i, value in enumerate(_EIGHT.unpack_from(data, at)):
        key = value ^ keys[i]
        lanes[i ^ 1] = (lanes[i ^ 1] + value) & _MASK
        lanes[i] = (lanes[i] + (key & 0xFFFF_FFFF) * (key >> 32)) & _MASK


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    return _folded(
        _read64(data, at) ^ _secret(secret_at), _read64(data, at + 8) ^ _secret(secret_at + 8)
    )


def _folded(a: int, b: int) -> int:
    product = a * b
    return product >> 64 ^ product & _MASK


def _avalanche(h: int) -> int:
    h &= _MASK
    h ^= h >> 37
    h = h * _MX_1 & _MASK
    return h ^ h >> 32


def _rotated(h: int, bits: int) -> int:
    return (h << bits | h >> 64 - bits) & _MASK


def _read32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _read64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _secret(at: int) -> int:
    return _read64(_SECRET, at)
