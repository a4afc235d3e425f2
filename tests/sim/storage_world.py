"""Logs under everything that cuts them at once, and what must be true of them all the same."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from odradek.protocol.errors import ErrorCode

from .broker import SimBroker
from .client import ErrorAnswer
from .loop import SimLoop
from .process import HOST
from .storage_client import Kept, KeyValue, StorageClient

RETRY_S = 0.02
EARLIEST, LATEST = -2, -1
KEYS = 8


@dataclass
class Past:
    """What clients know of one topic."""

    topic: str
    may_delete: bool
    """Whether its oldest records may go: by retention or DeleteRecords."""
    acknowledged: Kept = field(default_factory=dict)
    seen: Kept = field(default_factory=dict)
    sent: set[KeyValue] = field(default_factory=set)
    deleted_to: int = 0
    """Where DeleteRecords said that the log starts."""
    doubtful: list[bytes] = field(default_factory=list)
    """Keys of tombstones whose answer never came: they may have done their work and be gone."""

    def see(self, kept: Kept) -> None:
        """A reader has got these."""
        for offset, record in kept.items():
            known = self.seen.setdefault(offset, record)
            assert known == record, f"{self.topic}: offset {offset} was {known}, is {record}"

    def check(self, stored: Kept, log_start: int) -> None:
        """Hold all that is stored against what is known; nobody writes any more."""
        known = self.seen | self.acknowledged
        assert log_start >= self.deleted_to, f"{self.topic}: starts at {log_start} again"
        assert self.may_delete or log_start == 0
        for offset, record in stored.items():
            assert known.get(offset, record) == record, f"{self.topic}: {offset} has changed"
            assert record in self.sent, "what nobody sent"
        values = [value for _, value in stored.values() if value is not None]
        assert len(set(values)) == len(values), "each value was sent once and is stored once"
        newest: dict[bytes, int] = {}
        for offset, (key, _) in (known | stored).items():
            newest[key] = max(newest.get(key, -1), offset)
        for offset, (key, value) in known.items():
            is_gone = offset >= log_start and offset not in stored
            if is_gone and offset == newest[key] and key not in self.doubtful:
                assert value is None, f"{self.topic}: lost {offset} {key!r} {value!r}"
                older = [o for o, (k, _) in stored.items() if k == key and o < offset]
                assert not older, f"{self.topic}: {older} are back, deleted by {offset}"


class StorageWork:
    """Clients of one broker."""

    def __init__(self, loop: SimLoop, broker: SimBroker, paths: list[str]) -> None:
        """`paths`: the log directories."""
        self.is_over = False
        self.appended = 0
        self._loop = loop
        self._broker = broker
        self._paths = paths

    async def write(self, name: str, past: Past) -> None:
        """Append values that nobody else sends."""
        random, number = self._loop.random, 0

        async def session(client: StorageClient) -> None:
            nonlocal number
            while not self.is_over:
                records: list[KeyValue] = []
                for _ in range(random.randint(1, 6)):
                    number += 1
                    value = b"%s-%d%s" % (name.encode(), number, b"." * random.choice((0, 20, 300)))
                    key = b"%d" % random.randrange(KEYS)
                    records.append((key, None if random.random() < 0.1 else value))
                await self._append(client, past, records)
                await asyncio.sleep(random.choice((0, 0.01)))

        await self._with_sessions(session)

    async def _append(self, client: StorageClient, past: Past, records: list[KeyValue]) -> None:
        past.sent.update(records)
        deleted = [key for key, value in records if value is None]
        past.doubtful += deleted
        acks, wall_ms = self._loop.random.choice((-1, 1)), self._broker.clock.wall_ms()
        base_offset = await client.append(past.topic, records, acks, wall_ms)
        self.appended += len(records)
        for key in deleted:
            past.doubtful.remove(key)
        for offset, record in enumerate(records, base_offset):
            assert offset not in past.acknowledged
            assert past.seen.get(offset, record) == record
            past.acknowledged[offset] = record

    async def follow(self, past: Past) -> None:
        """Read on by long polls, from the log start on when what comes next is gone."""
        offset = 0

        async def session(client: StorageClient) -> None:
            nonlocal offset
            while not self.is_over:
                try:
                    kept, next_offset, start = await client.read_from(
                        past.topic, offset, wait_ms=100
                    )
                except ErrorAnswer as error:
                    if error.args[0] != ErrorCode.OFFSET_OUT_OF_RANGE:
                        raise
                    start = await client.offset_at(past.topic, EARLIEST)
                    assert start > offset, f"{offset} is out of range of a log from {start} on"
                    offset = start
                    continue
                past.see(kept)
                offset = next_offset
                if self._loop.random.random() < 0.05:
                    offset = self._loop.random.randint(start, offset)

        await self._with_sessions(session)

    async def meddle(self, past: Past) -> None:
        """Cut, move and configure a topic."""
        random = self._loop.random

        async def session(client: StorageClient) -> None:
            while not self.is_over:
                await asyncio.sleep(random.uniform(0, 0.04))
                what = random.choice((self._cut, self._move, self._configure, self._configure))
                await what(client, past)

        await self._with_sessions(session)

    async def _cut(self, client: StorageClient, past: Past) -> None:
        if not past.may_delete:
            return
        end = await client.offset_at(past.topic, LATEST)
        offset = self._loop.random.choice((-1, self._loop.random.randint(0, end)))
        try:
            start = await client.delete_before(past.topic, offset)
        except ErrorAnswer as error:
            if error.args[0] != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        else:
            past.deleted_to = max(past.deleted_to, start)

    async def _move(self, client: StorageClient, past: Past) -> None:
        await client.move(past.topic, self._loop.random.choice(self._paths))

    async def _configure(self, client: StorageClient, past: Past) -> None:
        choices = SETTINGS | (DELETING_SETTINGS if past.may_delete else {})
        name = self._loop.random.choice(list(choices))
        await client.configure(past.topic, name, self._loop.random.choice(choices[name]))

    async def haunt(self, topic: str) -> None:
        """Make a topic, use it, move it, delete it, and again: nothing of the last life is left."""
        random = self._loop.random

        async def session(client: StorageClient) -> None:
            while not self.is_over:
                with contextlib.suppress(ErrorAnswer):  # a crash may have come first
                    await client.remove_topic(topic)
                await client.make_topic(
                    topic, {"segment.bytes": "700", "cleanup.policy": "compact"}
                )
                sent: Kept = {}
                for number in range(random.randint(0, 20)):
                    record = b"%d" % (number % 3), random.randbytes(random.randint(8, 300))
                    wall_ms = self._broker.clock.wall_ms()
                    sent[number] = record
                    assert await client.append(topic, [record], -1, wall_ms) == number
                    if random.random() < 0.2:
                        await client.move(topic, random.choice(self._paths))
                await asyncio.sleep(random.choice((0, 0.1)))
                found, _, start = await client.read_from(topic, 0)
                assert start == 0
                assert found.items() <= sent.items()
                assert found or not sent

        await self._with_sessions(session)

    async def _with_sessions(self, session: Callable[[StorageClient], Awaitable[None]]) -> None:
        while not self.is_over:
            try:
                client = await connect(self._broker.port)
            except ConnectionError:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await session(client)
            except (ConnectionError, ErrorAnswer):
                await asyncio.sleep(RETRY_S)
            finally:
                await client.close()


SETTINGS: dict[str, tuple[str | None, ...]] = {
    "segment.bytes": (None, "700", "5000"),
    "segment.ms": ("30", None),
    "segment.index.bytes": ("24", None),
    "index.interval.bytes": ("0", "4096"),
    "flush.messages": (None, "1", "7"),
    "min.cleanable.dirty.ratio": ("0", "0.01", "0.9"),
    "delete.retention.ms": ("0", "50", None),
    "max.compaction.lag.ms": ("20", None),
    "file.delete.delay.ms": ("0", "100"),
}
DELETING_SETTINGS: dict[str, tuple[str | None, ...]] = {
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "retention.ms": ("1", "200", "-1"),
    "retention.bytes": ("0", "2000", "-1"),
}


async def connect(port: int) -> StorageClient:
    """A connection to the broker."""
    client = await StorageClient.connect(port, HOST)
    assert isinstance(client, StorageClient)
    return client


async def read_all(port: int, topic: str) -> tuple[Kept, int]:
    """All records of a topic, and where its log starts."""
    client = await connect(port)
    try:
        while True:
            offset = start = await client.offset_at(topic, EARLIEST)
            stored: Kept = {}
            try:
                while True:
                    more, next_offset, _ = await client.read_from(topic, offset)
                    if next_offset == offset:
                        return {o: record for o, record in stored.items() if o >= start}, start
                    offset = next_offset
                    stored |= more
            except ErrorAnswer as error:
                if error.args[0] != ErrorCode.OFFSET_OUT_OF_RANGE:  # it was cut meanwhile
                    raise
    finally:
        await client.close()
