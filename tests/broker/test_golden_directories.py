"""What each release of Odradek left on disk, stopped or killed: today's broker opens all of it.

tests/vectors/odradek/record.py made the directories, and the JSON beside each: what clients saw of
the broker before its end.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.runtime import Clock, Runtime
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.records import Record, build_batch, read_header
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.unpacking import unpack

from .batches import altered
from .golden import Picture, batches_in, picture_of
from .group_requests import consumer_heartbeat
from .running import make_broker

VECTORS = Path(__file__).parents[1] / "vectors" / "odradek"
ARCHIVES = sorted(VECTORS.glob("*.tar.xz"))
AT_REST = {"log.cleaner.enable": "false"}  # the picture stays as it was

Test = Callable[[Client, Picture], Awaitable[None]]


class RecordedClock(Clock):
    """It is the time of the recording: nothing has expired."""

    def __init__(self, runtime: Runtime, start_ms: int) -> None:
        self._clock = runtime.clock
        self._behind_ms = runtime.clock.wall_ms() - start_ms

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def wall_ms(self) -> int:
        return self._clock.wall_ms() - self._behind_ms


@asynccontextmanager
async def opened(home: Path, told: Picture) -> AsyncIterator[Client]:
    """A client of a broker with the directories in `home`."""
    log_dirs = ",".join(str(home / log_dir) for log_dir in told["log dirs"])
    broker, runtime = make_broker(home, {"log.dirs": log_dirs, **AT_REST})
    runtime.clock = RecordedClock(runtime, told["start ms"])
    try:
        await broker.start()
        client = await broker.client()
        await until(lambda: has_loaded(client, told["groups"]), "all groups are loaded")
        yield client
    finally:
        for client in broker.clients:
            await client.close()
        await broker.stop()
        runtime.close()


async def has_loaded(client: Client, groups: Picture) -> bool:
    listed = await client.ask(ListGroupsRequest(), 5)
    return listed.error_code == 0 and groups.keys() <= {each.group_id for each in listed.groups}


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def on_golden(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Test], None]:
    """A function that runs a test on a broker with a copy of each golden directory."""
    unpack(request.param, tmp_path)
    told = json.loads(request.param.with_suffix("").with_suffix(".json").read_text())

    async def run(test: Test) -> None:
        async with opened(tmp_path, told) as client:
            await test(client, told)

    return lambda test: asyncio.run(run(test))


def test_this_version_is_there() -> None:
    assert {"odradek-0.1.0-stopped.tar.xz", "odradek-0.1.0-killed.tar.xz"} <= {
        path.name for path in ARCHIVES
    }


def test_clients_see_what_they_saw(on_golden: Callable[[Test], None]) -> None:
    async def test(client: Client, told: Picture) -> None:
        seen = {**told, **await picture_of(client, told["start ms"])}
        assert json.loads(json.dumps(seen)) == told

    on_golden(test)


def test_producers_go_on_where_they_were(on_golden: Callable[[Test], None]) -> None:
    """The last batch of each is known again; the next one is taken, and no other."""

    async def test(client: Client, told: Picture) -> None:
        (partition,) = told["topics"]["sequences"]["partitions"]
        last = {}
        for batch in await batches_in(client, "sequences"):
            last[read_header(batch).producer_id] = batch
        assert len(last) == len(partition["producers"]) == 4
        end = partition["log end"]
        for batch in last.values():
            header = read_header(batch)
            again = altered(batch, base_offset=0, partition_leader_epoch=-1)
            assert await client.append("sequences", again) == header.base_offset

            def following(gap: int, batch: bytes = batch) -> bytearray:
                header = read_header(batch)
                return build_batch(
                    [Record(0, header.max_timestamp, None, b"next")],
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence + header.record_count + gap,
                )

            refused = await client.produce("sequences", following(1))
            assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert await client.append("sequences", following(0)) == end
            end += 1
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        assert (await client.ask(request, 4)).producer_id > max(last)

    on_golden(test)


def test_members_of_groups_go_on_as_members(on_golden: Callable[[Test], None]) -> None:
    async def test(client: Client, told: Picture) -> None:
        (member_id,) = told["groups"]["classic"]["members"]
        beat = HeartbeatRequest(group_id="classic", generation_id=1, member_id=member_id)
        assert (await client.ask(beat, 4)).error_code == 0
        (member_id,) = told["groups"]["consumer"]["members"]
        answer: Any = await client.ask(consumer_heartbeat("consumer", member_id, 2), 1)
        assert (answer.error_code, answer.member_epoch) == (0, 2)

    on_golden(test)


def test_topics_are_made_and_filled_as_ever(on_golden: Callable[[Test], None]) -> None:
    """A deleted topic's name is free, and every old log takes more behind its end."""

    async def test(client: Client, told: Picture) -> None:
        await client.create_topic("gone")
        for name, topic in told["topics"].items():
            if name.startswith("__"):
                continue
            for index, partition in enumerate(topic["partitions"]):
                record = Record(0, told["start ms"], b"key", b"value")
                end = await client.append(name, build_batch([record]), partition=index)
                assert end == partition["log end"]
                assert read_header((await batches_in(client, name, index))[-1]).base_offset == end

    on_golden(test)
