"""Damage to cold segments is found, counted, remembered and not served."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.maintenance.scrub_state import STATE_FILE
from odradek.broker.maintenance.scrubber import Scrubber
from odradek.broker.metrics.counters import BATCHES_CORRUPT, LOOP_STALLS, SEGMENTS_SCRUBBED
from odradek.protocol.errors import ErrorCode
from odradek.storage.jobs import Result
from odradek.storage.log.log import Log
from tests.support.awaiting import until
from tests.support.messages import batch_of

from ..requests import delete_topics
from ..running import RunningBroker, on_broker, running

pytestmark = pytest.mark.wire

SETTINGS = {
    "log.segment.bytes": "1000",
    "odradek.flush.ms": "1",
    "odradek.scrub.interval.ms": "3600000",
}
VALUE = b"v" * 150


async def with_cold_segments(broker: RunningBroker) -> Log:
    """A topic of some finished segments that are safe on disk."""
    client = await broker.client()
    await client.create_topic("t")
    for _ in range(20):
        await client.append("t", batch_of(VALUE))
    log = log_of(broker)
    plan = log.flush_plan()
    if plan is not None:
        plan.run()
        log.flushed(plan)
    assert len(log.segments) > 3
    return log


def log_of(broker: RunningBroker) -> Log:
    return broker.node.replicas.partitions["t", 0].log


def scrubber_of(broker: RunningBroker) -> Scrubber:
    return Scrubber(broker.node.replicas, broker.config, broker._runtime)


async def scrub_all(broker: RunningBroker, scrubber: Scrubber) -> int:
    count = 0
    (data_dir,) = broker.node.replicas.log_dirs.online
    while found := await scrubber.scrub_some(data_dir):
        count += found
    return count


def flip(path: str, position: int) -> None:
    data = bytearray(Path(path).read_bytes())
    data[position] ^= 1
    Path(path).write_bytes(data)


async def fetch(broker: RunningBroker, offset: int) -> tuple[int, bytes]:
    """(error code, records)"""
    result = await (await broker.client()).fetch("t", offset)
    assert isinstance(result.records, bytes | bytearray | memoryview)
    return result.error_code, bytes(result.records)


@on_broker(SETTINGS, both=False)
async def test_sound_segments_are_verified_once_in_an_interval(broker: RunningBroker) -> None:
    log = await with_cold_segments(broker)
    scrubber = scrubber_of(broker)
    finished = len(log.segments) - 1
    assert await scrub_all(broker, scrubber) == finished
    counters = broker.node.metrics.counters
    assert counters[SEGMENTS_SCRUBBED] == finished
    assert counters[BATCHES_CORRUPT] == 0
    assert await scrub_all(broker, scrubber) == 0
    broker.clock.moved_ms += 3600000
    assert await scrub_all(broker, scrubber) == finished


@on_broker(SETTINGS, both=False)
async def test_a_damaged_batch_is_not_served_and_what_is_around_it_is(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    log = await with_cold_segments(broker)
    segment = log.segments[1]
    flip(segment.file.path, 300)
    assert await scrub_all(broker, scrubber_of(broker)) > 0
    (damage,) = segment.damaged
    assert damage.position <= 300 < damage.position_end
    assert damage.offset_end == damage.offset_first + 1
    assert segment.file.path in caplog.text
    assert broker.node.metrics.counters[BATCHES_CORRUPT] == 1
    code, records = await fetch(broker, damage.offset_first)
    assert (code, records) == (ErrorCode.CORRUPT_MESSAGE, b"")
    code, records = await fetch(broker, segment.base_offset)
    assert (code, len(records)) == (ErrorCode.NONE, damage.position)
    code, records = await fetch(broker, damage.offset_end)
    assert (code, len(records)) == (ErrorCode.NONE, segment.size_bytes - damage.position_end)


def test_damage_and_progress_are_known_after_a_restart(tmp_path: Path) -> None:
    async def first() -> int:
        async with running(tmp_path, SETTINGS) as broker:
            log = await with_cold_segments(broker)
            flip(log.segments[2].file.path, 200)
            await scrub_all(broker, scrubber_of(broker))
            (damage,) = log.segments[2].damaged
            return damage.offset_first

    async def second(offset: int) -> None:
        async with running(tmp_path, SETTINGS) as broker:
            scrubber = scrubber_of(broker)
            (data_dir,) = broker.node.replicas.log_dirs.online
            scrubber.restore(data_dir)
            assert (await fetch(broker, offset))[0] == ErrorCode.CORRUPT_MESSAGE
            assert await scrub_all(broker, scrubber) == 0

    asyncio.run(second(asyncio.run(first())))


def damaged(*ranges: str) -> str:
    """A state in which the first segment of the topic has these ranges."""
    return f'{{"version":1,"passes":[],"damaged":[["%s",0,0,%d,[{",".join(ranges)}]]]}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{}",
        "[" * 100_000,
        '{"version": 2}',
        '{"version":1,"passes":[[1]]}',
        '{"version":1,"passes":[["t",0,1e999,0,true]],"damaged":[]}',
        damaged('["a",null,{},0,"?"]'),
        damaged('[0,10,0,5,"?","?"]'),
        damaged('[10,0,0,5,"?"]'),
        damaged('[-10,10,0,5,"?"]'),
        damaged('[0,999999999,0,5,"?"]'),
        damaged('[0,50,-5,5,"?"]'),
        damaged('[0,50,0,5,"?"]', '[20,60,5,9,"?"]'),
    ],
)
@on_broker(SETTINGS, both=False)
async def test_an_unreadable_state_begins_anew(broker: RunningBroker, text: str) -> None:
    log = await with_cold_segments(broker)
    (data_dir,) = broker.node.replicas.log_dirs.online
    if "%s" in text:
        text %= (log.topic, log.segments[0].size_bytes)
    (Path(data_dir.path) / STATE_FILE).write_text(text)
    scrubber = scrubber_of(broker)
    scrubber.restore(data_dir)
    assert not log.segments[0].damaged
    assert await scrub_all(broker, scrubber) > 0


@on_broker(SETTINGS, both=False)
async def test_nothing_is_remembered_of_topics_that_are_deleted(broker: RunningBroker) -> None:
    await with_cold_segments(broker)
    scrubber = scrubber_of(broker)
    await scrub_all(broker, scrubber)
    (data_dir,) = broker.node.replicas.log_dirs.online
    await scrubber.forget_what_is_gone(data_dir)
    assert scrubber._state(data_dir).passes.keys() == {("t", 0)}
    await (await broker.client()).ask(delete_topics(6, "t"), 6)
    await until(lambda: not data_dir.logs)
    await scrubber.forget_what_is_gone(data_dir)
    assert not scrubber._state(data_dir).passes


@on_broker(SETTINGS, both=False)
async def test_a_segment_that_goes_meanwhile_is_no_damage(broker: RunningBroker) -> None:
    log = await with_cold_segments(broker)
    os.unlink(log.segments[1].file.path)
    scrubber = scrubber_of(broker)
    assert await scrub_all(broker, scrubber) == len(log.segments) - 1
    assert broker.node.metrics.counters[BATCHES_CORRUPT] == 0
    assert not broker.node.replicas.is_offline


def found_by(broker: RunningBroker) -> dict[str, int]:
    """All counts but that of the machine's own pauses."""
    counts = broker.node.metrics.counters.all()
    return {name: count for name, count in counts.items() if name != LOOP_STALLS}


@on_broker(SETTINGS, both=False)
async def test_what_is_said_of_a_log_that_was_deleted_counts_for_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_cold_segments(broker)
    scrubber, scrub = scrubber_of(broker), broker._runtime.jobs
    before = found_by(broker)

    async def delete_first(*job: Any) -> Result:
        await (await broker.client()).ask(delete_topics(6, "t"), 6)
        await with_cold_segments(broker)
        return await scrub(*job)

    monkeypatch.setattr(broker._runtime, "jobs", delete_first)
    (data_dir,) = broker.node.replicas.log_dirs.online
    await scrubber.scrub_some(data_dir)
    assert found_by(broker) == before
    monkeypatch.setattr(broker._runtime, "jobs", scrub)
    assert await scrub_all(broker, scrubber) == len(log_of(broker).segments) - 1
