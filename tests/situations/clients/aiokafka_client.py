"""aiokafka in situations.  SERVERS ADMIN_URL; see `deeds.py`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from .deeds import TIMEOUT_S, VALUES, Deed, serve

QUICK: Final = {"retry_backoff_ms": 20, "request_timeout_ms": 3000}


async def write(producer: AIOKafkaProducer) -> None:
    """Write one after another: the first failure ends it."""
    for value in VALUES:
        await producer.send_and_wait("t", value)


async def produce(servers: str, **more: Any) -> str:
    async with AIOKafkaProducer(
        bootstrap_servers=servers, **{"acks": "all", **QUICK, **more}
    ) as producer:
        await write(producer)
    return "done"


async def idempotent(servers: str) -> str:
    return await produce(servers, enable_idempotence=True)


async def transact(servers: str) -> str:
    async with AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id="x", **QUICK
    ) as producer:
        await producer.begin_transaction()
        await write(producer)
        await producer.commit_transaction()
    return "done"


async def consume(servers: str) -> str:
    async with AIOKafkaConsumer(
        "t",
        bootstrap_servers=servers,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        fetch_max_wait_ms=200,
        **QUICK,
    ) as consumer:
        found = [(await consumer.getone()).value.decode() for _ in VALUES]
        await consumer.commit()
    return " ".join(["done", *found])


def timed(deed: Callable[[str], Awaitable[str]]) -> Deed:
    async def main(servers: str) -> str:
        return await asyncio.wait_for(deed(servers), TIMEOUT_S)

    return lambda servers: asyncio.run(main(servers))


def code_of(error: Exception) -> object:
    return getattr(error, "errno", None) or type(error).__name__


if __name__ == "__main__":
    serve(
        {
            "produce": timed(produce),
            "idempotent": timed(idempotent),
            "transact": timed(transact),
            "consume": timed(consume),
        },
        code_of,
    )
