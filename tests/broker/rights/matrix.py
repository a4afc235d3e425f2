"""The matrix of rights: what each user gets for each request, from Kafka or from our broker.

`python -m tests.broker.rights.matrix` asks Apache Kafka 3.9.2, and 4.3.1 for what 3.9 does not
have, and writes `kafka.json`, in half a minute. With `--new` it asks only what is not in the file.
"""

import asyncio
import json
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.schema import Message
from tests.broker.group_requests import commit
from tests.broker.requests import TIMEOUT_MS, metadata
from tests.broker.transaction_requests import init_producer
from tests.kafka.apache import BY_VERSION, Kafka43
from tests.kafka.process import free_port
from tests.support.awaiting import until
from tests.support.connections import AsyncConnection, HungUp
from tests.support.messages import creatable

from .requests import CASES, FRESH, GROUP, TOPIC, TRANSACTIONAL_ID, Case, Ids, picture
from .users import ADMIN, USERS, acls

RECORDED: Final = Path(__file__).parent / "kafka.json"
UNKNOWN_TOPIC: Final = 3
CLOSED: Final = "closed"
Matrix = dict[str, list[dict[str, Any]]]


async def until_answer(ask: Callable[[], Awaitable[Any]], is_wanted: Callable[[Any], bool]) -> Any:
    """Ask until the answer is as wanted; return it."""
    answers: list[Any] = []

    async def look() -> bool:
        answers.append(await ask())
        return is_wanted(answers[-1])

    await until(look, lambda: f"the last answer: {answers[-1]}")
    return answers[-1]


class Asking(Protocol):
    """A broker that has users."""

    async def ask(self, user: str, request: Message, version: int) -> Any:
        """Send a request as a user; return the answer.  Raises: HungUp."""


async def prepare(broker: Asking) -> bytes:
    """Add the ACLs, a topic, a group and a transactional id; return the id of the topic."""
    creations = [
        AclCreation(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for pattern, entry in acls()
    ]
    answer = await broker.ask(ADMIN, CreateAclsRequest(creations=creations), 3)
    assert not any(result.error_code for result in answer.results), answer
    topic_id = await _create(broker, TOPIC)
    for key_type, key in ((0, GROUP), (1, TRANSACTIONAL_ID)):
        find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        await until_answer(
            partial(broker.ask, ADMIN, find, 4), lambda a: not a.coordinators[0].error_code
        )
    await until_answer(
        lambda: broker.ask(ADMIN, init_producer(TRANSACTIONAL_ID), 4), lambda a: not a.error_code
    )
    await until_answer(
        lambda: broker.ask(ADMIN, commit(GROUP, TOPIC, {0: 0}), 8),
        lambda a: not a.topics[0].partitions[0].error_code,
    )
    return topic_id


async def _create(broker: Asking, name: str) -> bytes:
    """Create a topic, unless it exists; return its id once the broker shows it."""
    create = CreateTopicsRequest(topics=[creatable(name)], timeout_ms=TIMEOUT_MS)

    async def ask() -> Any:
        await broker.ask(ADMIN, create, 7)  # it may still be being deleted
        return await broker.ask(ADMIN, metadata(name), 12)

    shown = await until_answer(
        ask, lambda a: not a.topics[0].error_code and not a.topics[0].partitions[0].error_code
    )
    topic_id: bytes = shown.topics[0].topic_id
    return topic_id


async def _remove(broker: Asking, name: str) -> None:
    delete = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)

    async def ask() -> Any:
        await broker.ask(ADMIN, delete, 5)  # its creation may not have been announced yet
        return await broker.ask(ADMIN, metadata(name), 12)

    await until_answer(ask, lambda a: a.topics[0].error_code == UNKNOWN_TOPIC)


async def ask_all(broker: Asking, cases: Iterable[Case] = CASES) -> Matrix:
    """Send every request as every user."""
    topic_id = await prepare(broker)
    matrix: Matrix = {}
    for case in cases:
        rows: list[dict[str, Any]] = []
        for user in USERS:
            answer = await _answer(broker, case, user, topic_id)
            row = next((row for row in rows if row["answer"] == answer), None)
            if row is None:
                rows.append({"answer": answer, "users": [user]})
            else:
                row["users"].append(user)
        matrix[label_of(case)] = rows
    return matrix


