"""Quotas in a store in memory: which nodes are written, and which go away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from odradek.broker.administration.client_quotas import ClientQuotas
from odradek.broker.coordination import znodes
from odradek.broker.coordination.embedded import EmbeddedSession, EmbeddedStore
from odradek.broker.coordination.interface import Op, Result
from odradek.broker.core.client_quotas import Change, Entity
from odradek.broker.member.membership import make_startup_paths
from odradek.protocol.errors import ErrorCode, Refused
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.fakes import MemoryJournal, fake_runtime

USER: Entity = {"user": "u"}
BOTH: Entity = {"user": "u", "client-id": "c"}
RATE = [Change("producer_byte_rate", 5.0)]
NO_RATE = [Change("producer_byte_rate", None)]


@contextlib.asynccontextmanager
async def quotas() -> AsyncIterator[tuple[ClientQuotas, EmbeddedSession]]:
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=MemoryJournal())
    await store.start()
    session = await store.open_session(1000)
    await make_startup_paths(session)
    await session.create(znodes.CONTROLLER, znodes.ControllerNode(0, 0).encode())
    yield ClientQuotas(session), session
    await store.close()


async def changes_of(session: EmbeddedSession) -> list[str]:
    names = await session.children(znodes.CONFIG_CHANGES)
    return [
        znodes.decode_config_change((await session.get(f"{znodes.CONFIG_CHANGES}/{name}"))[0])
        for name in names
    ]


async def all_of(found: ClientQuotas) -> list[tuple[Entity, dict[str, float]]]:
    return [entry async for entry in found.all()]


@asynchronous
async def test_nodes_are_kafkas(caplog: pytest.LogCaptureFixture) -> None:
    async with quotas() as (found, session):
        await found.alter(BOTH, RATE)
        data, _ = await session.get("/config/users/u/clients/c")
        assert data == b'{"version":1,"config":{"producer_byte_rate":"5"}}'
        assert (await session.get("/config/users/u"))[0] == b""
        assert await changes_of(session) == ["users/u/clients/c"]
        await found.alter({"client-id": None}, RATE)
        await found.alter({"ip": None}, [Change("connection_creation_rate", 1.0)])
        assert await changes_of(session) == [
            "users/u/clients/c",
            "clients/<default>",
            "ips/<default>",
        ]
        assert await all_of(found) == [
            (BOTH, {"producer_byte_rate": 5.0}),
            ({"client-id": None}, {"producer_byte_rate": 5.0}),
            ({"ip": None}, {"connection_creation_rate": 1.0}),
        ]


@asynchronous
async def test_nothing_is_left_of_what_is_removed() -> None:
    async with quotas() as (found, session):
        other: Entity = {"user": "u", "client-id": "d"}
        for entity in (BOTH, other, USER):
            await found.alter(entity, RATE)
        await found.alter(USER, NO_RATE)  # its clients are still there
        assert (await session.get("/config/users/u"))[0] == b'{"version":1,"config":{}}'
        await found.alter(other, NO_RATE)
        assert await session.children("/config/users/u/clients") == ["c"]
        await found.alter(BOTH, NO_RATE)
        assert await session.children("/config/users") == []
        await found.alter(BOTH, NO_RATE)
        assert (await changes_of(session))[-1] == "users/u/clients/c"
        await found.alter({"client-id": "c"}, RATE)
        await found.alter({"client-id": "c"}, NO_RATE)
        assert await session.children("/config/clients") == []


@asynchronous
async def test_a_users_own_quotas_stay() -> None:
    async with quotas() as (found, session):
        await found.alter(USER, RATE)
        await found.alter(BOTH, RATE)
        await found.alter(BOTH, NO_RATE)
        assert await session.children("/config/users/u/clients") == []
        assert await all_of(found) == [(USER, {"producer_byte_rate": 5.0})]


@asynchronous
async def test_validating_and_refusing_change_nothing() -> None:
    async with quotas() as (found, session):
        await found.alter(USER, RATE, validate_only=True)
        with pytest.raises(Refused) as refused:
            await found.alter(USER, [*RATE, Change("no.such", 1.0)])
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        with pytest.raises(Refused) as refused:
            await found.alter({"user": "x" * (1 << 20)}, RATE)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        assert await changes_of(session) == []
        assert await session.children("/config/users") == []


@asynchronous
async def test_changes_at_the_same_time_are_all_kept() -> None:
    async with quotas() as (found, session):
        keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
        await asyncio.gather(*(found.alter(BOTH, [Change(key, 1.0)]) for key in keys))
        assert await all_of(found) == [(BOTH, dict.fromkeys(sorted(keys), 1.0))]
        assert len(await changes_of(session)) == len(keys)
        await asyncio.gather(*(found.alter(BOTH, [Change(key, None)]) for key in keys))
        assert await session.children("/config/users") == []


@asynchronous
async def test_what_cannot_be_read_counts_as_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with quotas() as (found, session):
        await session.create("/config/users/u", b"no json")
        await found.alter({"client-id": "c"}, RATE)
        assert await all_of(found) == [({"client-id": "c"}, {"producer_byte_rate": 5.0})]
        assert "client quotas ignored path=/config/users/u" in caplog.text
        await found.alter(USER, RATE)
        assert len(await all_of(found)) == 2


@asynchronous
async def test_nothing_is_written_without_a_controller_of_our_kind() -> None:
    async with quotas() as (found, session):
        kraft = znodes.ControllerNode(3000, 0, kraft_controller_epoch=1)
        await session.set(znodes.CONTROLLER, kraft.encode())
        with pytest.raises(Refused, match="KRaft") as refused:
            await found.alter(USER, RATE)
        assert refused.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
        await session.set(znodes.CONTROLLER, b"{")
        with pytest.raises(Refused):
            await found.alter(USER, RATE)
        await session.delete(znodes.CONTROLLER)
        with pytest.raises(Refused, match="no controller"):
            await found.alter(USER, RATE)
        await found.alter(USER, RATE, validate_only=True)  # as in Kafka
        assert await changes_of(session) == []


@asynchronous
async def test_a_change_of_the_controller_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quotas() as (found, session):
        multi, calls = session.multi, 0

        async def replaced_meanwhile(ops: Sequence[Op]) -> list[Result]:
            nonlocal calls
            calls += 1
            if calls == 1:
                await session.set(znodes.CONTROLLER, znodes.ControllerNode(1, 0).encode())
            return await multi(ops)

        monkeypatch.setattr(session, "multi", replaced_meanwhile)
        await found.alter(USER, RATE)
        assert calls == 2
        assert await changes_of(session) == ["users/u"]
