import asyncio
from pathlib import Path

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.broker.running import RunningBroker, on_broker, running
from tests.support.client import Client

PLAIN = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


async def next_id(client: Client) -> int:
    answer: InitProducerIdResponse = await client.ask(PLAIN, 5)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    return answer.producer_id


@on_broker()
async def test_everybody_gets_another(broker: RunningBroker) -> None:
    clients = [await broker.client() for _ in range(5)]
    ids = [n for _ in range(3) for n in await asyncio.gather(*map(next_id, clients))]
    assert len(set(ids)) == 15
    assert min(ids) >= 0


def test_none_is_given_twice_after_a_restart(tmp_path: Path) -> None:
    async def ids_of_one_run() -> list[int]:
        async with running(tmp_path) as broker:
            client = await broker.client()
            return [await next_id(client) for _ in range(3)]

    ids = [n for _ in range(3) for n in asyncio.run(ids_of_one_run())]
    assert len(set(ids)) == 9
    assert ids == sorted(ids)


@on_broker(both=False)
async def test_half_of_an_identity(broker: RunningBroker) -> None:
    client = await broker.client()
    for producer_id, epoch in ((5, -1), (-1, 5)):
        request = InitProducerIdRequest(
            transactional_id=None, producer_id=producer_id, producer_epoch=epoch
        )
        assert (await client.ask(request, 5)).error_code == ErrorCode.INVALID_REQUEST
    both = InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=5)
    assert (await client.ask(both, 5)).error_code == 0
