"""The clock through the admin API."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from odradek.broker.admin_api.server import AdminServer
from odradek.broker.movable_clock import AHEAD_MS_MAX, MovableClock
from odradek.broker.runtime import SystemClock
from tests.broker.coordination.asynchronous import asynchronous

from .asking import Reply, ask, served


async def post(server: AdminServer, action: str, **fields: object) -> Reply:
    body = json.dumps(fields).encode()
    return await ask(server, "POST", f"/admin/v1/clock/{action}", body=body)


@asynchronous
async def test_it_is_moved_frozen_and_resumed() -> None:
    clock = MovableClock(SystemClock())
    async with served(runtime=SimpleNamespace(clock=clock)) as server:
        reply = await ask(server, path="/admin/v1/clock")
        assert reply.content["frozen"] is False
        assert reply.content["ahead_ms"] == 0
        assert (await post(server, "advance", by="60s")).content["ahead_ms"] == 60_000
        assert (await post(server, "advance", by=0.5)).content["ahead_ms"] == 60_500
        frozen = (await post(server, "freeze")).content
        assert frozen["frozen"] is True
        advanced = (await post(server, "advance", by="1h")).content
        assert advanced["wall_ms"] == frozen["wall_ms"] + 3_600_000
        assert (await post(server, "resume")).content["frozen"] is False


@asynchronous
async def test_bad_input_is_refused_with_a_sentence() -> None:
    clock = MovableClock(SystemClock())
    async with served(runtime=SimpleNamespace(clock=clock)) as server:
        for fields, complaint in (
            ({"by": "-60s"}, "'-60s' is not a duration from 0 to ten years"),
            ({"by": -1}, "-1 is not a duration from 0 to ten years"),
            ({"by": "60"}, "'60' is not a duration such as"),
            ({}, "by is missing"),
            ({"by": "60s", "too": 1}, "'too' is not a field"),
        ):
            reply = await post(server, "advance", **fields)
            assert reply.status == 400
            assert complaint in reply.content["error"]
        assert clock.ahead_ms == 0
        await clock.advance(AHEAD_MS_MAX)
        reply = await post(server, "advance", by="1ms")
        assert (reply.status, reply.content["error"]) == (
            400,
            "the clock would be more than a hundred years ahead",
        )


@asynchronous
async def test_work_that_goes_on_for_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.broker.movable_clock.ROUNDS_WITHIN_S", 0.01)
    clock = MovableClock(SystemClock())

    async def hang() -> None:
        await clock.sleep(1000)
        await asyncio.sleep(3600)

    task = asyncio.create_task(hang())
    async with served(runtime=SimpleNamespace(clock=clock)) as server:
        reply = await post(server, "advance", by="1s")
        assert reply.status == 504
    task.cancel()
    await asyncio.wait([task])
