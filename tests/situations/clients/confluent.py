"""confluent-kafka, which is librdkafka, in situations.  SERVERS ADMIN_URL; see `deeds.py`."""

from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from .deeds import TIMEOUT_S, VALUES, serve


def config_of(servers: str, **more: Any) -> dict[str, Any]:
    quick = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "socket.timeout.ms": 3000}
    return {"bootstrap.servers": servers, "log_level": 0, **quick, **more}


def producer_of(servers: str, **more: Any) -> Producer:
    config = {"linger.ms": 0, "request.timeout.ms": 3000, "message.timeout.ms": 1000 * TIMEOUT_S}
    return Producer(config_of(servers, **config, **more))


def write(producer: Producer) -> None:
    """Write one after another: the first failure ends it."""
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    for value in VALUES:
        producer.produce("t", value, on_delivery=delivered)
        producer.flush(TIMEOUT_S)
        if errors:
            raise KafkaException(errors[0])


def produce(servers: str) -> str:
    write(producer_of(servers, acks="all"))
    return "done"


def idempotent(servers: str) -> str:
    write(producer_of(servers, **{"enable.idempotence": True}))
    return "done"


def transact(servers: str) -> str:
    producer = producer_of(
        servers, **{"transactional.id": "x", "transaction.timeout.ms": 1000 * TIMEOUT_S}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    write(producer)
    producer.commit_transaction(TIMEOUT_S)
    return "done"


def consume(servers: str) -> str:
    group = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    quick = {"session.timeout.ms": 6000, "fetch.wait.max.ms": 200, "fetch.error.backoff.ms": 20}
    consumer = Consumer(config_of(servers, **group, **quick))
    consumer.subscribe(["t"])
    with closing(consumer):
        found: list[str] = []
        while len(found) < len(VALUES):
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError
            if (error := message.error()) is not None:
                raise KafkaException(error)
            found.append(message.value().decode())
        consumer.commit(asynchronous=False)
    return " ".join(["done", *found])


def code_of(error: Exception) -> object:
    if not isinstance(error, KafkaException):
        return type(error).__name__
    code = error.args[0].code()
    return code if code > 0 else error.args[0].name()


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
