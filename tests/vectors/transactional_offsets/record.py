"""Makes kafka-3.9.2.json: committed offsets of transactions, as Apache Kafka 3.9.2 writes them.

`python -m tests.vectors.transactional_offsets.record`: the batches of the one partition of
`__consumer_offsets` in hexadecimal, and what Kafka tells of each group: at the end, while the
transaction of `open` goes on, after a restart, and after its end.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.records import iter_batches
from tests.broker.groups.told_offsets import UNSTABLE, Told, told
from tests.kafka.apache import ApacheKafka, apache_kafka
from tests.support.client import Client
from tests.support.waiting import until

TARGET: Final = Path(__file__).with_name("kafka-3.9.2.json")
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TOPIC: Final = "orders"
GROUPS: Final = ("g", "h", "only-open")


class Transactions:
    """Producers, each in its transaction, and commits outside of them."""

    def __init__(self, bootstrap_servers: str) -> None:
        # The restart is none of the log's business.
        self._servers: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._producers: dict[str, Producer] = {}
        self._consumers: dict[str, Consumer] = {}

    def consumer(self, group: str) -> Consumer:
        """One that belongs to no generation of its group."""
        if group not in self._consumers:
            self._consumers[group] = Consumer({**self._servers, "group.id": group})
        return self._consumers[group]

    def begin(self, name: str) -> Producer:
        """The producer of this transactional id, in a new transaction."""
        if name not in self._producers:
            self._producers[name] = Producer({**self._servers, "transactional.id": name})
            self._producers[name].init_transactions()
        self._producers[name].begin_transaction()
        return self._producers[name]

    def send(self, producer: Producer, group: str, offsets: Mapping[int, int]) -> None:
        """Commit in its transaction."""
        member = self.consumer(group).consumer_group_metadata()
        producer.send_offsets_to_transaction(_positions(offsets), member)

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        """Commit outside of any transaction."""
        self.consumer(group).commit(offsets=_positions(offsets), asynchronous=False)

    def write(self) -> Producer:
        """Write everything; returns the producer whose transaction is still open."""
        self.commit("g", {6: 1})
        first, second = self.begin("first"), self.begin("second")
        self.send(first, "g", {0: 10, 1: 11, 2: 12})
        self.commit("g", {0: 20})  # later in the log than 10
        self.send(second, "g", {2: 22, 3: 23})
        self.send(second, "h", {0: 50})  # two groups in one transaction
        second.commit_transaction()
        first.commit_transaction()  # 12 is earlier in the log than 22
        aborted = self.begin("aborted")
        self.send(aborted, "g", {1: 111, 4: 44})
        aborted.abort_transaction()
        still_open = self.begin("open")
        self.send(still_open, "g", {1: 31, 5: 35})
        self.send(still_open, "g", {1: 41})
        self.send(still_open, "only-open", {0: 7})
        self.commit("g", {5: 55})
        return still_open


def _positions(offsets: Mapping[int, int]) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]


def batches(kafka: ApacheKafka) -> list[str]:
    """All batches of the groups' log."""
    log = kafka.data_dir / "__consumer_offsets-0" / f"{0:020d}.log"
    data = log.read_bytes()
    found = iter_batches(data)
    return [data[position : position + header.size_bytes].hex() for position, header in found]


async def _told_by(kafka: ApacheKafka) -> Told:
    client = await Client.connect(kafka.port)
    try:
        return await told(client, GROUPS)
    finally:
        await client.close()


def is_stable(kafka: ApacheKafka) -> bool:
    """Whether the end of every transaction shows: Kafka tells the producer first."""
    return UNSTABLE not in json.dumps(asyncio.run(_told_by(kafka)))


def main() -> int:
    """Record."""
    recorded: dict[str, Any] = {}
    with apache_kafka("3.9.2", settings=SETTINGS) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics([NewTopic(TOPIC, 7, 1)]).values():
            future.result()
        transactions = Transactions(kafka.bootstrap_servers)
        still_open = transactions.write()
        recorded["while open"] = asyncio.run(_told_by(kafka))
        kafka.stop()
        recorded["batches"] = batches(kafka)
        kafka.start()
        recorded["after a restart"] = asyncio.run(_told_by(kafka))
        still_open.commit_transaction()
        until(lambda: is_stable(kafka), "the last transaction has ended")
        recorded["committed"] = asyncio.run(_told_by(kafka))
    TARGET.write_text(json.dumps(recorded, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
