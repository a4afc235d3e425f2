"""`kill -9` of the broker under groups: what was acknowledged stays committed, members go on.

The seed is the test's parameter; ODRADEK_SEED gives another.
"""

import os
import random
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.brokers import create_topic
from tests.wire.group_members import Crew, Writer, committed_in, latest_commits, quick_server
from tests.wire.servers import Server

SEED: Final = int(os.environ.get("ODRADEK_SEED", "20222"))
TOPIC: Final = "killed"
PARTITIONS: Final = 4
NAMES: Final = [f"{TOPIC}:{partition}" for partition in range(PARTITIONS)]
# How many members of which kind; they do not wait long before they look for the broker again.
QUICKLY: Final = {"reconnect_backoff_max_ms": 100}
CREWS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "kafka-python": (2, QUICKLY),
    "confluent-range": (2, QUICKLY),
    "aiokafka": (1, {}),
    "confluent-consumer": (2, QUICKLY),
}


def go_on_committing(crews: list[Crew], more: int) -> None:
    """Until each crew was told of so many further commits."""
    for crew in crews:
        enough = len(crew.events("committed")) + more
        crew.wait_until(
            lambda crew=crew, enough=enough: len(crew.events("committed")) >= enough,  # type: ignore[misc]
            f"{enough} commits answered to {crew.group_id}",
        )


def check_nothing_is_lost(server: Server, crews: list[Crew], acknowledged: list[Any]) -> None:
    for crew, told in zip(crews, acknowledged, strict=True):
        found = committed_in(server, crew.group_id, NAMES)
        behind = {
            p: (offset, found.get(p)) for p, offset in told.items() if found.get(p, -1) < offset
        }
        assert not behind, f"{crew.group_id}: acknowledged and found: {behind}"


def run(target: str, directory: Path, *, kills: int, seed: int) -> None:
    chance, moment = random.Random(seed), threading.Event()
    with quick_server(target, directory) as server, ExitStack() as stack:
        create_topic(server.bootstrap_servers, TOPIC, partitions=PARTITIONS)
        writer = stack.enter_context(Writer(server, TOPIC, PARTITIONS, per_second=400))
        crews = []
        for flavour, (members, settings) in CREWS.items():
            if flavour == "confluent-consumer" and target == "kafka-3.9":
                continue
            crew = stack.enter_context(Crew(server, flavour, flavour, topics=[TOPIC]))
            crews.append(crew)
            for _ in range(members):
                crew.start(enable_auto_commit=False, **settings)
        for _ in range(kills):
            go_on_committing(crews, more=2)
            # Not a wait for something: the moment itself is what is random.
            moment.wait(chance.uniform(0.0, 0.3))
            server.kill()
            acknowledged = [latest_commits(crew) for crew in crews]
            server.start()
            check_nothing_is_lost(server, crews, acknowledged)
        go_on_committing(crews, more=2)
        ends = writer.finish()
        for crew in crews:
            crew.wait_until(lambda crew=crew: crew.covers(ends), f"{crew.group_id} read all")  # type: ignore[misc]
            crew.wait_until(
                lambda crew=crew: latest_commits(crew) == ends,  # type: ignore[misc]
                f"{crew.group_id} committed all",
            )
            assert committed_in(server, crew.group_id, NAMES) == ends


@pytest.mark.timeout(400)
def test_acknowledged_commits_survive(target: str, tmp_path: Path) -> None:
    # Apache Kafka needs seconds for each restart: two show that the test is right.
    run(target, tmp_path / "quick", kills=10 if target == "odradek" else 2, seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("round_number", range(4))
def test_acknowledged_commits_survive_fifty_kills(
    target: str, tmp_path: Path, round_number: int
) -> None:
    run(target, tmp_path / "quick", kills=50, seed=SEED + 1 + round_number)
