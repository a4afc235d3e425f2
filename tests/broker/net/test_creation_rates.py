"""New connections that come too fast: for the broker, and from one address."""

import asyncio

import pytest

from odradek.broker.net import held as module
from odradek.broker.net.held import Held
from odradek.broker.runtime import SystemClock
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import turns, until
from tests.support.client import Client

from ..requests import metadata
from ..running import HOST, RunningBroker, on_broker
from .test_listener import TWO

SLOW = {"quota.window.num": "2", "quota.window.size.seconds": "3600"}
"""Samples so long that a test is over before one is."""


async def set_quota(client: Client, address: str | None, rate: float | None) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type="ip", entity_name=address)],
        ops=[OpData(key="connection_creation_rate", value=rate or 0.0, remove=rate is None)],
    )
    answer = await client.ask(AlterClientQuotasRequest(entries=[entry]), 1)
    assert answer.entries[0].error_code == 0


async def is_served(client: Client) -> bool:
    return len((await client.ask(metadata(), 12)).brokers) == 1


@pytest.mark.slow
@on_broker({**SLOW, "max.connection.creation.rate": "1"}, both=False)
async def test_clients_wait_in_the_backlog(broker: RunningBroker) -> None:
    """What one sample allows has come before."""
    for _ in range(3600):
        broker.node.quotas.creation_rates.delay_ms("", 1, broker.clock.now_ms())
    first = await broker.client()
    assert await is_served(first)
    late = await broker.client()
    asked = asyncio.ensure_future(late.ask(metadata(), 12))
    await until(lambda: broker.node.metrics.counters["connections_delayed"] == 1)
    await turns(20)
    assert not asked.done()
    assert len(broker.connections) == 1
    await asyncio.wait_for(asked, 30)  # after a second
    assert await is_served(first)


@on_broker({**TWO, **SLOW, "inter.broker.listener.name": "INSIDE"}, both=False)
async def test_brokers_do_not_wait(broker: RunningBroker) -> None:
    broker.node.local.is_alone = False
    broker.config.max_connection_creation_rate = 0
    outside, inside = (listener.port for listener in broker.listeners)
    first, late = await Client.connect(outside), await Client.connect(outside)
    asked = asyncio.ensure_future(late.ask(metadata(), 12))
    peers = [await Client.connect(inside) for _ in range(5)]
    assert all([await is_served(peer) for peer in peers])
    assert not asked.done()
    asked.cancel()
    for client in (first, late, *peers):
        await client.close()


@on_broker(SLOW)
async def test_an_address_over_its_quota_is_held_unread_and_then_closed(
    broker: RunningBroker,
) -> None:
    first = await broker.client()
    await set_quota(first, None, 0.0)
    refused = await broker.client()
    asked = asyncio.ensure_future(refused.ask(metadata(), 12))
    held = broker.connections.admission.held
    await until(lambda: len(held) == 1)
    assert len(broker.connections) == 1
    assert broker.node.metrics.counters["connections_refused_by_quota"] == 1
    assert not asked.done()
    (timer,) = held._held
    assert isinstance(timer, asyncio.TimerHandle)
    timer._run()  # the hour is over
    timer.cancel()
    await asyncio.wait([asked])
    assert asked.exception() is not None
    assert len(held) == 0
    await set_quota(first, HOST, 10.0)
    assert await is_served(await broker.client()), "its own quota counts from the next on"
    await set_quota(first, None, None)


@on_broker({**SLOW, "max.connection.creation.rate": "100"})
async def test_a_broker_that_stops_lets_go_of_whom_it_holds(broker: RunningBroker) -> None:
    await set_quota(await broker.client(), HOST, 0.0)
    for _ in range(5):
        await broker.client()
    await until(lambda: len(broker.connections.admission.held) == 5)
    rate, now_ms = broker.node.quotas.creation_rates._of_listeners[""], broker.clock.now_ms()
    counted = rate.measure(now_ms) * rate.span_ms(now_ms) / 1000
    assert counted == pytest.approx(1), "who is refused does not count for the broker"


@pytest.mark.slow
@on_broker(
    {
        **TWO,
        "listener.name.inside.max.connections": "1",
        "listener.name.inside.max.connection.creation.rate": "2",
        **{"quota.window.num": "2", "quota.window.size.seconds": "1"},
    },
    both=False,
)
async def test_limits_of_one_listener(broker: RunningBroker) -> None:
    outside, inside = (listener.port for listener in broker.listeners)
    first = await Client.connect(inside)
    assert await is_served(first)
    second = await Client.connect(inside)
    asked = asyncio.ensure_future(second.ask(metadata(), 12))
    others = [await Client.connect(outside) for _ in range(5)]
    assert all([await is_served(other) for other in others])
    assert not asked.done()
    counters = broker.node.metrics.counters
    assert counters["connections_delayed"] == 0
    await first.close()
    await asked
    await second.close()
    for _ in range(3):
        async with await Client.connect(inside) as client:
            assert await is_served(client)
    assert counters["connections_delayed"] > 0
    for other in others:
        await other.close()


@asynchronous
async def test_few_are_held() -> None:
    held, closed = Held(SystemClock()), list[str]()
    for host in range(40):
        for _ in range(40):
            held.hold(f"10.0.0.{host}", lambda: closed.append("now"), 3_600_000)
    assert len(held) == module.HELD_MAX == 32 * module.HELD_PER_HOST_MAX
    assert len(closed) == 40 * 40 - module.HELD_MAX
    held.close_all()
    assert len(held) == 0
    assert len(closed) == 40 * 40
    held.hold("10.0.0.1", lambda: closed.append("later"), 0)
    await until(lambda: closed[-1] == "later")
    assert len(held) == 0
