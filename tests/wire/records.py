"""Records as the tests compare them, and samples that are easy to get wrong."""

import random
from dataclasses import dataclass
from typing import Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BASE_TIMESTAMP: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    """One record, as far as a client decides over it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = BASE_TIMESTAMP


def samples(seed: int) -> list[Sent]:
    """Null and empty keys, values and headers, binary, Unicode, compressible and not, any order
    of timestamps."""
    chance = random.Random(seed)
    noise = chance.randbytes(3000)
    bodies: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"tombstone", None, ()),
        (None, None, (("only", b"headers"),)),
        (b"", b"", (("", b""),)),
        (b"\x00\xff\x80\n\t\r", bytes(range(256)), (("binary", bytes(range(256))),)),
        ("schlüssel-鍵".encode(), "wert-値".encode(), (("kopf-頭", "värde".encode()),)),
        (b"twice", b"v", (("h", b"1"), ("h", b"2"), ("g", b""))),
        (b"null header", b"v", (("none", None), ("some", b"x"))),
        (b"compressible", b"spool of thread " * 700, ()),
        (b"random", noise, ()),
        (noise[:1000], b"long key", ()),
    ]
    return [
        Sent(key, value, headers, BASE_TIMESTAMP + chance.randrange(0, 10_000))
        for key, value, headers in bodies
    ]


def writable_by(writer: str, records: list[Sent]) -> list[Sent]:
    """Without what a client refuses to send: the Python ones want a key or a value, and
    kafka-python a value in every header."""
    if writer in ("kafka-python", "aiokafka"):
        records = [r for r in records if r.key is not None or r.value is not None]
    if writer == "kafka-python":
        records = [r for r in records if all(value is not None for _, value in r.headers)]
    return records
