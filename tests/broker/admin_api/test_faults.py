"""Rules and the journal by HTTP."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from odradek.broker.admin_api.controls import Controls
from odradek.broker.admin_api.server import AdminServer
from odradek.broker.faults.interceptor import Interceptor, interceptor_for
from odradek.broker.runtime import Runtime
from odradek.broker.settings.admin import AdminAddress

from .asking import HOST, Reply, ask

FAULTS = "/admin/v1/faults"


class Api:
    """An admin API whose brokers get no requests."""

    def __init__(self, server: AdminServer, interceptor: Interceptor) -> None:
        self._server = server
        self.interceptor = interceptor

    async def post(self, **fields: Any) -> Reply:
        return await ask(self._server, "POST", FAULTS, body=json.dumps(fields).encode())

    async def get(self, path: str = FAULTS) -> Reply:
        return await ask(self._server, "GET", path)

    async def delete(self, path: str = FAULTS) -> Reply:
        return await ask(self._server, "DELETE", path)


def with_api(test: Callable[[Api], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def main() -> None:
        runtime = Runtime.system()
        runtime.interceptor = interceptor_for(runtime)
        running = SimpleNamespace(broker_ids=[0, 1], brokers={})
        controls = Controls(running=cast(Any, running), runtime=runtime)
        server = AdminServer(AdminAddress(HOST), "", controls)
        await server.open()
        try:
            await test(Api(server, runtime.interceptor))
        finally:
            await server.close()
            runtime.close()

    def run() -> None:
        asyncio.run(main())

    run.__name__ = test.__name__
    return run


@with_api
async def test_a_rule_from_its_beginning_to_its_end(api: Api) -> None:
    made = await api.post(api="Produce", topic="orders", times=2, error=6, delay="250ms", seed=None)
    assert made.status == 201
    assert (made.content["id"], made.content["hits"]) == ("f1", 0)
    assert made.content["rule"] == {
        "api": "Produce",
        "topic": "orders",
        "times": 2,
        "error": "NOT_LEADER_OR_FOLLOWER",
        "delay": 0.25,
    }
    assert made.content["nearest_miss"] == "no Produce came"
    assert (await api.get()).content == {"faults": [made.content]}
    assert (await api.get(f"{FAULTS}/f1")).content == made.content
    assert (await api.delete(f"{FAULTS}/f1")).status == 200
    gone = await api.delete(f"{FAULTS}/f1")
    assert (gone.status, gone.content) == (404, {"error": "there is no rule 'f1'"})
    assert (await api.get(f"{FAULTS}/f1")).status == 404
    await api.post(close=True)
    assert (await api.delete()).status == 200
    assert (await api.get()).content == {"faults": []}


@with_api
async def test_what_makes_no_sense_is_refused_in_one_sentence(api: Api) -> None:
    for fields, sentence in (
        ({"close": True, "topics": "t"}, "'topics' is not a field of this request"),
        ({"close": 1}, "close must be true or false"),
        ({"close": True, "broker": 7}, "broker: there is no broker 7 in this process, which has 0"),
        ({"delay": "2h"}, "delay: '2h' is more than an hour"),
        ({"delay": "soon"}, "delay: 'soon' is not a duration"),
        ({"api": "Heartbeat", "topic": "t", "close": True}, "topic: Heartbeat has no topics"),
        ({"error": "OOPS"}, "error: there is no 'OOPS'"),
        ({"api": True, "close": True}, "api must be a whole number from -1 to 2147483647 or text"),
        ({"api": "Produce", "answer": [1]}, "answer must be an object"),
        ({"close": True, "probability": 2}, "probability must be a number from 0 to 1"),
    ):
        refused = await api.post(**fields)
        assert refused.status == 400
        assert sentence in refused.content["error"], fields
    assert len(api.interceptor.faults) == 0


@with_api
async def test_the_journal_is_empty_at_first(api: Api) -> None:
    assert (await api.get("/admin/v1/journal?client_id=app*&limit=5")).content == {"requests": []}
    assert (await api.delete("/admin/v1/journal")).status == 200
    assert (await api.get("/admin/v1/journal?limit=0")).status == 400


@with_api
async def test_the_journal_knows_no_other_apis(api: Api) -> None:
    for pattern, sentence in (
        ("Prodcue", "api: there is no 'Prodcue': did you mean Produce?"),
        ("X*", "api: there is no 'X*'"),
    ):
        reply = await api.get(f"/admin/v1/journal?api={pattern}")
        assert (reply.status, reply.content["error"]) == (400, sentence)
    for pattern in ("Prod*", "Produce", "0"):
        assert (await api.get(f"/admin/v1/journal?api={pattern}")).status == 200