def label_of(case: Case) -> str:
    """The name of a case in the matrix."""
    return f"{case.name} {case.version}"


async def _answer(broker: Asking, case: Case, user: str, topic_id: bytes) -> Any:
    fresh = b""
    if case.needs_fresh is True:
        fresh = await _create(broker, FRESH)
    elif case.needs_fresh is False:
        await _create(broker, FRESH)  # else a creation that is under way could end after this
        await _remove(broker, FRESH)
    try:
        answer = await broker.ask(user, case.build(Ids(topic_id, fresh)), case.version)
    except HungUp:
        return CLOSED
    return picture(answer)


AUTHORIZERS: Final = {
    "3.9.2": "kafka.security.authorizer.AclAuthorizer",
    "4.3.1": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


class KafkaWithUsers:
    """Apache Kafka, where users log in with PLAIN."""

    def __init__(self, directory: Path, version: str) -> None:
        self.kafka = BY_VERSION[version](directory)
        self._port = free_port()
        self._connections: dict[str, AsyncConnection] = {}
        listeners = {
            "PLAINTEXT": self.kafka.bootstrap_servers,
            "SASL_PLAINTEXT": f"127.0.0.1:{self._port}",
        }
        names = " ".join(f'"user_{user}"="{user}"' for user in USERS)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        self.kafka.settings = {
            "listeners": ",".join(f"{name}://{where}" for name, where in listeners.items()),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required {names};",
            "authorizer.class.name": AUTHORIZERS[version],
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
            "auto.create.topics.enable": "true",
        }
        if isinstance(self.kafka, Kafka43):
            protocols = self.kafka.fixed["listener.security.protocol.map"]
            self.kafka.settings |= {
                "listeners": f"{self.kafka.settings['listeners']},"
                f"CONTROLLER://127.0.0.1:{self.kafka.controller_port}",
                "advertised.listeners": self.kafka.settings["listeners"],
                "listener.security.protocol.map": f"{protocols},SASL_PLAINTEXT:SASL_PLAINTEXT",
            }

    async def ask(self, user: str, request: Message, version: int) -> Any:
        if user not in self._connections:
            self._connections[user] = await self._log_in(user)
        try:
            return await self._connections[user].ask(request, version)
        except HungUp:
            await self._connections.pop(user).close()
            raise

    async def _log_in(self, user: str) -> AsyncConnection:
        """SaslHandshake 0, and then the token as it is."""
        connection = await AsyncConnection.connect(self._port)
        handshake = struct.pack(">hhih4sh5s", 17, 0, 1, 4, b"test", 5, b"PLAIN")
        for frame in (handshake, f"\0{user}\0{user}".encode()):
            connection.writer.write(struct.pack(">i", len(frame)) + frame)
            (size_bytes,) = struct.unpack(">i", await connection.reader.readexactly(4))
            await connection.reader.readexactly(size_bytes)
        return connection

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()
        self.kafka.close()


def rewrite(matrix: Matrix, path: Path = RECORDED) -> None:
    """One line for each answer."""
    cases = []
    for name, rows in matrix.items():
        lines = ",\n".join(f"  {json.dumps(row, sort_keys=True)}" for row in rows)
        cases.append(f"{json.dumps(name)}: [\n{lines}\n]")
    path.write_text("{\n" + ",\n".join(cases) + "\n}\n")


def recorded() -> Matrix:
    """What Kafka answered."""
    matrix: Matrix = json.loads(RECORDED.read_text())
    return matrix


async def ask_kafka(directory: Path, version: str, cases: Iterable[Case]) -> Matrix:
    """Send requests to a Kafka of this version, as every user."""
    broker = KafkaWithUsers(directory, version)
    try:
        broker.kafka.start()
        return await ask_all(broker, cases)
    finally:
        await broker.close()


async def record(known: Matrix) -> None:
    """Ask Kafka what is not known, and keep it."""
    found = dict(known)
    unknown = [case for case in CASES if label_of(case) not in known]
    for version in sorted({case.kafka for case in unknown}):
        with tempfile.TemporaryDirectory() as directory:
            cases = [case for case in unknown if case.kafka == version]
            found |= await ask_kafka(Path(directory), version, cases)
    rewrite({label_of(case): found[label_of(case)] for case in CASES})


if __name__ == "__main__":
    asyncio.run(record(recorded() if "--new" in sys.argv else {}))
