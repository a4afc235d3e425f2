"""Retention, compaction, deleted records, moves and settings that change, all at once, with kills.

The broker runs on the simulated loop as in test_broker.py, which says how to run one seed.
"""

import asyncio
import logging
import shutil
from pathlib import Path

import pytest

from tests.seeds import seeds

from .broker import SimBroker
from .loop import Outcome, SimLoop, simulate
from .storage_world import Past, StorageWork, connect, read_all
from .test_broker import start_with_crashes

ROUNDS = 3
DAY_MS = 86_400_000
POLICIES = {"kept": "compact", "cut": "compact,delete"}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def settings_of(loop: SimLoop, paths: list[str]) -> dict[str, str]:
    choose = loop.random.choice
    return {
        "log.dirs": ",".join(paths),
        "log.segment.bytes": choose(("700", "1500", "20000")),
        "log.flush.interval.messages": choose(("1", "10", "1000000")),
        "odradek.flush.ms": choose(("20", "10000")),
        "log.flush.offset.checkpoint.interval.ms": choose(("30", "60000")),
        "log.index.interval.bytes": choose(("0", "100", "4096")),
        "log.retention.check.interval.ms": choose(("20", "150")),
        "log.cleaner.backoff.ms": "0",
        "log.cleaner.threads": choose(("1", "2")),
        "log.cleaner.min.cleanable.ratio": "0",
        "log.segment.delete.delay.ms": choose(("0", "1000")),
        "odradek.scrub.interval.ms": "0",
    }


def life(seed: int, data_dir: Path) -> Outcome[int]:
    """Let everything happen to some topics; how much was written, having checked what is left."""

    async def main(loop: SimLoop) -> int:
        paths = [str(data_dir / name) for name in "abc"]
        broker = SimBroker(loop, data_dir, settings_of(loop, paths))
        await broker.start()
        client = await connect(broker.port)
        for name, policy in POLICIES.items():
            await client.make_topic(name, {"cleanup.policy": policy})
        await client.close()
        pasts = [Past(name, may_delete="delete" in policy) for name, policy in POLICIES.items()]
        work = StorageWork(loop, broker, paths)
        clients = [loop.create_task(work.haunt("short"))]
        for past in pasts:
            clients += [loop.create_task(work.write(f"{past.topic}-{n}", past)) for n in "ab"]
            clients += [loop.create_task(work.follow(past)), loop.create_task(work.meddle(past))]
        for number in range(ROUNDS):
            await asyncio.sleep(loop.random.uniform(0, 0.5))
            if loop.random.random() < 0.3:
                broker.clock.move_wall(loop.random.choice((DAY_MS, -DAY_MS)))
            if number == ROUNDS - 1:
                await broker.stop()
                await broker.start()
            else:
                broker.crash()
                await start_with_crashes(loop, broker)
        await asyncio.sleep(0.1)
        work.is_over = True
        await asyncio.gather(*clients)
        for past in pasts:
            past.check(*await read_all(broker.port, past.topic))
        await broker.stop()
        return work.appended

    shutil.rmtree(data_dir, ignore_errors=True)
    data_dir.mkdir()
    return simulate(main, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_what_may_not_go_stays(seed: int, data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert life(seed, data_dir).value > 50, "the load was to be worth the name"
    loud = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert not loud, "no directory fails, no task, and nothing is lost"
