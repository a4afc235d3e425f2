"""`kill -9` at random moments under load: what was acknowledged is there after the restart.

The seed is printed with a failure (it is the test's parameter); ODRADEK_SEED gives another.
"""

import os
import random
import threading
from collections import Counter
from typing import Final

import pytest

from tests.support.brokers import StartServer, create_topic
from tests.support.waiting import until
from tests.wire.load import JavaLoad, LibrdkafkaLoad, Load, numbers_in
from tests.wire.servers import Server

SEED: Final = int(os.environ.get("ODRADEK_SEED", "20222"))
TOPIC: Final = "killed"
PLAIN: Final = {"acks": "1", "enable.idempotence": "false"}
IDEMPOTENT: Final = {"acks": "all", "enable.idempotence": "true"}
CLIENTS: Final = [
    pytest.param(JavaLoad, id="java", marks=pytest.mark.java),
    pytest.param(LibrdkafkaLoad, id="librdkafka"),
]


def kill_and_restart(server: Server, load: Load, *, kills: int, seed: int) -> None:
    """Kill the broker `kills` times while records are on their way, and start it again."""
    chance = random.Random(seed)
    moment = threading.Event()
    for _ in range(kills):
        wait_for_acks(server, load, more=1)
        # Not a wait for something: the moment itself is what is random.
        moment.wait(chance.uniform(0.0, 0.4))
        server.kill()
        server.start()
    wait_for_acks(server, load, more=100)


def wait_for_acks(server: Server, load: Load, *, more: int, timeout_s: float = 60) -> None:
    enough = len(load.acked) + more

    def is_acked() -> bool:
        assert server.alive, server.output
        return len(load.acked) >= enough

    until(is_acked, lambda: f"{more} answers; {load.failed[:3]}\n{server.output}", timeout_s)


def kills_for(target: str, kills: int) -> int:
    """Apache Kafka needs seconds for each restart: two show that the test is right."""
    return kills if target == "odradek" else min(kills, 2)


def run_plain(
    start_server: StartServer, client: type[JavaLoad | LibrdkafkaLoad], *, kills: int, seed: int
) -> None:
    server = start_server()
    create_topic(server.bootstrap_servers, TOPIC)
    with client(server.bootstrap_servers, TOPIC, PLAIN) as load:
        kill_and_restart(server, load, kills=kills, seed=seed)
        load.finish()
        assert not load.failed
        found = numbers_in(server.bootstrap_servers, TOPIC)
    missing = set(load.acked) - set(found)
    assert not missing, f"seed {seed}: acknowledged but missing: {sorted(missing)[:20]}"


def run_idempotent(
    start_server: StartServer, client: type[JavaLoad | LibrdkafkaLoad], *, kills: int, seed: int
) -> None:
    server = start_server()
    create_topic(server.bootstrap_servers, TOPIC)
    with client(server.bootstrap_servers, TOPIC, IDEMPOTENT) as load:
        kill_and_restart(server, load, kills=kills, seed=seed)
        sent = load.finish()
        assert not load.failed
        found = numbers_in(server.bootstrap_servers, TOPIC)
    assert sorted(load.acked) == list(range(sent))
    doubled = [number for number, times in Counter(found).items() if times > 1]
    assert not doubled, f"seed {seed}: doubled: {doubled[:20]}"
    missing = set(range(sent)) - set(found)
    assert not missing, f"seed {seed}: missing: {sorted(missing)[:20]}"
    assert found == list(range(sent)), f"seed {seed}: reordered"


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_acknowledged_is_missing(
    target: str, start_server: StartServer, client: type[JavaLoad | LibrdkafkaLoad]
) -> None:
    run_plain(start_server, client, kills=kills_for(target, 10), seed=SEED)


@pytest.mark.parametrize("client", CLIENTS)
def test_idempotent_nothing_missing_doubled_or_reordered(
    target: str, start_server: StartServer, client: type[JavaLoad | LibrdkafkaLoad]
) -> None:
    run_idempotent(start_server, client, kills=kills_for(target, 10), seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("run", [run_plain, run_idempotent], ids=["acks-1", "idempotent"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("round_number", range(4))
def test_a_hundred_kills(
    start_server: StartServer,
    client: type[JavaLoad | LibrdkafkaLoad],
    run: object,
    round_number: int,
) -> None:
    assert callable(run)
    run(start_server, client, kills=100, seed=SEED + round_number)
