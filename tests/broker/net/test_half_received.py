"""The memory of requests that are half received: who waits for it, and who is closed."""

import pytest

from odradek.broker.net.connections import STALLED_MS
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.frames import framed, request_bytes
from tests.support.messages import batch_of, fetch_request, produce_request

from ..requests import metadata
from ..running import RunningBroker, on_broker, waiters_of
from .test_connection import KIB, LONG_MS, MIB, is_served, own_sweep

TIGHT = {"queued.max.request.bytes": str(3 * MIB), "socket.request.max.bytes": str(2 * MIB)}
LARGE = framed(request_bytes(produce_request("t", {0: batch_of(bytes(1_000_000))}), 11))


async def send_most_of(client: Client, broker: RunningBroker, size_bytes: int) -> None:
    client.send_bytes(LARGE[:size_bytes])
    await client.writer.drain()


@on_broker(TIGHT)
async def test_large_frames_wait_while_small_ones_are_served(broker: RunningBroker) -> None:
    small = await broker.client()
    await small.create_topic("t")
    large = [await broker.client() for _ in range(4)]
    for client in large:
        await send_most_of(client, broker, 900_000)
    await until(lambda: broker.connections._waiting_for_memory)
    for _ in range(3):
        assert broker.connections.budget.used_bytes <= 3 * MIB + len(LARGE)
        assert await is_served(small)
    # Those that can go on do, which lets the others in.
    for client in large:
        client.send_bytes(LARGE[900_000:])
    for client in large:
        await client.read_frame()
    assert (await small.fetch("t", 4)).high_watermark == 4


@on_broker(TIGHT)
async def test_twenty_half_received_frames_all_come_through(broker: RunningBroker) -> None:
    """Each has begun, and together they would need six times the memory there is."""
    small = await broker.client()
    await small.create_topic("t")
    large = [await broker.client() for _ in range(20)]
    for client in large:
        await send_most_of(client, broker, 500_000)
    await until(lambda: len(broker.connections._waiting_for_memory) > 10)
    assert await is_served(small)
    for client in reversed(large):
        client.send_bytes(LARGE[500_000:])
    for client in large:
        await client.read_frame()
    assert (await small.fetch("t", 20)).high_watermark == 20


@on_broker(TIGHT)
async def test_who_holds_memory_that_others_wait_for_must_go_on(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = own_sweep(broker, monkeypatch)
    small = await broker.client()
    await small.create_topic("t")
    stalled = [await broker.client() for _ in range(3)]
    for number, client in enumerate(stalled):
        await send_most_of(client, broker, 900_000)
        await until_received(broker, (number + 1) * 900_000)
    waiting = [await broker.client() for _ in range(3)]
    for client in waiting:
        client.send_bytes(LARGE)
    await until(lambda: len(broker.connections._waiting_for_memory) == 3)
    sweep()
    assert len(broker.connections) == 7, "nobody has had the time"
    buffered_bytes = received_bytes(broker)
    broker.clock.moved_ms += STALLED_MS + 1
    for client in stalled:
        client.send_bytes(LARGE[900_000:900_001])
    await until_received(broker, buffered_bytes + 3)
    sweep()
    for client in stalled:
        assert await client.is_closed(), "one byte is no progress"
    assert "this client has made no progress for 5000 ms" in caplog.text
    for client in waiting:
        await client.read_frame()
    assert await is_served(small)


def received_bytes(broker: RunningBroker) -> int:
    return sum(connection.frames.buffered_bytes for connection in broker.connections._open)


async def until_received(broker: RunningBroker, size_bytes: int) -> None:
    """Wait until so many bytes of unfinished frames are there."""
    await until(lambda: received_bytes(broker) == size_bytes)


@on_broker(TIGHT)
async def test_many_frames_that_have_only_begun(broker: RunningBroker) -> None:
    good = await broker.client()
    begun = []
    for number in range(60):
        broker.clock.moved_ms = number
        begun.append(await broker.client())
        begun[-1].send_bytes(LARGE[: 20 * KIB])
        assert await is_served(good)
        assert broker.connections.budget.used_bytes <= 3 * MIB
    assert await begun[0].is_closed(), "it has waited longest"
    assert len(broker.connections) >= 40
    assert not begun[-1].reader.at_eof()


@on_broker(TIGHT)
async def test_if_all_wait_the_last_to_come_gives_way(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = await broker.client()
    waiting = [await broker.client() for _ in range(6)]
    for client in waiting:
        client.send_bytes(LARGE[:-1])
    await until(lambda: len(broker.connections._waiting_for_memory) >= 3)
    assert await is_served(good)
    monkeypatch.setattr(broker.connections, "_memory_holders", list)
    for last in reversed(list(broker.connections._waiting_for_memory)):
        assert not last.closed
        broker.connections.reclaim_memory()
        assert last.closed
    assert not broker.connections._waiting_for_memory


@pytest.mark.slow
@on_broker()
async def test_a_begun_frame_costs_what_was_received(broker: RunningBroker) -> None:
    for _ in range(100):
        (await broker.client()).send_bytes(LARGE[:100])
    await until_received(broker, 100 * 100)
    assert broker.connections.budget.used_bytes == 100 * 100


@pytest.mark.slow
@on_broker({"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"})
async def test_a_budget_below_what_is_left_over(broker: RunningBroker) -> None:
    client, writer = await broker.client(), await broker.client()
    await writer.create_topic("t")
    fetch = framed(request_bytes(fetch_request("t", wait_ms=LONG_MS), 12))
    client.send_bytes(fetch + framed(request_bytes(metadata(), 12)) * 5000)
    await until(lambda: waiters_of(broker))
    assert await is_served(writer)
    await writer.append("t", batch_of(b"a"))
    for _ in range(5001):
        await client.read_frame()


@on_broker({"queued.max.request.bytes": "-1"})
async def test_no_budget_is_no_limit(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(bytes(1_000_000)))


@on_broker({"connections.max.idle.ms": "10000"})
async def test_who_sends_a_byte_now_and_then_is_idle(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = own_sweep(broker, monkeypatch)
    slow = [await broker.client() for _ in range(3)]
    honest = await broker.client()
    await honest.create_topic("t")
    sent = dict(zip(slow, (1, 9, 10_000), strict=True))  # in the size, the header, the frame
    for client, size_bytes in sent.items():
        client.send_bytes(LARGE[:size_bytes])
    for number in range(3):
        await until_received(broker, sum(sent.values()))
        broker.clock.moved_ms += 4000
        sweep()
        assert len(broker.connections) == (1 if number == 2 else 4)
        for client in slow:
            client.send_bytes(LARGE[sent[client] : sent[client] + 1])
            sent[client] += 1
        honest.send_bytes(LARGE[number * 100_000 : (number + 1) * 100_000])
        sent[honest] = (number + 1) * 100_000
    for client in slow:
        assert await client.is_closed()
    honest.send_bytes(LARGE[300_000:])
    await honest.read_frame()
