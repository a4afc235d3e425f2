"""`kill -9` at random moments under load: what was acknowledged is there after the restart."""

import random
from collections import Counter
from typing import Final

import pytest

from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer, create_topic
from tests.support.killing import Workload, kill_again_and_again
from tests.wire.load import JavaLoad, LibrdkafkaLoad, numbers_in, wait_for_acks
from tests.wire.servers import Server

TOPIC: Final = "killed"
PLAIN: Final = {"acks": "1", "enable.idempotence": "false"}
IDEMPOTENT: Final = {"acks": "all", "enable.idempotence": "true"}
# An answer that waits for an fsync leaves time to be killed between the append and the answer: what
# the producer then sends again the broker must know.
ANSWERED_LATE: Final = {"log.flush.interval.messages": "1"}
Client = type[JavaLoad | LibrdkafkaLoad]

pytestmark = pytest.mark.parametrize(
    "client",
    [
        pytest.param(JavaLoad, id="java", marks=pytest.mark.java),
        pytest.param(LibrdkafkaLoad, id="librdkafka"),
    ],
)


class Producing(Workload):
    """One producer, whose acknowledged records are there."""

    settings = PLAIN

    def __init__(self, server: Server, client: Client) -> None:
        create_topic(server.bootstrap_servers, TOPIC)
        self._server = server
        self._load = client(server.bootstrap_servers, TOPIC, self.settings)

    def approach(self, chance: random.Random) -> float:
        wait_for_acks(self._server, self._load, more=1)
        return 0.4

    def finish(self) -> None:
        wait_for_acks(self._server, self._load, more=100)
        sent = self._load.finish()
        assert not self._load.failed
        found = numbers_in(self._server.bootstrap_servers, TOPIC)
        missing = set(self._load.acked) - set(found)
        assert not missing, f"acknowledged but missing: {sorted(missing)[:20]}"
        self.check_found(found, sent)

    def check_found(self, found: list[int], sent: int) -> None:
        """What else the producer may expect."""

    def close(self) -> None:
        self._load.close()


class ProducingOnce(Producing):
    """An idempotent producer: its records are there once, and in order."""

    settings = IDEMPOTENT

    def check_found(self, found: list[int], sent: int) -> None:
        assert sorted(self._load.acked) == list(range(sent))
        doubled = [number for number, times in Counter(found).items() if times > 1]
        assert not doubled, f"doubled: {doubled[:20]}"
        assert found == list(range(sent)), "reordered"


@repeated(in_test=4, in_soak=100, soak_rounds=4)
def test_nothing_acknowledged_is_missing(
    start_server: StartServer, client: Client, repeats: Repeats
) -> None:
    server = start_server()
    kill_again_and_again(server, Producing(server, client), repeats)


@repeated(in_test=4, in_soak=100, soak_rounds=4)
def test_idempotent_nothing_missing_doubled_or_reordered(
    start_server: StartServer, client: Client, repeats: Repeats
) -> None:
    server = start_server(ANSWERED_LATE)
    kill_again_and_again(server, ProducingOnce(server, client), repeats)
