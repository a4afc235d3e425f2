"""Retention on a running broker: what clients see, what lies on the disk, and in which order."""

import asyncio
import time
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.config import ConfigError, load_config
from odradek.broker.core.log_uses import Use
from odradek.broker.maintenance.retention import LOOKED_AT_ONCE, Retention
from odradek.protocol.errors import ErrorCode
from odradek.storage.files import RealFileSystem
from odradek.storage.log.checkpoint import LOG_START, read_offsets
from odradek.storage.log.log import Log
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, delete_records, list_offsets, records_in

from ..faulty_files import BROKEN, FULL, FaultyFiles
from ..requests import change_configs, delete_topics
from ..running import RunningBroker, on_broker, running

TOPIC_KIND: Final = 2
SMALL: Final = {"segment.bytes": "500", "file.delete.delay.ms": "0"}
OFTEN: Final = {"log.retention.check.interval.ms": "5", "log.segment.delete.delay.ms": "0"}
NEVER: Final = {
    "log.retention.check.interval.ms": str(1 << 40),
    "odradek.flush.ms": str(1 << 40),
    "odradek.flush.bytes": str(1 << 40),
}


def log_of(broker: RunningBroker, topic: str = "t", partition: int = 0) -> Log:
    return broker.node.replicas.partitions[topic, partition].log


def retention_of(broker: RunningBroker) -> Retention:
    return Retention(broker.node.replicas, broker.config, broker._runtime)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def fill(client: Client, topic: str = "t", count: int = 30, **more: int) -> None:
    """One record a batch, as old as the present."""
    for number in range(count):
        batch = batch_of(b"%d" % number * 20, timestamp=now_ms(), **more)
        assert await client.append(topic, batch) >= 0
        if more:
            more["base_sequence"] += 1


async def earliest(client: Client, topic: str = "t") -> int:
    answer = await client.ask(list_offsets(topic, -2), 7)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


async def set_config(client: Client, name: str, value: str) -> None:
    answer = await client.ask(change_configs(TOPIC_KIND, "t", (name, 0, value)), 1)
    assert answer.responses[0].error_code == 0


def names_in(broker: RunningBroker, topic: str = "t") -> list[str]:
    return sorted(path.name for path in Path(log_of(broker, topic).directory).iterdir())


def logs_in(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).glob("*.log"))


def unlink_snapshots(kept: Log) -> None:
    for path in Path(kept.directory).glob("*.snapshot"):
        path.unlink()


@on_broker(OFTEN)
async def test_settings_count_from_the_next_check_on(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs=SMALL)
    await fill(client)
    kept = log_of(broker)
    segments = len(kept.segments)
    assert segments > 4
    await set_config(client, "retention.bytes", "1000")
    await until(lambda: kept.log_start_offset == kept.segments.first_offset > 0)
    await until(lambda: not [name for name in names_in(broker) if name.endswith(".deleted")])
    start = await earliest(client)
    assert start == kept.log_start_offset
    assert 1000 <= kept.size_bytes < 1500
    assert (await client.fetch("t", start - 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = await client.fetch("t", start)
    assert answer.log_start_offset == start
    assert records_in(answer.records)[0] == (start, b"%d" % start * 20)
    await set_config(client, "retention.ms", "1")
    await until(lambda: kept.log_start_offset == 30)
    assert await earliest(client) == 30
    await until(lambda: len(kept.segments) == 1)
    assert await client.append("t", batch_of(b"more", timestamp=now_ms() + 60_000)) == 30
    assert records_in((await client.fetch("t", 30)).records) == [(30, b"more")]


@on_broker(OFTEN, both=False)
async def test_what_lies_before_deleted_records_goes_also_if_compacted(
    broker: RunningBroker,
) -> None:
    client = await broker.client()
    await client.create_topic("t", configs=SMALL)
    await fill(client)
    kept = log_of(broker)
    third = kept.segments[2].base_offset
    await client.ask(delete_records(("t", 0, third + 1)), 2)
    await until(lambda: kept.segments.first_offset == third)
    assert kept.log_start_offset == third + 1
    await set_config(client, "cleanup.policy", "compact")
    await set_config(client, "retention.bytes", "0")
    await set_config(client, "retention.ms", "0")
    fifth = kept.segments[2].base_offset
    kept.advance_log_start(fifth)
    await until(lambda: kept.segments.first_offset == fifth)
    assert kept.log_start_offset == fifth
    await set_config(client, "cleanup.policy", "compact,delete")
    await until(lambda: kept.log_start_offset == 30)


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"hours": "2"}, 7_200_000),
        ({"hours": "2", "minutes": "3"}, 180_000),
        ({"hours": "2", "minutes": "3", "ms": "5"}, 5),
        ({"hours": "-1"}, -1),
        ({"hours": "2", "minutes": "-2"}, -1),
        ({"hours": "2", "ms": "-9"}, -1),
    ],
)
def test_the_finest_unit_counts(settings: dict[str, str], retention_ms: int) -> None:
    overrides = {f"log.retention.{unit}": text for unit, text in settings.items()}
    assert load_config(overrides=overrides).topic_config().log_config.retention_ms == retention_ms


