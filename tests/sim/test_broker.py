"""The whole broker on the simulated loop: it serves, is killed in the middle of work, comes back.

`ODRADEK_SIM_SEED=7 pytest tests/sim/test_broker.py` runs one seed (`make sim SEED=7`), a range
3..99 many.  A failure prints its seed and the end of its trace.
"""

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest

from tests.seeds import seeds

from .broker import SimBroker
from .client import Client
from .loop import Outcome, SimLoop, simulate
from .node import NodeCrashed
from .process import HOST
from .workload import TOPIC, History, Log, Workload, read_all

PARTITIONS = 2
CRASHES = 3
DAY_MS = 86_400_000


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def crashes(seed: int, data_dir: Path) -> Outcome[list[Log]]:
    """Kill a broker several times under load; what it holds in the end, having checked it."""

    async def main(loop: SimLoop) -> list[Log]:
        settings = {
            "log.segment.bytes": str(loop.random.choice((1_500, 20_000, 1 << 30))),
            "odradek.flush.ms": str(loop.random.choice((20, 10_000))),
            "log.flush.offset.checkpoint.interval.ms": str(loop.random.choice((30, 60_000))),
            "log.index.interval.bytes": str(loop.random.choice((0, 100, 4_096))),
        }
        broker, history = SimBroker(loop, data_dir, settings), History(PARTITIONS)
        await broker.start()
        await create_topic(broker)
        workload = Workload(loop, broker, history)
        clients = [
            *(loop.create_task(workload.write(f"w{n}", n % PARTITIONS)) for n in range(3)),
            *(loop.create_task(workload.follow(partition)) for partition in range(PARTITIONS)),
        ]
        for _ in range(CRASHES):
            await asyncio.sleep(loop.random.uniform(0, 0.4))
            broker.crash()
            await start_with_crashes(loop, broker)
        await asyncio.sleep(0.1)
        history.is_over = True
        await asyncio.gather(*clients)
        logs = await check_logs(broker, history)
        await broker.stop()
        await broker.start()
        assert await check_logs(broker, history) == logs
        await broker.stop()
        return logs

    shutil.rmtree(data_dir, ignore_errors=True)
    return simulate(main, seed)


async def create_topic(broker: SimBroker) -> None:
    client = await Client.connect(broker.port, HOST)
    await client.create_topic(TOPIC, partitions=PARTITIONS)
    await client.close()


async def start_with_crashes(loop: SimLoop, broker: SimBroker) -> None:
    """Start it; sometimes it is killed while it starts, and started again."""
    while loop.random.random() < 0.3:
        starting = loop.create_task(broker.start())
        await asyncio.sleep(loop.random.uniform(0, 0.02))
        broker.crash()
        with contextlib.suppress(NodeCrashed):  # not raised if it was quicker than that
            await starting
    await broker.start()


async def check_logs(broker: SimBroker, history: History) -> list[Log]:
    logs = [await read_all(broker.port, partition) for partition in history.partitions]
    for partition, log in enumerate(logs):
        history.check(partition, log)
    return logs


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6, 12))
def test_what_was_acknowledged_survives_crashes(seed: int, data_dir: Path) -> None:
    logs = crashes(seed, data_dir).value
    assert sum(len(log) for log in logs) > 50, "the load was to be worth the name"


@pytest.mark.slow
def test_one_seed_one_trace(data_dir: Path) -> None:
    first, second, other = (crashes(seed, data_dir) for seed in (7, 7, 8))
    assert first.trace.lines == second.trace.lines
    assert first.trace.digest == second.trace.digest
    assert first.value == second.value
    assert first.trace.digest != other.trace.digest


def test_a_long_poll_is_answered_when_a_record_comes(data_dir: Path) -> None:
    async def main(loop: SimLoop) -> tuple[Log, Log, int]:
        broker = SimBroker(loop, data_dir)
        await broker.start()
        await create_topic(broker)
        reader, writer = [await Client.connect(broker.port, HOST) for _ in range(2)]
        start_ns = loop.now_ns
        nothing = await reader.fetch(TOPIC, 0, 0, wait_ms=5_000)
        waited_ms = (loop.now_ns - start_ns) // 1_000_000
        fetching = loop.create_task(reader.fetch(TOPIC, 0, 0, wait_ms=20_000))
        await asyncio.sleep(10)
        await writer.produce(TOPIC, 0, [b"at last"], acks=1)
        something = await asyncio.wait_for(fetching, 1)
        await reader.close()
        await writer.close()
        await broker.stop()
        return nothing, something, waited_ms

    nothing, something, waited_ms = simulate(main, 1).value
    assert nothing == []
    assert 5_000 <= waited_ms < 5_200
    assert something == [(0, b"at last")]


def test_a_jump_of_the_wall_clock_disturbs_nobody(data_dir: Path) -> None:
    async def main(loop: SimLoop) -> Log:
        broker = SimBroker(loop, data_dir, {"log.retention.ms": "-1"})  # which a jump may end
        await broker.start()
        await create_topic(broker)
        client = await Client.connect(broker.port, HOST)
        for jump_ms in (0, DAY_MS, -2 * DAY_MS):
            broker.clock.move_wall(jump_ms)
            await client.produce(TOPIC, 0, [b"%d" % jump_ms], acks=1)
            await asyncio.sleep(60)
        found = await client.fetch(TOPIC, 0, 0)
        await client.close()
        await broker.stop()
        return found

    assert [value for _, value in simulate(main, 1).value] == [b"0", b"86400000", b"-172800000"]


@pytest.mark.parametrize("seed", seeds(2, 5))
def test_a_client_that_stops_reading_costs_little(seed: int, data_dir: Path) -> None:
    async def main(loop: SimLoop) -> tuple[int, Log]:
        broker = SimBroker(loop, data_dir)
        await broker.start()
        await create_topic(broker)
        client = await Client.connect(broker.port, HOST)
        for _ in range(8):
            await client.produce(TOPIC, 0, [bytes(400_000)], acks=1)
        client.pause_reading()
        fetching = loop.create_task(client.fetch(TOPIC, 0, 0))
        await asyncio.sleep(5)
        buffered_bytes = broker.buffered_bytes()
        client.resume_reading()
        found = await fetching
        client.pause_reading()
        fetching = loop.create_task(client.fetch(TOPIC, 0, 0))
        await asyncio.sleep(5)
        await broker.stop()
        client.resume_reading()
        with pytest.raises(ConnectionError):
            await fetching
        await client.close()
        return buffered_bytes, found

    buffered_bytes, found = simulate(main, seed).value
    assert [offset for offset, _ in found] == list(range(8))
    assert buffered_bytes < 600_000, "an answer of 3.2 MB was to wait in its file"


@pytest.mark.slow
def test_an_hour_without_work(data_dir: Path) -> None:
    async def main(loop: SimLoop) -> None:
        broker = SimBroker(loop, data_dir)
        await broker.start()
        await asyncio.sleep(3_600)
        await create_topic(broker)
        await broker.stop()

    assert simulate(main, 1).virtual_ms >= 3_600_000
