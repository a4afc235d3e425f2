"""Whatever a request says, it is answered or its connection is closed; never is it our bug.

Seeded: `ODRADEK_REQUESTS_SEED=7` for another run, `ODRADEK_REQUESTS_COUNT` for how many each.
"""

import logging
import math
import os
from random import Random
from typing import Any

import pytest

from odradek.broker.handlers import APIS, TRANSACTIONS_V2, Api
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.schema import MISSING, ArrayOf, Field, FieldType, Message, Struct
from tests.support.client import Client
from tests.support.connections import HungUp
from tests.support.frames import request_bytes, response_class
from tests.support.messages import batch_of

from .batches import altered
from .requests import SENSIBLE, TOPIC
from .running import RunningBroker, on_broker

SEED = int(os.environ.get("ODRADEK_REQUESTS_SEED", "1"))
COUNT = int(os.environ.get("ODRADEK_REQUESTS_COUNT", "6"))
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
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
TEXTS = ("t", "u", "", ".", "a b", "absent", "0", "__consumer_offsets", "retention.ms", "x" * 300)
SMALL = {
    "max_wait_ms": 5,
    "timeout_ms": 50,
    "session_timeout_ms": 50,
    "rebalance_timeout_ms": 50,
    "min_bytes": 1,
    "count": 8,
    "num_partitions": 8,
}
"""What would only take long if it were larger."""


class Requests:
    """Messages made of extremes, and of what the broker knows."""

    def __init__(self, seed: int, topic_ids: list[bytes]) -> None:
        self.random = Random(seed)
        self.topic_ids = [*topic_ids, bytes(16), bytes(range(16))]

    def make(self, kind: type[Message], version: int) -> Message:
        """A request that `version` can carry."""
        made = self._struct(kind, version)
        assert isinstance(made, Message)
        return made

    def _struct(self, kind: type[Struct], version: int) -> Struct:
        fields = [field for field in kind.FIELDS if version in field.versions]
        return kind(**{field.name: self._field(field, version) for field in fields})

    def _field(self, field: Field, version: int) -> Any:
        random = self.random
        if version in field.nullable and random.random() < 0.2:
            return None
        if field.default is not MISSING and random.random() < 0.3:
            return field.default
        value = self._value(field.type, version)
        if field.name in SMALL:
            value = min(value, random.randrange(SMALL[field.name] + 1))
        return value

    def _value(self, kind: FieldType, version: int) -> Any:
        random = self.random
        if isinstance(kind, ArrayOf):
            return [self._value(kind.element, version) for _ in range(random.choice((0, 1, 1, 3)))]
        if not isinstance(kind, str):
            return self._struct(kind, version)
        if kind in BITS:
            top = 1 << (BITS[kind] - 1)
            return random.choice((-1, 0, 0, 1, 1, 2, 3, -2, -5, top - 1, -top))
        if kind == "string":
            return random.choice(TEXTS)
        if kind == "records":
            good = batch_of(b"value")
            fields = ("record_count", "producer_id", "base_sequence", "attributes", "batch_length")
            return random.choice(
                (good, good, b"", good[:50], altered(good, **{random.choice(fields): 7}))
            )
        others: dict[str, Any] = {
            "bool": random.random() < 0.5,
            "float64": random.choice((0.0, -1.0, 1e300, math.inf, math.nan)),
            "uuid": random.choice(self.topic_ids),
            "bytes": b"x",
        }
        return others[kind]


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


@pytest.mark.slow
@on_broker(SETTINGS)
async def test_any_request(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    client = await broker.peer()
    ids = [(await client.create_topic(name, 2)).topic_id for name in ("t", "u")]
    await find_coordinators(client)
    caplog.set_level(logging.ERROR)
    for api in [api for api in APIS.values() if api.key not in CONTROL]:
        for version in range(api.first, api.last_with(TRANSACTIONS_V2) + 1):
            requests = Requests(SEED * 1000 + version, ids)
            for _ in range(COUNT):
                if not await say(client, requests, api, version):
                    client = await broker.client()
            bugs = [record.getMessage() for record in caplog.records if record.exc_info]
            assert not bugs, (api.name, version, caplog.text)
    assert not broker.node.replicas.is_offline


@pytest.mark.slow
@on_broker({**SETTINGS, "controlled.shutdown.enable": "false"}, both=False)
async def test_any_control_request(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    client = await broker.peer()
    ids = [(await client.create_topic(name, 2)).topic_id for name in ("t", "u")]
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
