"""Connections that wait for their turn while something else happens to them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.net.tls_socket import TlsConnection
from tests.support.awaiting import until
from tests.support.certificates import Certificates
from tests.support.frames import SIZE, framed, request_bytes
from tests.support.messages import batch_of, produce_request

from ..running import RunningBroker, on_broker
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
