"""What each user gets for each request is what Apache Kafka 3.9.2 gives it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.net.call import Principal
from odradek.protocol.schema import Message
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client

from .matrix import Matrix, ask_all, ask_kafka, label_of, recorded
from .requests import CASES
from .users import ADMIN, USERS

AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": f"User:{ADMIN}",
    "group.initial.rebalance.delay.ms": "0",
}


class OurUsers:
    """Our broker, where a test says who somebody is."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._clients: dict[str, Client] = {}

    async def connect(self) -> None:
        """Let all of them in; from then on they count as having logged in."""
        for user in USERS:
            self._clients[user] = await client_of(self._broker, user)
        self._broker.node.config.security_protocols["PLAINTEXT"] = "SASL_PLAINTEXT"

    async def ask(self, user: str, request: Message, version: int) -> Any:
        return await self._clients[user].ask(request, version)


async def client_of(broker: RunningBroker, user: str) -> Client:
    """A connection of a user."""
    connections = broker.connections._open
    before = set(connections)
    client = await broker.client()
    await client.ask(CASES[0].build.__globals__["ApiVersionsRequest"](), 3)
    (connection,) = set(connections) - before
    connection.principal = Principal("User", user)
    return client


@pytest.mark.slow
@on_broker(AUTHORIZER, both=False)
async def test_rights_are_those_of_kafka(broker: RunningBroker) -> None:
    broker.node.local.is_alone = False  # otherwise it would hear no other brokers at all
    users = OurUsers(broker)
    await users.connect()
    check_equal(await ask_all(users), recorded())


@pytest.mark.java
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", sorted({case.kafka for case in CASES}))
def test_kafka_answers_as_recorded(version: str, tmp_path: Path) -> None:
    cases = [case for case in CASES if case.kafka == version]
    labels = {label_of(case) for case in cases}
    expected = {label: rows for label, rows in recorded().items() if label in labels}
    check_equal(asyncio.run(ask_kafka(tmp_path, version, cases)), expected)


def check_equal(matrix: Matrix, expected: Matrix) -> None:
    found, wanted = by_user(matrix), by_user(expected)
    assert found.keys() == wanted.keys()
    differences = [
        f"{key}: {found[key]}, not {wanted[key]}" for key in found if found[key] != wanted[key]
    ]
    assert not differences, "\n".join(differences)


def by_user(matrix: Matrix) -> dict[tuple[str, str], Any]:
    return {
        (case, user): row["answer"]
        for case, rows in matrix.items()
        for row in rows
        for user in row["users"]
    }


def test_each_user_is_in_each_line() -> None:
    for case, rows in recorded().items():
        assert sorted(user for row in rows for user in row["users"]) == sorted(USERS), case
