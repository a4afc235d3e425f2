"""Whatever a request says, it is answered or its connection is closed; never is it our bug.

Seeded: `ODRADEK_REQUESTS_SEED=7` for another run, `ODRADEK_REQUESTS_COUNT` for how many each.
"""

import logging
import os
from random import Random

import pytest

from odradek.broker.handlers import APIS, TRANSACTIONS_V2, Api
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.fuzz.messages import TOPICS, Requests
from tests.support.client import Client
from tests.support.connections import HungUp
from tests.support.frames import request_bytes, response_class

from .requests import SENSIBLE, TOPIC
from .running import RunningBroker, on_broker

SEED = int(os.environ.get("ODRADEK_REQUESTS_SEED", "1"))
COUNT = int(os.environ.get("ODRADEK_REQUESTS_COUNT", "6"))
CONTROL = (4, 5, 6)
"""LeaderAndIsr and its like, after which a broker has another controller."""
CONTROLLED_SHUTDOWN = 7  # after it a broker gets no more to lead
MAY_WAIT_LONG = (1, 11, 14)  # Fetch, JoinGroup, SyncGroup
SETTINGS = {
    "num.partitions": "2",
    "odradek.topic.partitions.max": "50",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "odradek.transaction.version": "2",
}
LAST_ID = 0x7FFFFFFF


async def say(client: Client, requests: Requests, api: Api, version: int) -> bool:
    """Whether the connection is still open."""
    request = requests.make(api.request, version)
    correlation_id = client.send(request, version)
    if getattr(request, "acks", None) == 0:
        client.send(APIS[18].request(), 0)  # answered, if the Produce without acks succeeded
        correlation_id, api, version = correlation_id + 1, APIS[18], 0
    try:
        await client.read(response_class(api.request), version, correlation_id)
    except HungUp:
        return False
    return True


async def say_all(
    broker: RunningBroker,
    client: Client,
    ids: list[bytes],
    caplog: pytest.LogCaptureFixture,
    count: int,
) -> None:
    """So many requests of each version of each API of clients: none may reveal a bug."""
    caplog.set_level(logging.ERROR)
    for api in [api for api in APIS.values() if api.key not in CONTROL]:
        for version in range(api.first, api.last_with(TRANSACTIONS_V2) + 1):
            requests = Requests(SEED * 1000 + version, ids)
            for _ in range(count):
                if not await say(client, requests, api, version):
                    client = await broker.client()
            bugs = [record.getMessage() for record in caplog.records if record.exc_info]
            assert not bugs, (api.name, version, caplog.text)


@pytest.mark.slow
@on_broker(SETTINGS)
async def test_any_request(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    client = await broker.peer()
    ids = [(await client.create_topic(name, 2)).topic_id for name in TOPICS]
    await find_coordinators(client)
    await say_all(broker, client, ids, caplog, COUNT)
    assert not broker.node.replicas.is_offline


@pytest.mark.slow
@on_broker({**SETTINGS, "controlled.shutdown.enable": "false"}, both=False)
async def test_any_control_request(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    client = await broker.peer()
    ids = [(await client.create_topic(name, 2)).topic_id for name in TOPICS]
    caplog.set_level(logging.ERROR)
    for number in range(10 * COUNT):
        for key in CONTROL:
            for version in range(APIS[key].last_with(TRANSACTIONS_V2) + 1):
                requests = Requests(SEED * 1000 + number, ids)
                broker.node.control.controller_epoch = 0
                if not await say(client, requests, APIS[key], version):
                    client = await broker.peer()
        bugs = [record.getMessage() for record in caplog.records if record.exc_info]
        assert not bugs, (number, caplog.text)
    assert not broker.node.replicas.is_offline


@pytest.mark.slow
@on_broker({"odradek.topic.partitions.max": "50", "odradek.transaction.version": "2"}, both=False)
async def test_any_bytes(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A good request in which some bytes are changed."""
    client = await broker.peer()
    topic = await client.create_topic(TOPIC)
    await find_coordinators(client)
    random = Random(SEED)
    caplog.set_level(logging.ERROR)
    last = request_bytes(APIS[18].request(), 0, correlation_id=LAST_ID)
    for api in [APIS[key] for key in sorted(APIS.keys() - {*CONTROL, CONTROLLED_SHUTDOWN})]:
        for version in range(api.first, api.last_with(TRANSACTIONS_V2) + 1):
            good = request_bytes(SENSIBLE[api.key](version, topic.topic_id), version)
            for _ in range(COUNT):
                changed = bytearray(good)
                for _ in range(random.choice((1, 1, 2, 5))):
                    changed[random.randrange(8, len(changed))] = random.randrange(256)
                async with await Client.connect(broker.port) as client:
                    client.send_frame(bytes(changed))
                    if api.key not in MAY_WAIT_LONG:
                        client.send_frame(last)
                        await end_of(client)
            bugs = [record.getMessage() for record in caplog.records if record.exc_info]
            assert not bugs, (api.name, version, caplog.text)


async def find_coordinators(client: Client) -> None:
    """Have the topics of the coordinators created."""
    for key_type in (0, 1):
        await client.ask(FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type), 4)


async def end_of(client: Client) -> None:
    """Read until the last answer, or until the broker hangs up."""
    try:
        while int.from_bytes((await client.read_frame())[:4], "big") != LAST_ID:
            pass
    except HungUp:
        return
