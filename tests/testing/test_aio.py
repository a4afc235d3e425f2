"""`broker.aio`: the same calls as coroutines."""

import asyncio
from datetime import timedelta

import pytest

from odradek.testing import Broker
from odradek.testing.aio import (
    AsyncBroker,
    AsyncClock,
    AsyncFault,
    AsyncFaults,
    AsyncGroup,
    AsyncJournal,
    AsyncSnapshot,
    AsyncTopics,
)
from odradek.testing.clock import Clock
from odradek.testing.door import AdminError
from odradek.testing.faults import Fault, Faults
from odradek.testing.groups import Group
from odradek.testing.journal import Journal
from odradek.testing.snapshots import Snapshot
from odradek.testing.waits import WaitTimeout
from tests.broker.coordination.asynchronous import asynchronous

pytestmark = [pytest.mark.wire, pytest.mark.slow]


@asynchronous
async def test_all_is_there_as_coroutines() -> None:
    async with Broker(brokers=2, in_process=True) as broker:
        aio = broker.aio
        created = await aio.topics.create("t", partitions=2, replication_factor=2)
        assert await aio.topics.get("t") == created
        assert await aio.topics.names() == ["t"]
        written = await asyncio.gather(*(aio.produce("t", b"v", partition=1) for _ in range(5)))
        assert sorted(each.offset for each in written) == [0, 1, 2, 3, 4]
        assert len(await aio.records("t")) == 5
        assert await aio.groups.ids() == []
        group = aio.groups["g"]
        assert (await group.state, await group.offsets) == ("Dead", {})
        assert (await group.members, await group.lag) == ([], {})
        assert await aio.coordinator("g") in (0, 1)
        moved = await aio.move_leader("t", 1)
        assert await aio.leader("t", 1) == moved
        assert await aio.shuffle_leaders("t")
        assert await aio.move_coordinator("g", to=1) == await aio.coordinator("g") == 1
        await aio.set_rack(0, "a")
        await aio.network.isolate(0)
        await aio.network.slow(1, delay="1ms")
        await aio.network.split({0}, {1}, clients=True)
        assert len((await aio.network.state)["splits"]) == 2
        await aio.network.heal()
        await aio.pause(0)
        await aio.resume(0)
        await aio.stop(0)
        await aio.start(0)
        fault = await aio.faults.add(api="Produce", topic="t", error="NOT_LEADER_OR_FOLLOWER")
        assert [each.id for each in await aio.faults.all()] == [fault.id]
        assert (await fault.hits, await fault.matched) == (0, 0)
        assert await fault.nearest_miss is not None
        await fault.remove()
        await aio.faults.clear()
        assert await aio.journal.requests(api="Produce") == []  # the fixture's own are not in it
        await aio.journal.clear()
        assert (await aio.wait_for_topic("t")).name == "t"
        assert len(await aio.wait_for_records("t", 5)) == 5
        with pytest.raises(WaitTimeout):
            await asyncio.gather(
                aio.wait_for_group("g", timeout="10ms"), aio.wait_for_lag("g", 0, timeout="10ms")
            )
        await aio.clock.freeze()
        assert await aio.clock.is_frozen
        before = await aio.clock.now
        await aio.clock.advance("1s")
        assert await aio.clock.now == before + timedelta(seconds=1)
        await aio.clock.resume()
        with pytest.raises(AdminError, match="TOPIC_ALREADY_EXISTS"):
            await aio.topics.create("t")
        await aio.topics.delete("t")


@asynchronous
async def test_snapshots() -> None:
    async with Broker(in_process=True) as broker:
        aio = broker.aio
        first, second = await aio.snapshot(), broker.snapshot()
        assert first.directory.is_dir() and first.id != second.id
        for snapshot in (first, second):
            await aio.topics.create("t")
            await aio.restore(snapshot)
            assert await aio.topics.names() == []
        with pytest.raises(TypeError, match="not a Snapshot"):
            broker.restore(first)  # type: ignore[arg-type]
        await first.remove()
        assert not first.directory.exists()
        with pytest.raises(ValueError, match="removed"):
            await aio.restore(first)


def test_it_has_the_names_of_the_blocking_calls() -> None:
    pairs: list[tuple[type, type]] = [
        (AsyncBroker, Broker),
        (AsyncGroup, Group),
        (AsyncFault, Fault),
        (AsyncFaults, Faults),
        (AsyncJournal, Journal),
        (AsyncClock, Clock),
        (AsyncSnapshot, Snapshot),
    ]
    for wrapper, blocking in pairs:
        names = {name for name in vars(wrapper) if not name.startswith("_")}
        assert names <= {*dir(blocking), *blocking.__annotations__}
    assert {"create", "delete"} <= set(vars(AsyncTopics))
