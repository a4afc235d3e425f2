"""An endless row of hostile frames: requests of every API and version, changed ones, and noise."""

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from odradek.broker.handlers import APIS, TRANSACTIONS_V2
from odradek.protocol.framing import FRAME_SIZE
from odradek.protocol.records import Codec
from tests.broker.batches import sealed
from tests.broker.requests import SENSIBLE
from tests.support.frames import framed, request_bytes
from tests.support.messages import batch_of, produce_request

from .lengths import Layout, full
from .messages import TOPICS, Requests

SHARES: Final = {"message": 70, "batch": 10, "changed": 15, "noise": 5}
HEADER_BYTES: Final = 8
"""API key, version and correlation id: what changes leave alone, so that they reach a handler."""
BETWEEN_BROKERS: Final = (4, 5, 6, 7, 56, 67)
"""Requests that brokers send each other. They end a client's connection, so they get one alone."""


COUNTS: Final = (0, 1, 1, 2, 100)
HEADER_END: Final = 61
"""Of a batch."""


class Kind(Enum):
    """What a frame does to its connection."""

    HARMLESS = "harmless"
    """It is answered, whatever it says."""
    RISKY = "risky"
    """The broker may hang up, or wait for more bytes."""


class Frame(NamedTuple):
    """Bytes to send, with their size in front."""

    kind: Kind
    data: bytes


class Frames:
    """Makes frames from a seed; the same ones for the same ids of topics."""

    def __init__(self, seed: int, topic_ids: list[bytes]) -> None:
        self._random = Random(seed)
        self._requests = Requests(seed, topic_ids)
        self._topic_id = topic_ids[0]
        self._versions = [
            (api, version)
            for api in APIS.values()
            for version in range(api.first, api.last_with(TRANSACTIONS_V2) + 1)
        ]
        self._makers: dict[str, Callable[[], Frame]] = {
            "message": self._message,
            "batch": self._batch,
            "changed": self._changed,
            "noise": self._noise,
        }

    def next(self) -> Frame:
        """The next frame."""
        (share,) = self._random.choices(list(SHARES), list(SHARES.values()))
        return self._makers[share]()

    def _message(self) -> Frame:
        """A request that says whatever its declaration allows."""
        api, version = self._random.choice(self._versions)
        request = self._requests.make(api.request, version)
        # A Produce without acks that fails ends its connection.
        is_risky = api.key in BETWEEN_BROKERS or getattr(request, "acks", None) == 0
        body = request_bytes(request, version)
        return Frame(Kind.RISKY if is_risky else Kind.HARMLESS, framed(body))

    def _batch(self) -> Frame:
        """A Produce whose batch is changed, with a checksum that fits or not."""
        random = self._random
        values = [
            random.randbytes(random.choice((0, 1, 50, 500))) for _ in range(random.choice(COUNTS))
        ]
        batch = batch_of(*values, codec=random.choice(list(Codec)))
        for _ in range(random.choice((0, 1, 1, 3))):
            batch[random.randrange(random.choice((HEADER_END, len(batch))))] = random.randrange(256)
        if random.random() < 0.2:
            batch = batch[: random.randrange(len(batch))] + random.randbytes(random.choice((0, 9)))
        if random.random() < 0.7 and len(batch) > HEADER_END:
            batch = sealed(batch)
        request = produce_request(random.choice(TOPICS), {random.randrange(3): batch}, acks=1)
        return Frame(Kind.HARMLESS, framed(request_bytes(request, random.randrange(3, 12))))

    def _changed(self) -> Frame:
        """A request in which bits, bytes, lengths or the size are changed."""
        random = self._random
        changes = (self._lie, self._flip, self._overwrite, self._splice, self._cut)
        body = random.choice(changes)()
        size_bytes = len(body)
        if random.random() < 0.02:
            size_bytes = random.choice((-1, -(1 << 31), (1 << 31) - 1, size_bytes + 1, 0))
        return Frame(Kind.RISKY, FRAME_SIZE.pack(size_bytes) + body)

    def _lie(self) -> bytes | bytearray:
        api, version = self._random.choice(self._versions)
        message = full(api.request, version)
        start = request_bytes(message, version)
        layout = Layout(message, version)
        start = start[: len(start) - len(layout.data)]
        if not layout.lengths:
            return start + layout.data
        length = self._random.choice(layout.lengths)
        lies = list(length.lies(len(layout.data) - length.end))
        return start + layout.with_lie(length, self._random.choice(lies))

    def _flip(self) -> bytearray:
        body = self._sensible()
        for _ in range(self._random.choice((1, 1, 2, 8))):
            body[self._random.randrange(len(body))] ^= 1 << self._random.randrange(8)
        return body

    def _overwrite(self) -> bytearray:
        body = self._sensible()
        for _ in range(self._random.choice((1, 1, 2, 5))):
            body[self._random.randrange(HEADER_BYTES, len(body))] = self._random.randrange(256)
        return body

    def _splice(self) -> bytearray:
        """The beginning of one request and the end of another."""
        body, other = self._sensible(), self._sensible()
        at = self._random.randrange(HEADER_BYTES, len(body))
        return body[:at] + other[self._random.randrange(len(other)) :]

    def _cut(self) -> bytearray:
        body = self._sensible()
        return body[: self._random.randrange(len(body))]

    def _sensible(self) -> bytearray:
        api, version = self._random.choice(self._versions)
        return bytearray(request_bytes(SENSIBLE[api.key](version, self._topic_id), version))

    def _noise(self) -> Frame:
        """Random bytes, in a frame or not, some with the beginning of a request."""
        random = self._random
        data = random.randbytes(random.choice((0, 1, 4, 14, 100, 1000)))
        if random.random() < 0.5:
            data = bytes(self._sensible()[:HEADER_BYTES]) + data
        if random.random() < 0.8:
            data = framed(data)
        return Frame(Kind.RISKY, data)
