"""Requests made of extremes, and of what the broker knows, from the declarations of messages."""

import math
from random import Random
from typing import Any, Final

from odradek.protocol.schema import MISSING, ArrayOf, Field, FieldType, Message, Struct
from tests.broker.batches import altered
from tests.support.messages import batch_of

TOPICS: Final = ("t", "u")
"""The topics that the requests know."""
BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS: Final = (
    *(*TOPICS, "absent", "0", "__consumer_offsets", "retention.ms", "a b", "x" * 300, "g" * 32_767),
    *("", ".", "..", "../../up", "/etc/up", "a/b", "a\0b", "line\nbreak", "\u00e4\U0001f4a9"),
)
SMALL: Final = {
    "max_wait_ms": 5,
    "timeout_ms": 50,
    "session_timeout_ms": 50,
    "rebalance_timeout_ms": 50,
    "min_bytes": 1,
    "count": 8,
    "num_partitions": 8,
}
"""What would only take long if it were larger."""


class Requests:
    """Messages made of extremes, and of what the broker knows."""

    def __init__(self, seed: int, topic_ids: list[bytes]) -> None:
        self.random = Random(seed)
        self.topic_ids = [*topic_ids, bytes(16), bytes(range(16))]

    def make(self, kind: type[Message], version: int) -> Message:
        """A request that `version` can carry."""
        made = self._struct(kind, version)
        assert isinstance(made, Message)
        return made

    def _struct(self, kind: type[Struct], version: int) -> Struct:
        fields = [field for field in kind.FIELDS if version in field.versions]
        return kind(**{field.name: self._field(field, version) for field in fields})

    def _field(self, field: Field, version: int) -> Any:
        random = self.random
        if version in field.nullable and random.random() < 0.2:
            return None
        if field.default is not MISSING and random.random() < 0.3:
            return field.default
        value = self._value(field.type, version)
        if field.name in SMALL:
            value = min(value, random.randrange(SMALL[field.name] + 1))
        return value

    def _value(self, kind: FieldType, version: int) -> Any:
        random = self.random
        if isinstance(kind, ArrayOf):
            return [self._value(kind.element, version) for _ in range(random.choice((0, 1, 1, 3)))]
        if not isinstance(kind, str):
            return self._struct(kind, version)
        if kind in BITS:
            top = 1 << (BITS[kind] - 1)
            return random.choice((-1, 0, 0, 1, 1, 2, 3, -2, -5, top - 1, -top))
        if kind == "string":
            return random.choice(TEXTS)
        if kind == "records":
            good = batch_of(b"value")
            fields = ("record_count", "producer_id", "base_sequence", "attributes", "batch_length")
            return random.choice(
                (good, good, b"", good[:50], altered(good, **{random.choice(fields): 7}))
            )
        others: dict[str, Any] = {
            "bool": random.random() < 0.5,
            "float64": random.choice((0.0, -1.0, 1e300, math.inf, math.nan)),
            "uuid": random.choice(self.topic_ids),
            "bytes": b"x",
        }
        return others[kind]