@pytest.mark.parametrize("unit", ["ms", "minutes", "hours"])
def test_a_broker_keeps_nothing_for_no_time(unit: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.ms.* at least 1$"):
        load_config(overrides={f"log.retention.{unit}": "0"})


class OrderlyFiles(FaultyFiles):
    """Notes which log start was on the disk when a log was renamed away."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int | None] = []

    def rename(self, path: str, new_path: str) -> None:
        if path.endswith(".log"):
            directory = path.rpartition("/")[0].rpartition("/")[0]
            starts = read_offsets(RealFileSystem(), f"{directory}/{LOG_START}")
            self.seen.append((starts or {}).get(("t", 0)))
        super().rename(path, new_path)


def test_the_log_start_is_on_the_disk_before_a_file_goes(tmp_path: Path) -> None:
    async def main() -> None:
        files = OrderlyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t", configs={**SMALL, "retention.bytes": "1000"})
            await fill(client)
            segments = len(log_of(broker).segments)
            await retention_of(broker).check()
            start = log_of(broker).log_start_offset
            assert files.seen == [start] * (segments - len(log_of(broker).segments))

    asyncio.run(main())


@on_broker({**NEVER, "log.segment.delete.delay.ms": "0"}, both=False)
async def test_files_stay_for_the_delay_of_their_topic(broker: RunningBroker) -> None:
    client = await broker.client()
    configs = {**SMALL, "retention.bytes": "1000", "file.delete.delay.ms": str(1 << 40)}
    await client.create_topic("t", configs=configs)
    await fill(client)
    await retention_of(broker).check()
    await client.create_topic("other")
    await client.ask(delete_topics(6, "other"), 6)
    await until(lambda: len(broker.node.replicas.deletions) == 1)  # the directory is gone
    gone = [name.removesuffix(".deleted") for name in names_in(broker) if "deleted" in name]
    assert {Path(name).suffix for name in gone} == {".log", ".index", ".timeindex", ".snapshot"}
    assert not set(gone) & set(names_in(broker))


@pytest.mark.slow
def test_deleted_topics_wait_too_but_hold_up_no_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"

    def left() -> list[Path]:
        return list(data.glob("*-delete"))

    async def main() -> None:
        async with running(tmp_path) as broker:  # log.segment.delete.delay.ms is a minute
            client = await broker.client()
            await client.create_topic("t", 3)
            await client.ask(delete_topics(6, "t"), 6)
            assert len(left()) == 3 == len(broker.node.replicas.deletions)
            await client.create_topic("t")
            assert await client.append("t", batch_of(b"new")) == 0
        assert len(left()) == 3
        async with running(tmp_path) as broker:
            assert len(left()) == 3 == len(broker.node.replicas.deletions)
        async with running(tmp_path, {"log.segment.delete.delay.ms": "0"}) as broker:
            await until(lambda: not left())
            client = await broker.client()
            assert records_in((await client.fetch("t")).records) == [(0, b"new")]

    asyncio.run(main())


@on_broker(NEVER, both=False)
async def test_a_compaction_is_waited_for(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={**SMALL, "retention.bytes": "0"})
    await fill(client)
    kept, check = log_of(broker), retention_of(broker).check
    broker.node.replicas.uses.begin(kept, Use.COMPACTS)
    await check()
    assert kept.log_start_offset == kept.segments.first_offset == 0
    broker.node.replicas.uses.end(kept, Use.COMPACTS)
    await check()
    assert kept.log_start_offset == kept.segments.first_offset == 30


@on_broker(NEVER, both=False)
async def test_producers_are_made_safe_before_their_batches_go(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={**SMALL, "retention.bytes": "1000"})
    await fill(client, producer_id=1, producer_epoch=0, base_sequence=0)
    kept = log_of(broker)
    unlink_snapshots(kept)
    await retention_of(broker).check()
    assert kept.segments.first_offset == kept.log_start_offset > 0
    assert kept.recovery_point == 30
    assert f"{30:020d}.snapshot" in names_in(broker)


def test_a_full_disk_is_made_room_on(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t", configs={**SMALL, "retention.bytes": "1000"})
            await fill(client)
            files.faults["write"] = FULL
            await retention_of(broker).check()
            assert log_of(broker).segments.first_offset > 0
            assert not broker.node.replicas.is_offline
            files.faults.clear()

    asyncio.run(main())


@pytest.mark.parametrize("operation", ["sync", "rename"])
def test_a_broken_disk_goes_offline(tmp_path: Path, operation: str) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t", configs={**SMALL, "retention.bytes": "1000"})
            await fill(client)
            before = logs_in(log_of(broker).directory)
            files.where = "t-0"
            files.faults[operation] = BROKEN
            retention = retention_of(broker)
            directory = log_of(broker).directory
            await retention.check()
            assert broker.node.replicas.is_offline
            assert logs_in(directory) == before
            files.faults.clear()
            await retention.check()

    asyncio.run(main())


@on_broker(NEVER, both=False)
async def test_others_get_their_turn_while_it_looks(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2 * LOOKED_AT_ONCE + 1)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await retention_of(broker).check()
    counting.cancel()
    assert turns >= 3
