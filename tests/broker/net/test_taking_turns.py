"""Connections that wait for their turn while something else happens to them."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.net.connections import STALLED_MS
from odradek.broker.net.shares import CALM_NS
from odradek.broker.net.tls_socket import TlsConnection
from odradek.broker.network.conditions import GOOD, Condition
from odradek.broker.network.network import Link
from tests.support.awaiting import until
from tests.support.certificates import Certificates
from tests.support.frames import SIZE, framed, request_bytes
from tests.support.messages import batch_of, produce_request

from ..requests import metadata
from ..running import HOST, RunningBroker, on_broker
from .test_connection import own_sweep
from .test_half_received import TIGHT, send_most_of
from .tls import ByHand, only, run, settings_of, trusting


class Busy:
    """Somebody who is always there, so that others have to wait."""

    rested_ns = 0.0

    def on_turn(self) -> None:
        pass


def test_the_rest_of_a_tls_record(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what TLS has received only a part fits, and then the connection has to wait."""
    frame = framed(request_bytes(produce_request("t", {0: batch_of(bytes(40_000))}), 11))

    async def test(broker: RunningBroker) -> None:
        client = ByHand(broker, trusting(certificates))
        await client.open()
        await client.shake_hands()
        await client.ask()
        connection: Any = only(broker)
        shares = broker.connections.shares
        take = TlsConnection._take
        waited = []

        def take_and_wait(self: Any, count: int) -> None:
            take(self, count)
            if self.frames.buffered_bytes and not self._session.is_drained and self._next is None:
                waited.append(count)
                shares.wait(Busy())
                self.resume()

        room = TlsConnection.room
        monkeypatch.setattr(TlsConnection, "room", lambda self: room(self)[:1000])
        monkeypatch.setattr(TlsConnection, "_take", take_and_wait)
        shares.begin_turns()
        client.tls.write(frame[:10_000])
        await client.send()
        await until(lambda: connection.frames.buffered_bytes)
        client.tls.write(frame[10_000:])
        await client.send()
        async with asyncio.timeout(20):
            (size_bytes,) = SIZE.unpack(await client.receive(SIZE.size))
            await client.receive(size_bytes)
        client.writer.close()
        assert waited

    run(tmp_path, settings_of(certificates), test)


@on_broker(TIGHT)
async def test_who_waits_for_memory_needs_no_turn_for_it(broker: RunningBroker) -> None:
    """Else it would count as one that holds memory and makes no progress, and be closed."""
    connections, shares = broker.connections, broker.connections.shares
    for _ in range(4):
        await send_most_of(await broker.client(), broker, 900_000)
    await until(lambda: connections._waiting_for_memory)
    waiting = set(connections._waiting_for_memory)
    shares.begin_turns()
    shares.wait(Busy())
    connections._on_memory_freed()
    await asyncio.sleep(0)
    assert connections._waiting_for_memory.keys() == waiting, "there is no more memory than before"
    assert not waiting & set(connections._memory_holders())


@on_broker(TIGHT)
async def test_who_waits_for_its_turn_is_not_stalled(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it makes no progress, and others wait for the memory that it holds."""
    connections, sweep = broker.connections, own_sweep(broker, monkeypatch)
    for _ in range(4):
        await send_most_of(await broker.client(), broker, 900_000)
    await until(lambda: connections._waiting_for_memory)
    holder: Any = connections._memory_holders()[0]
    broker.clock.moved_ms += STALLED_MS + 1
    holder._next = holder._handle
    sweep()
    assert not holder.closed
    holder.on_turn()
    sweep()
    assert holder.closed


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True])
def test_whatever_happens_meanwhile(tmp_path: Path, certificates: Certificates, tls: bool) -> None:
    """The broker pauses, links are slow, the clock jumps: all requests are answered."""
    chance = random.Random(7)
    request = framed(request_bytes(metadata(), 12))

    async def test(broker: RunningBroker) -> None:
        connections, link = broker.connections, Link(GOOD)
        connections.follow(link)
        port, context = broker.port, trusting(certificates)
        if not tls:
            port, context = broker.listeners[1].port, None  # type: ignore[assignment]
        clients = [await asyncio.open_connection(HOST, port, ssl=context) for _ in range(12)]
        sent: Counter[int] = Counter()

        def send() -> None:
            for number in chance.sample(range(len(clients)), 6):
                count = chance.choice((1, 5, 30))
                sent[number] += count
                clients[number][1].write(request * count)

        def pause_or_go_on() -> None:
            (connections.go_on if connections.is_paused else connections.pause)()

        def jump() -> None:
            broker.clock.moved_ms += chance.choice((1, 2 * CALM_NS // 1_000_000))

        def slow_down_or_heal() -> None:
            link.become(Condition(delay_s=0.001) if link.is_good else GOOD)

        happens = [send, send, send, connections.shares.begin_turns, jump, slow_down_or_heal]
        for more in (pause_or_go_on, send):  # without pauses at last, after which all read again
            for _ in range(150):
                chance.choice([*happens, more])()
                await asyncio.sleep(0)
            if connections.is_paused:
                connections.go_on()
        async with asyncio.timeout(20):
            for number, (reader, writer) in enumerate(clients):
                for _ in range(sent[number]):
                    (size_bytes,) = SIZE.unpack(await reader.readexactly(SIZE.size))
                    await reader.readexactly(size_bytes)
                writer.close()

    run(tmp_path, settings_of(certificates), test)
