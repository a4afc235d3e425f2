"""Users of SCRAM: added, changed, deleted, and kept beside quotas.

Kafka's codes and texts are compared in tests/wire/test_sasl_against_kafka.py.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from odradek.broker.administration.scram_users import Change
from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import Create, Op, Result, Set
from odradek.broker.sasl import scram
from odradek.broker.sasl.credentials import encode_credential
from odradek.broker.sasl.scram_messages import ClientFirst, ServerFirst
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_left
from tests.support.scram import answer_to

from ..requests import change_configs
from ..running import HOST, RunningBroker, on_broker, running

SETTINGS = {
    "listeners": f"PLAINTEXT://{HOST}:0,SASL_PLAINTEXT://{HOST}:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "0",
}
ODD = "a b/ü*,="
BROKER = 4
SET = 0


def stretched(mechanism: scram.Mechanism, password: str) -> bytes:
    return scram.salted_password(mechanism, password, salt=b"salt", iterations=4096)


async def add(
    client: Client, user: str, password: str, mechanism: scram.Mechanism = scram.SHA_256
) -> int:
    """Set a user's password; return the error code."""
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.number,
        iterations=4096,
        salt=b"salt",
        salted_password=stretched(mechanism, password),
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    return (await client.ask(request, 0)).results[0].error_code  # type: ignore[no-any-return]


async def delete(client: Client, user: str, mechanism: scram.Mechanism = scram.SHA_256) -> int:
    """Delete a user's credential; return the error code."""
    deletion = ScramCredentialDeletion(name=user, mechanism=mechanism.number)
    request = AlterUserScramCredentialsRequest(deletions=[deletion])
    return (await client.ask(request, 0)).results[0].error_code  # type: ignore[no-any-return]


async def logs_in(
    broker: RunningBroker, user: str, password: str, mechanism: scram.Mechanism = scram.SHA_256
) -> bool:
    """Whether a client can log in."""
    async with await Client.connect(broker.listeners[1].port) as client:
        await client.ask(SaslHandshakeRequest(mechanism=mechanism.name), 1)
        first = ClientFirst(name=user.replace("ü", "u"), nonce="nonce")
        asked = SaslAuthenticateRequest(auth_bytes=first.encode())
        found = ServerFirst.parse((await client.ask(asked, 2)).auth_bytes)
        final, _, _ = answer_to(mechanism, first, found, password)
        answer = await client.ask(SaslAuthenticateRequest(auth_bytes=final), 2)
        return bool(answer.error_code == 0)


async def described(client: Client) -> dict[str, list[tuple[int, int]]]:
    answer = await client.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


async def set_quota(client: Client, user: str, value: float | None) -> None:
    quota = OpData(key="producer_byte_rate", value=value or 0.0, remove=value is None)
    entity = [EntityData(entity_type="user", entity_name=user)]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[quota])])
    assert (await client.ask(request, 1)).entries[0].error_code == 0


async def stored(broker: RunningBroker, user: str) -> Mapping[str, str]:
    return znodes.decode_config((await broker.session.get(f"/config/users/{user}"))[0])


