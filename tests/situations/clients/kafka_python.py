"""kafka-python in situations.  SERVERS ADMIN_URL; see `deeds.py`."""

from contextlib import closing
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer

from .deeds import TIMEOUT_S, VALUES, serve

QUICK: Final = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "request_timeout_ms": 3000}


def write(producer: KafkaProducer) -> None:
    """Write one after another: the first failure ends it."""
    for value in VALUES:
        producer.send("t", value).get(TIMEOUT_S)


def producer_of(servers: str, **more: Any) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=servers,
        delivery_timeout_ms=1000 * TIMEOUT_S,
        max_block_ms=1000 * TIMEOUT_S,
        **QUICK,
        **more,
    )


def produce(servers: str) -> str:
    with closing(producer_of(servers, enable_idempotence=False, acks="all")) as producer:
        write(producer)
    return "done"


def idempotent(servers: str) -> str:
    with closing(producer_of(servers, enable_idempotence=True)) as producer:
        write(producer)
    return "done"


def transact(servers: str) -> str:
    producer = producer_of(servers, transactional_id="x")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        write(producer)
        producer.commit_transaction()
    finally:
        producer.close(timeout=1)
    return "done"


def consume(servers: str) -> str:
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=servers,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        fetch_max_wait_ms=200,
        max_poll_interval_ms=6000,
        consumer_timeout_ms=1000 * TIMEOUT_S,
        **{**QUICK, "request_timeout_ms": 7000},
    )
    with closing(consumer):
        found = [message.value.decode() for _, message in zip(VALUES, consumer, strict=False)]
        consumer.commit()
    return " ".join(["done", *found])


def code_of(error: Exception) -> object:
    return getattr(error, "errno", None) or type(error).__name__


if __name__ == "__main__":
    serve(
        {
            "produce": produce,
            "idempotent": idempotent,
            "transact": transact,
            "consume": consume,
        },
        code_of,
    )
