"""A topic that transactions wrote, of which every third was aborted."""

from typing import Final

from confluent_kafka import Producer

TURNS: Final = 12
RECORDS: Final = TURNS * 40
COMMITTED: Final = RECORDS * 2 // 3
TIMEOUT_S: Final = 60


def transact(servers: str, topic: str) -> list[Producer]:
    """Have two producers write by turns; they, with no transaction open."""
    producers = [
        Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": f"{topic}-{number}",
                "transaction.timeout.ms": 15 * 60_000,  # a test may leave one open
                "log_level": 0,
            }
        )
        for number in range(2)
    ]
    for producer in producers:
        producer.init_transactions(TIMEOUT_S)
    for turn in range(TURNS):
        for number, producer in enumerate(producers):
            producer.begin_transaction()
            for each in range(20):
                producer.produce(topic, b"%d-%d-%d" % (number, turn, each), key=b"%d" % each)
            producer.flush(TIMEOUT_S)
        for number, producer in enumerate(producers):
            if (turn + number) % 3 == 0:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
    return producers
