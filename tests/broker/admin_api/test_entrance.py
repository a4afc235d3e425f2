"""The entrance of a test: what clients see there, and what is refused."""

import asyncio
import socket
from typing import Any

import pytest

from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from tests.broker.admin_api.asking import Reply, ask, served
from tests.broker.running import on_broker
from tests.support.awaiting import until
from tests.support.client import Client

PATH = "/admin/v1/entrance"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


async def open_at(server: Any, **ports: int) -> Reply:
    body = str({"ports": ports}).replace("'", '"').encode()
    return await ask(server, "POST", PATH, body=body)


async def ports_told(client: Client) -> set[int]:
    """The ports that a client is told in all ways."""
    ports = {b.port for b in (await client.ask(MetadataRequest(topics=[]), 12)).brokers}
    ports |= {b.port for b in (await client.ask(DescribeClusterRequest(), 0)).brokers}

    async def coordinator() -> bool:
        found = await client.ask(FindCoordinatorRequest(key="g"), 3)
        if not found.error_code:
            ports.add(found.port)
        return not found.error_code

    await until(coordinator)
    return ports


@on_broker()
async def test_clients_are_told_the_ports_by_which_they_came(broker: Any) -> None:
    first, second = free_port(), free_port()
    async with served(running=broker) as server:
        assert (await open_at(server, **{"0": first})).content == {"ports": {"0": first}}
        usual = await broker.client()
        early = await Client.connect(first)
        broker.clients.append(early)
        assert await ports_told(usual) == {broker.port}
        assert await ports_told(early) == {first}
        await open_at(server, **{"0": second})
        late = await Client.connect(second)
        broker.clients.append(late)
        assert await ports_told(late) == {second}
        assert await ports_told(usual) == {broker.port}
        with pytest.raises(ConnectionRefusedError):
            await Client.connect(first)
        assert (await open_at(server, **{"0": second})).status == 200  # again on its port


@on_broker(both=False)
async def test_what_can_not_be_an_entrance_is_refused(broker: Any) -> None:
    async with served(running=broker) as server:
        for ports in ({}, {"1": 9}, {"0": 9999, "1": 9}):
            refused = await open_at(server, **ports)
            assert refused.status == 400
            assert "one port for each running broker: 0" in refused.content["error"]
        assert (await open_at(server, **{"0": 0})).status == 400
        taken = await open_at(server, **{"0": broker.port})
        assert (taken.status, taken.content) == (
            409,
            {"error": "no entrance: Address already in use"},
        )
        client = await asyncio.wait_for(broker.client(), 10)
        assert await ports_told(client) == {broker.port}
