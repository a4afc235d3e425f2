"""A gate for cost that is no clock: what a request costs is compared with what is stored.

After a change that is meant, `ODRADEK_REWRITE=1 pytest tests/broker/test_cost.py` stores the new
figures in cost.json, where a reviewer sees them beside the old ones.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.broker.config import load_config
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.net.plain_socket import PlainConnection
from odradek.broker.runtime import Runtime
from odradek.broker.server import Broker
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.schema import Message
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_collected
from tests.support.messages import batch_of, creatable, fetch_request, produce_request
from tests.support.traces import rewrites

from .cost import Asking, Calls, Cost, bytes_held, measure
from .group_requests import consumer_heartbeat, join, sync
from .requests import metadata
from .running import WatchedFiles, make_broker
from .standing import StandingLoop

STORED: Final = Path(__file__).with_name("cost.json")
BATCH: Final = bytes(batch_of(b"v" * 10_000))
LARGE: Final = bytes(batch_of(b"v" * 100_000))
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
MEMBER: Final = "m" * 22
MARGIN_BYTES: Final = 1024
MARGIN_OTHER_PYTHON: Final = 0.5  # objects differ in size from release to release

Brokers = Callable[[Path, StandingLoop], AbstractAsyncContextManager[Broker]]
Requests = Callable[[int], Awaitable[dict[str, Message]]]
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(autouse=True)
def every_file_system_can_tell_what_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some have no RWF_NOWAIT, and are then not asked: the calls would be others."""
    monkeypatch.setattr(os, "RWF_NOWAIT", 0)


@contextmanager
def standing(loop: StandingLoop) -> Iterator[None]:
    loop.stand()
    try:
        yield
    finally:
        loop.go_on()


@asynccontextmanager
async def one_broker(directory: Path, loop: StandingLoop) -> AsyncIterator[Broker]:
    """A single one."""
    broker, runtime = make_broker(directory, SETTINGS)
    runtime.clock = loop.clock
    try:
        await broker.start()
        yield broker
    finally:
        await broker.stop()
        runtime.close()


@asynccontextmanager
async def three_brokers(directory: Path, loop: StandingLoop) -> AsyncIterator[Broker]:
    """The one that leads."""
    runtime = Runtime.system()
    runtime.files, runtime.clock = WatchedFiles(), loop.clock
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    cluster = LocalCluster(
        str(directory), 3, lambda own: load_config(overrides={**settings, **own}), runtime
    )
    try:
        await cluster.start()
        async with await Client.connect(cluster.brokers[0].port) as client:
            topic = creatable("topic", factor=3)
            await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
            described = await client.ask(metadata("topic"), 12)
        leader = cluster.brokers[described.topics[0].partitions[0].leader_id]
        async with await Client.connect(leader.port) as client:
            await until(lambda: leads(client), "the leader knows that it leads")
        yield leader
    finally:
        await cluster.stop()
        runtime.close()


async def leads(client: Client) -> bool:
    return (await client.produce("topic", BATCH)).error_code == 0


async def requests_to_one(port: int) -> dict[str, Message]:
    """What is asked of a single broker, once it has what is asked for."""
    async with await Client.connect(port) as client:
        for topic in ("topic", "small", "large"):
            await client.create_topic(topic)
        await client.append("small", batch_of(b"v"))
        for _ in range(12):
            await client.append("large", LARGE)
        for group in ("classic", "consumer"):
            assert (await client.ask(FindCoordinatorRequest(key=group), 3)).error_code == 0
        member_id = (await client.ask(join("classic"), 5)).member_id
        joined = await client.ask(join("classic", member_id), 5)
        shares = {member_id: b"all"}
        await client.ask(sync("classic", joined.generation_id, member_id, shares), 3)
        beat = await client.ask(consumer_heartbeat("consumer", MEMBER), 1)
    heartbeat = HeartbeatRequest(
        group_id="classic", generation_id=joined.generation_id, member_id=member_id
    )
    return {
        "Produce, acks=1": produce_request("topic", {0: BATCH}, acks=1),
        "Produce, acks=all": produce_request("topic", {0: BATCH}),
        "Fetch of one record": fetch_request("small"),
        "Fetch of 1 MiB": fetch_request("large"),
        "Heartbeat": heartbeat,
        "ConsumerGroupHeartbeat": consumer_heartbeat("consumer", MEMBER, beat.member_epoch),
    }


async def requests_to_three(port: int) -> dict[str, Message]:
    """What is asked of the leader of three replicas."""
    return {
        "Produce, acks=1": produce_request("topic", {0: BATCH}, acks=1),
        "Produce, acks=all": produce_request("topic", {0: BATCH}),
    }


def measured(directory: Path, brokers: Brokers, requests: Requests) -> dict[str, Cost]:
    """What each request costs."""

    async def run() -> dict[str, Cost]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StandingLoop)
        async with brokers(directory, loop) as broker:
            asked = await requests(broker.port)
            asking, calls = Asking(loop, broker.port), Calls()
            await until(lambda: takes_all_at_once(broker, asking))
            with standing(loop), nothing_collected():
                with calls.seen():
                    costs = await asyncio.to_thread(measure, loop, asking, calls, asked)
                held = await asyncio.to_thread(bytes_held, asking, asked)
            asking.close()
            return {name: {**costs[name], "bytes": held[name]} for name in asked}

    with asyncio.Runner(loop_factory=StandingLoop) as runner:
        return runner.run(run())


def takes_all_at_once(broker: Broker, asking: Asking) -> bool:
    """Have the broker's end of the connection block, so that one call sends all.

    Else the number of calls would be that of the times that this system's buffers are full.
    """
    for connection in broker.connections._open:
        assert isinstance(connection, PlainConnection)
        if connection._socket.getpeername() == asking.address:
            connection._socket.setblocking(True)
            return True
    return False


def differences(stored: dict[str, Any], seen: dict[str, Any], python: str) -> list[str]:
    """Old and new figures of what has changed."""
    lines = []
    for request in sorted(stored.keys() | seen.keys()):
        old, new = stored.get(request, {}), seen.get(request, {})
        for kind in ("messages", "store", "system calls"):
            was, now = old.get(kind, {}), new.get(kind, {})
            lines += [
                f"{request}: {kind}: {name}: {was.get(name, 0)} -> {now.get(name, 0)}"
                for name in sorted(was.keys() | now.keys())
                if was.get(name) != now.get(name)
            ]
        was, now = old.get("bytes", 0), new.get("bytes", 0)
        margin = MARGIN_BYTES + (0 if python == PYTHON else MARGIN_OTHER_PYTHON * was)
        if abs(now - was) > margin:
            lines.append(f"{request}: bytes: {was} -> {now} (margin {margin:.0f})")
    return lines


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.parametrize(
    ("name", "brokers", "requests"),
    [
        ("one broker", one_broker, requests_to_one),
        ("three brokers", three_brokers, requests_to_three),
    ],
)
def test_requests_cost_what_they_did(
    name: str, brokers: Brokers, requests: Requests, tmp_path: Path
) -> None:
    seen = measured(tmp_path, brokers, requests)
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    if rewrites():
        STORED.write_text(json.dumps({**stored, "python": PYTHON, name: seen}, indent=1) + "\n")
        return
    changed = differences(stored[name], seen, stored["python"])
    assert not changed, "\n".join(["a request costs something else:", *changed])
