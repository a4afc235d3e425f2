"""A group on the simulated broker: members come, go and vanish, and the broker is killed.

In each generation a partition has one owner; nobody waits longer than the timeouts say; committed
offsets never go back by themselves; a jump of the wall clock disturbs nobody.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.seeds import seeds

from .broker import SimBroker
from .client import Client
from .group_members import TOPIC, GroupHistory, Member
from .loop import Outcome, SimLoop, simulate
from .process import HOST
from .test_broker import start_with_crashes

PARTITIONS = 3
MEMBERS = 4
CRASHES = 3
LIFE_S = 6.0
HOUR_MS = 3_600_000


def run(seed: int, data_dir: Path) -> Outcome[GroupHistory]:
    """Let a group live; kill the broker several times."""

    async def main(loop: SimLoop) -> GroupHistory:
        settings = {
            "group.initial.rebalance.delay.ms": str(loop.random.choice((0, 100))),
            "group.min.session.timeout.ms": "100",
            "offsets.topic.num.partitions": "2",
            "offsets.load.buffer.size": str(loop.random.choice((300, 5 << 20))),
            "offsets.topic.segment.bytes": str(loop.random.choice((2_000, 100 << 20))),
        }
        broker, history = SimBroker(loop, data_dir, settings), GroupHistory(PARTITIONS)
        await broker.start()
        client = await Client.connect(broker.port, HOST)
        await client.create_topic(TOPIC, partitions=PARTITIONS)
        await client.close()
        members = [
            loop.create_task(Member(loop, broker, history, f"m{number}").live())
            for number in range(MEMBERS)
        ]
        for _ in range(CRASHES):
            await asyncio.sleep(loop.random.uniform(0, LIFE_S / CRASHES))
            broker.clock.move_wall(loop.random.choice((0, HOUR_MS, -HOUR_MS)))
            broker.crash()
            await start_with_crashes(loop, broker)
        await asyncio.sleep(LIFE_S / CRASHES)
        history.is_over = True
        await asyncio.gather(*members)
        await broker.stop()
        return history

    shutil.rmtree(data_dir, ignore_errors=True)
    return simulate(main, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, 25))
def test_a_group_lives_through_crashes(seed: int, tmp_path: Path) -> None:
    history = run(seed, tmp_path / "data").value
    assert len(history.generations) > 1, "there were to be rebalances"
    assert any(history.committed.values()), "somebody was to get somewhere"


@pytest.mark.slow
def test_one_seed_one_trace(tmp_path: Path) -> None:
    first, second = (run(7, tmp_path / "data") for _ in range(2))
    assert first.trace.digest == second.trace.digest
    assert first.value.owners == second.value.owners
