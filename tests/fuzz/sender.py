"""Sends hostile frames over connections that live as long as the broker lets them."""

import asyncio
import time
from collections import Counter
from typing import Final

from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from tests.support.client import Client
from tests.support.connections import read_frame
from tests.support.frames import framed, request_bytes

from .frames import Frames, Kind
from .listener import Listener

TOGETHER: Final = {Kind.HARMLESS: 16, Kind.RISKY: 1}
"""How many frames are sent before their answers are read."""
CONNECTIONS: Final = {Kind.HARMLESS: 8, Kind.RISKY: 32}
"""Many, as those of the second kind wait now and then."""
WAITS_S: Final = {Kind.HARMLESS: 30.0, Kind.RISKY: 0.5}
"""A changed request may ask the broker to wait for a long time, or be half a request."""
LAST_ID: Final = 0x7FFFFFFF
LAST: Final = framed(request_bytes(ApiVersionsRequest(), 0, correlation_id=LAST_ID))


class Sender:
    """Sends so many frames."""

    def __init__(
        self, frames: Frames, listener: Listener, count: int, per_second: float | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        """Frames, how many hang-ups and waits they led to, and answers."""
        self._frames = frames
        self._listener = listener
        self._count = count
        self._per_second = per_second
        self._others: dict[Kind, list[bytes]] = {kind: [] for kind in Kind}

    async def run(self) -> None:
        """Send all frames, at most so many in a second."""
        self._began_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for kind in Kind:
                for _ in range(CONNECTIONS[kind]):
                    tasks.create_task(self._send(kind))

    def _take(self, kind: Kind) -> list[bytes]:
        """The next frames of a kind; fewer at the end."""
        taken = self._others[kind][: TOGETHER[kind]]
        del self._others[kind][: TOGETHER[kind]]
        while len(taken) < TOGETHER[kind] and self.counts["frames"] < self._count:
            frame = self._frames.next()
            self.counts["frames"] += 1
            self.counts[frame.kind.value] += 1
            (taken if frame.kind is kind else self._others[frame.kind]).append(frame.data)
        return taken

    async def _send(self, kind: Kind) -> None:
        client: Client | None = None
        while frames := self._take(kind):
            if self._per_second is not None:
                due_s = self._began_s + self.counts["frames"] / self._per_second
                await asyncio.sleep(due_s - time.monotonic())
            if client is None:
                client = await self._listener.connect()
                self.counts["connections"] += 1
            client.send_bytes(b"".join(frames) + LAST)
            try:
                async with asyncio.timeout(WAITS_S[kind]):
                    await self._count_answers(client)
            except TimeoutError:
                self.counts[f"waits {kind.value}"] += 1
            except (asyncio.IncompleteReadError, ConnectionError):
                self.counts[f"hang-ups {kind.value}"] += 1
            else:
                continue
            client.abort()
            client = None
        if client is not None:
            client.abort()

    async def _count_answers(self, client: Client) -> None:
        """Read until the last answer.  Raises: IncompleteReadError, ConnectionError."""
        while True:
            answer = await read_frame(client.reader)
            if int.from_bytes(answer[:4], "big") == LAST_ID:
                return
            self.counts["answers"] += 1