@on_broker(SETTINGS, both=False)
async def test_users_come_change_and_go(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = await broker.client()
    assert not await logs_in(broker, "alice", "pencil")
    assert await add(client, "alice", "pencil") == 0
    assert await logs_in(broker, "alice", "pencil")
    assert not await logs_in(broker, "alice", "Pencil")
    assert not await logs_in(broker, "alice", "pencil", scram.SHA_512)
    assert await add(client, "alice", "crayon", scram.SHA_512) == 0
    assert await logs_in(broker, "alice", "crayon", scram.SHA_512)
    assert await logs_in(broker, "alice", "pencil")
    assert await add(client, "alice", "chalk") == 0
    assert not await logs_in(broker, "alice", "pencil")
    assert await logs_in(broker, "alice", "chalk")
    assert await described(client) == {"alice": [(1, 4096), (2, 4096)]}
    assert await delete(client, "alice") == 0
    assert not await logs_in(broker, "alice", "chalk")
    assert await delete(client, "alice") == ErrorCode.RESOURCE_NOT_FOUND
    assert await described(client) == {"alice": [(2, 4096)]}
    for secret in (*map(stretched, scram.MECHANISMS.values(), ("chalk", "crayon")),):
        assert secret.hex() not in caplog.text
    assert "salt=" not in caplog.text
    assert "scram user changed user='alice'" in caplog.text


@on_broker(SETTINGS, both=False)
async def test_who_has_no_password_is_nobody(broker: RunningBroker) -> None:
    """Else everybody could log in: what nothing is stretched to is no secret."""
    async with await broker.client() as client:
        for mechanism in scram.MECHANISMS.values():
            for salted in (b"", bytes(mechanism.size_bytes)):
                upsertion = ScramCredentialUpsertion(
                    name="alice",
                    mechanism=mechanism.number,
                    iterations=4096,
                    salt=b"salt",
                    salted_password=salted,
                )
                request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
                result = (await client.ask(request, 0)).results[0]
                assert result.error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
        assert await described(client) == {}


@pytest.mark.parametrize(
    ("user", "code"),
    [("", ErrorCode.UNACCEPTABLE_CREDENTIAL), ("nobody", ErrorCode.RESOURCE_NOT_FOUND)],
)
@on_broker(SETTINGS, both=False)
async def test_nothing_of_a_refused_change_is_left_to_the_collector(
    broker: RunningBroker, user: str, code: ErrorCode
) -> None:
    client = await broker.client()
    async with nothing_left(Refused):
        assert await delete(client, user) == code


class Compared(str):
    """A name that counts how often it is compared with another."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@on_broker(SETTINGS, both=False)
async def test_many_users_are_not_compared_with_each_other(broker: RunningBroker) -> None:
    changes = [Change(Compared(f"u{number}"), 0, None) for number in range(1000)]
    results = await broker.node.scram_users.alter(changes)
    codes = [refused and refused.code for refused in results.values()]
    assert codes == [ErrorCode.UNSUPPORTED_SASL_MECHANISM] * len(changes)
    assert Compared.comparisons < 10 * len(changes)


@on_broker(SETTINGS, both=False)
async def test_an_odd_name_is_stored_as_kafka_stores_it(broker: RunningBroker) -> None:
    client = await broker.client()
    assert await add(client, ODD, "pencil") == 0
    known = scram.credential(
        scram.SHA_256, stretched(scram.SHA_256, "pencil"), salt=b"salt", iterations=4096
    )
    assert await stored(broker, "a%20b%2F%C3%BC%2A%2C%3D") == {
        "SCRAM-SHA-256": encode_credential(known)
    }
    assert await described(client) == {ODD: [(1, 4096)]}
    assert broker.node.local.scram_users.by_mechanism["SCRAM-SHA-256"].credentials == {ODD: known}


@on_broker(SETTINGS, both=False)
async def test_quotas_and_credentials_of_a_user_leave_each_other_alone(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.client()
    await set_quota(client, "alice", 5.0)
    assert await described(client) == {}
    assert await add(client, "alice", "pencil") == 0
    await set_quota(client, "alice", 6.0)
    assert (await stored(broker, "alice"))["producer_byte_rate"] == "6"
    assert await logs_in(broker, "alice", "pencil")
    await set_quota(client, "alice", None)
    assert await logs_in(broker, "alice", "pencil")
    assert (await stored(broker, "alice")).keys() == {"SCRAM-SHA-256"}
    await set_quota(client, "alice", 7.0)
    assert await delete(client, "alice") == 0
    assert await stored(broker, "alice") == {"producer_byte_rate": "7"}
    assert "ignored" not in caplog.text


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_both_at_once_lose_nothing(broker: RunningBroker) -> None:
    clients = [await broker.client() for _ in range(8)]
    for number in range(5):
        await asyncio.gather(
            *(set_quota(client, "alice", number + 1.0) for client in clients[::2]),
            *(add(client, "alice", f"pencil-{number}") for client in clients[1::2]),
        )
        found = await stored(broker, "alice")
        assert found.keys() == {"SCRAM-SHA-256", "producer_byte_rate"}
        assert found["producer_byte_rate"] == str(number + 1)
        assert await logs_in(broker, "alice", f"pencil-{number}")


@on_broker(SETTINGS, both=False)
async def test_what_another_broker_has_just_written_is_not_lost(broker: RunningBroker) -> None:
    client = await broker.client()
    await add(client, "alice", "pencil")
    multi = broker.session.multi

    async def interrupted(ops: Sequence[Op]) -> list[Result]:
        broker.session.multi = multi  # type: ignore[method-assign]
        config = {**await stored(broker, "alice"), "producer_byte_rate": "9"}
        await multi([Set("/config/users/alice", znodes.encode_config(config))])
        return await multi(ops)

    broker.session.multi = interrupted  # type: ignore[method-assign]
    assert await add(client, "alice", "crayon", scram.SHA_512) == 0
    assert (await stored(broker, "alice")).keys() == {*scram.MECHANISMS, "producer_byte_rate"}


@on_broker(SETTINGS, both=False)
async def test_what_another_broker_changes_is_noticed(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    known = scram.credential(
        scram.SHA_256, stretched(scram.SHA_256, "pencil"), salt=b"salt", iterations=4096
    )
    path, change = "/config/users/alice", znodes.encode_config_change("users/alice")
    notification = Create(znodes.CONFIG_CHANGE_PREFIX, change, sequential=True)
    data = znodes.encode_config({"SCRAM-SHA-256": encode_credential(known)})
    await broker.session.multi([Create(path, data), notification])
    users = broker.node.local.scram_users.by_mechanism["SCRAM-SHA-256"].credentials
    await until(lambda: "alice" in users, "the user is known")
    assert await logs_in(broker, "alice", "pencil")
    for broken in (b"{", znodes.encode_config({"SCRAM-SHA-256": "iterations=1"}), b""):
        await broker.session.multi([Set(path, broken), notification])
        await until(lambda: "alice" not in users, "the user is gone")
        assert not await logs_in(broker, "alice", "pencil")
        await broker.session.multi([Set(path, data), notification])
        await until(lambda: "alice" in users, "the user is back")


@on_broker(SETTINGS, both=False)
async def test_users_of_a_new_session_are_those_of_the_store(broker: RunningBroker) -> None:
    client = await broker.client()
    await add(client, "alice", "pencil")
    await add(client, "bob", "pencil")
    await broker.session.delete("/config/users/alice")  # without a notification
    await broker.node.dynamic_configs.renew()
    users = broker.node.local.scram_users.by_mechanism["SCRAM-SHA-256"].credentials
    await until(lambda: list(users) == ["bob"], "all users are read again")


def test_users_survive_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(tmp_path, SETTINGS) as broker:
            client = await broker.client()
            await add(client, "alice", "pencil")
            await broker.session.create("/config/users/bob", b"")  # as a user of quotas has
        caplog.clear()
        async with running(tmp_path, SETTINGS) as broker:
            assert await logs_in(broker, "alice", "pencil")
        assert "ignored" not in caplog.text

    asyncio.run(main())


@on_broker(SETTINGS, both=False)
async def test_no_admin_client_decides_who_may_log_in(broker: RunningBroker) -> None:
    client = await broker.client()
    for name, value in {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required;",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": "x",
        "connections.max.reauth.ms": "5",
    }.items():
        answer = await client.ask(change_configs(BROKER, "0", (name, SET, value)), 1)
        assert answer.responses[0].error_code in (
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
        )
    asked = SaslHandshakeRequest(mechanism="PLAIN")
    async with await Client.connect(broker.listeners[1].port) as other:
        assert (await other.ask(asked, 1)).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
