"""Accepting connections, on one listener or several."""

import asyncio
import errno
import os
import socket

import pytest

from odradek.broker.net import listener as module
from odradek.broker.net.listener import PlainListener
from tests.support.awaiting import turns, until
from tests.support.client import Client

from ..requests import metadata
from ..running import HOST, RunningBroker, on_broker

TWO = {
    "listeners": f"PLAINTEXT://{HOST}:0,INSIDE://{HOST}:0",
    "advertised.listeners": "PLAINTEXT://broker.example:7000,INSIDE://inside.example:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
}
HAS_IPV6 = socket.has_dualstack_ipv6()


async def address_seen_by(port: int) -> tuple[str, int]:
    async with await Client.connect(port) as client:
        (broker,) = (await client.ask(metadata(), 12)).brokers
        return broker.host, broker.port


@on_broker(TWO)
async def test_each_listener_tells_its_own_address(broker: RunningBroker) -> None:
    outside, inside = (listener.port for listener in broker.listeners)
    assert outside != inside
    assert await address_seen_by(outside) == ("broker.example", 7000)
    assert await address_seen_by(inside) == ("inside.example", inside)
    assert (broker.host, broker.port) == ("broker.example", 7000)


@on_broker({"listeners": "PLAINTEXT://:0"}, both=False)
async def test_all_interfaces(broker: RunningBroker) -> None:
    host, port = broker.host, broker.port
    assert host == socket.gethostname()
    assert await address_seen_by(port) == (host, port)
    if HAS_IPV6:
        async with await Client.connect(port, "::1") as client:
            assert (await client.ask(metadata(), 12)).brokers[0].port == port
    # An IPv4 client is known by its IPv4 address, also on a socket that speaks IPv6.
    async with await Client.connect(port) as client:
        await client.ask(metadata(), 12)
        assert HOST in {connection.host for connection in broker.connections._open}


class BrokenAccept:
    """A listening socket whose `accept` fails some times."""

    def __init__(self, sock: socket.socket, code: int, failures: int) -> None:
        self._socket = sock
        self._code = code
        self.failures = failures
        self.accepts = 0

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        self.accepts += 1
        if self.failures:
            self.failures -= 1
            raise OSError(self._code, os.strerror(self._code))
        return self._socket.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._socket, name)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED])
@on_broker(both=False)
async def test_a_system_without_descriptors_is_asked_again_later(
    broker: RunningBroker, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    (listener,) = broker.listeners
    assert isinstance(listener, PlainListener)
    broken = BrokenAccept(listener._socket, code, 3)  # type: ignore[arg-type]
    monkeypatch.setattr(listener, "_socket", broken)
    client = await broker.client()
    assert len((await client.ask(metadata(), 12)).brokers) == 1
    assert broken.failures == 0
    assert broken.accepts <= 6, "it was asked again and again"


@on_broker({"max.connections": "0"}, both=False)
async def test_no_connection_at_all(broker: RunningBroker) -> None:
    (listener,) = broker.listeners
    assert isinstance(listener, PlainListener)
    await broker.client()
    await until(lambda: listener._resuming is not None)
    await turns(50)
    assert len(broker.connections) == 0
    assert listener._resuming is not None
    assert not listener._resuming.done(), "it waits, and does not spin"


@on_broker({**TWO, "max.connections": "1"}, both=False)
async def test_the_limit_holds_for_all_listeners_together(broker: RunningBroker) -> None:
    ports = [listener.port for listener in broker.listeners]
    first = await Client.connect(ports[0])
    await first.ask(metadata(), 12)
    waiting = [await Client.connect(port) for port in ports]
    asked = [asyncio.ensure_future(client.ask(metadata(), 12)) for client in waiting]
    await turns(20)
    assert not any(task.done() for task in asked)
    await first.close()
    done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    assert len(broker.connections) == 1
    await waiting[0 if asked[0] in done else 1].close()
    await asyncio.gather(*asked)
    for client in waiting:
        await client.close()


@on_broker({**TWO, "inter.broker.listener.name": "INSIDE", "max.connections": "2"}, both=False)
async def test_a_broker_takes_the_place_of_the_idlest_client(broker: RunningBroker) -> None:
    broker.node.local.is_alone = False
    outside, inside = (listener.port for listener in broker.listeners)
    clients = [await Client.connect(outside) for _ in range(2)]
    for client in reversed(clients):
        await client.ask(metadata(), 12)
        broker.clock.moved_ms += 1000
    peers = [await Client.connect(inside) for _ in range(2)]
    for peer, client in zip(peers, reversed(clients), strict=True):
        await peer.ask(metadata(), 12)
        assert await client.is_closed()
    last = await Client.connect(inside)
    asked = asyncio.ensure_future(last.ask(metadata(), 12))
    await turns(20)
    assert not asked.done(), "no client is left"
    assert len(broker.connections) == 2
    asked.cancel()
    for each in (*clients, *peers, last):
        await each.close()


@on_broker({"max.connections": "1"}, both=False)
async def test_stopping_while_clients_wait_in_the_backlog(broker: RunningBroker) -> None:
    first = await broker.client()
    await first.ask(metadata(), 12)
    second = await broker.client()
    (listener,) = broker.listeners
    assert isinstance(listener, PlainListener)
    await until(lambda: listener._resuming is not None)
    await broker.stop()
    assert await second.is_closed()
