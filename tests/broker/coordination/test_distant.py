"""A store that answers late, in order."""

import asyncio
import time
from pathlib import Path

import pytest

from odradek.broker.coordination.distant import DistantStore
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import NoNode, WatchEvent
from odradek.broker.network.conditions import GOOD, Condition
from odradek.broker.network.network import Link
from odradek.broker.runtime import Runtime
from tests.broker.coordination.asynchronous import asynchronous

LATE = Condition(delay_s=0.05)


@pytest.mark.slow
@asynchronous
async def test_answers_and_events_arrive_late_and_in_order(tmp_path: Path) -> None:
    runtime = Runtime.system()
    store = EmbeddedStore(f"{tmp_path}/store", runtime=runtime)
    await store.start()
    link = Link(GOOD)
    session = await DistantStore(store, link).open_session(10_000)
    other = await store.open_session(10_000)
    seen: list[object] = []

    async def timed(waits: object) -> float:
        begun_s = time.monotonic()
        await waits  # type: ignore[misc]
        return time.monotonic() - begun_s

    def note(event: WatchEvent) -> None:
        seen.append("event")

    await session.create("/a", b"1")
    await session.get("/a", note)
    link.become(LATE)
    with pytest.raises(NoNode):
        await session.get("/none")
    changing = other.set("/a", b"2")
    await changing
    assert seen == []
    begun_s = time.monotonic()
    data, _ = await session.get("/a")
    assert time.monotonic() - begun_s >= 0.05
    assert data == b"2"
    assert seen == ["event"]  # before the answer that shows the change
    answers = [asyncio.create_task(session.get("/a")) for _ in range(20)]
    for index, answer in enumerate(answers):
        answer.add_done_callback(lambda _, index=index: seen.append(index))  # type: ignore[misc]
    assert await timed(asyncio.gather(*answers)) < 0.05 * 10  # together, not one after the other
    assert seen[1:] == list(range(20))
    link.become(Condition(bytes_per_s=1_000))
    assert await timed(session.set("/a", bytes(100))) >= 0.1
    large = asyncio.create_task(session.get("/a"))
    small = asyncio.create_task(session.exists("/a"))
    await small
    assert large.done()  # nothing overtakes what takes longer
    link.become(GOOD)
    await session.close()
    await other.close()
    await store.close()
    runtime.close()
