"""The state between two tests: what an earlier test left running never gets into a later one."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from odradek.testing import BrokerFailed
from odradek.testing.marker import Wanted
from odradek.testing.report import Report
from odradek.testing.servers import Server, Servers
from tests.support.waiting import until

pytestmark = pytest.mark.wire
IN_PROCESS = Wanted(in_process=True)


def topics(server: Server) -> set[str]:
    return set(AdminClient(server.broker.client_config("confluent")).list_topics(timeout=30).topics)


def produced(server: Server, topic: str) -> None:
    producer = Producer(server.broker.client_config("confluent"))
    producer.produce(topic, b"v")
    assert producer.flush(30) == 0


@pytest.fixture
def servers() -> Iterator[Servers]:
    servers = Servers(IN_PROCESS, (("seed", 2),), [])
    yield servers
    servers.close()


class LeftRunning:
    """A producer that goes on with a topic, and counts its failures to connect."""

    def __init__(self, server: Server) -> None:
        self.failures = 0
        self.is_closed = False
        quick = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20}
        config = {**server.broker.client_config("confluent"), **quick, "error_cb": self._failed}
        self._producer = Producer({**config, "log_level": 0, "message.timeout.ms": 500})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _failed(self, error: object) -> None:
        self.failures += 1

    def _run(self) -> None:
        while not self.is_closed:
            if len(self._producer) < 10:
                self._producer.produce("left", b"v")
            self._producer.poll(0.01)

    def close(self) -> None:
        self.is_closed = True
        self._thread.join()
        self._producer.purge()


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_producer_that_a_test_left_running_does_not_put_its_topic_back(brokers: int) -> None:
    servers = Servers(IN_PROCESS, (), [])
    server = servers.get(Wanted(in_process=True, brokers=brokers))
    server.clean(())
    left = LeftRunning(server)
    try:
        until(lambda: topics(server) == {"left"})
        server.leave()
        server.clean(())
        before = left.failures
        until(lambda: left.failures > before + 1)  # it has tried to come back
        assert topics(server) == set()
        produced(server, "mine")
        assert topics(server) == {"mine"}
    finally:
        left.close()
        servers.close()


def test_each_test_has_ports_of_its_own_beside_those_of_the_session(servers: Servers) -> None:
    server = servers.get(IN_PROCESS)
    broker = server.broker
    usual = broker.bootstrap_servers
    with KafkaProducer(**broker.client_config("kafka-python")) as of_session:
        seen = set()
        for _ in range(3):
            server.clean(())
            seen.add(broker.bootstrap_servers)
            of_session.send("session", b"v").get(30)  # it has lost its connection, and comes back
            assert topics(server) == {"seed", "session"}
            server.leave()
            assert broker.bootstrap_servers == usual
    assert len(seen) == 3 and usual not in seen


def test_the_entrance_stays_over_a_restart(servers: Servers) -> None:
    server = servers.get(IN_PROCESS)
    server.clean(())
    before = server.broker.bootstrap_servers
    produced(server, "t")
    server.broker.restart()
    assert server.broker.bootstrap_servers == before
    assert topics(server) == {"seed", "t"}
    server.clean(())
    assert topics(server) == {"seed"}


@pytest.mark.slow
def test_the_clock_of_a_test_is_not_that_of_the_next(servers: Servers) -> None:
    server = servers.get(IN_PROCESS)
    server.clean(())
    first = server._seed.id
    server.clean(())
    assert server._seed.id == first  # restored in place
    server.broker.clock.freeze()
    server.broker.restore(server._seed)
    assert server.broker.clock.is_frozen
    server.clean(())
    assert server._seed.id == first
    assert not server.broker.clock.is_frozen
    server.broker.clock.advance("60s")
    server.broker.clock.freeze()
    server.clean(())
    assert server._seed.id == first
    assert abs(server.broker.clock.now.timestamp() - time.time()) < 30
    produced(server, "t")
    server.clean(())
    server.broker.clock.advance("8d")
    server.clean(())
    assert abs(server.broker.clock.now.timestamp() - time.time()) < 60
    assert topics(server) == {"seed"}


def test_topics_of_a_test_are_made_once_for_those_that_follow(servers: Servers) -> None:
    server = servers.get(IN_PROCESS)
    made = []
    for wanted in ((("a", 1),), (("a", 1),), (("b", 1),), (), (("b", 1),)):
        server.clean(wanted)
        assert topics(server) == {"seed", *dict(wanted)}
        made.append(server._made and server._made[1])
        produced(server, "extra")
    assert made[0] is made[1] is not made[2]
    assert made[2] is made[3]


def test_tls_and_logins_at_the_entrance(servers: Servers) -> None:
    wanted = Wanted(in_process=True, tls=True, sasl="SCRAM-SHA-256", acls=("User:a all topic:t",))
    server = servers.get(wanted)
    assert servers.get(wanted) is server
    for _ in range(2):
        server.clean(())
        assert topics(server) == {"seed"}
        produced(server, "t")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "No such file"),
        ("{", "JSONDecodeError"),
        ('{"topics": [], "more": 1}', "it is not"),
        ('{"topics": ["t"]}', "it is not"),
        ('{"topics": [{"name": "t", "partition": 3}]}', "'partition' is not a field"),
        ('{"topics": [{"name": "t", "records": [{"key": "k"}]}]}', "value is missing"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    path = tmp_path / "seed.json"
    if text is not None:
        path.write_text(text)
    servers = Servers(IN_PROCESS, (), [path])
    with pytest.raises(BrokerFailed, match=f"odradek_load: {path} can't be loaded: .*{sentence}"):
        servers.get(IN_PROCESS)


def test_a_broker_that_a_test_has_closed_is_replaced(servers: Servers) -> None:
    first = servers.get(IN_PROCESS)
    first.clean(())
    with first.broker:
        pass
    assert first.end() == []
    second = servers.get(IN_PROCESS)
    assert second is not first and second is servers.get(IN_PROCESS)
    second.clean(())
    assert topics(second) == {"seed"}


@pytest.mark.slow
@pytest.mark.parametrize("brokers", [1, 2])
def test_a_process_that_a_test_has_stopped_goes_on_after_it(brokers: int) -> None:
    wanted = IN_PROCESS._replace(brokers=brokers, in_process=False)
    servers = Servers(wanted, (), [])
    server = servers.get(wanted)
    server.clean((("mine", 1),))
    assert server.broker.pid is not None
    os.kill(server.broker.pid, signal.SIGSTOP)
    sections = dict(Report(server.broker, 0.0).sections())
    assert "mine" in sections["topics"]
    os.kill(server.broker.pid, signal.SIGSTOP)
    assert server.end() == []
    server.clean(())
    assert topics(server) == set()
    os.kill(server.broker.pid, signal.SIGSTOP)
    servers.close()
