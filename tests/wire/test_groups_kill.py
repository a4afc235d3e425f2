"""`kill -9` of the broker under groups: what was acknowledged stays committed, members go on."""

import random
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.seeds import Repeats, repeated
from tests.support.brokers import create_topic
from tests.support.killing import Workload, kill_again_and_again
from tests.wire.group_members import Crew, Writer, committed_in, latest_commits, quick_server
from tests.wire.servers import Server

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


class Committing(Workload):
    """Groups of several clients, which read what is written and commit it."""

    def __init__(self, server: Server, flavours: Mapping[str, tuple[int, dict[str, Any]]]) -> None:
        self._server = server
        self._stack = ExitStack()
        self._told: list[dict[str, int]] = []
        self._crews: list[Crew] = []
        create_topic(server.bootstrap_servers, TOPIC, partitions=PARTITIONS)
        writer = Writer(server, TOPIC, PARTITIONS, per_second=400)
        self._writer = self._stack.enter_context(writer)
        for flavour, (members, settings) in flavours.items():
            crew = self._stack.enter_context(Crew(server, flavour, flavour, topics=[TOPIC]))
            self._crews.append(crew)
            for _ in range(members):
                crew.start(enable_auto_commit=False, **settings)

    def approach(self, chance: random.Random) -> float:
        go_on_committing(self._crews, more=2)
        return 0.3

    def killed(self) -> None:
        self._told = [latest_commits(crew) for crew in self._crews]

    def check(self) -> None:
        """What was acknowledged is committed, or more."""
        for crew, told in zip(self._crews, self._told, strict=True):
            found = committed_in(self._server, crew.group_id, NAMES)
            behind = {
                p: (offset, found.get(p)) for p, offset in told.items() if found.get(p, -1) < offset
            }
            assert not behind, f"{crew.group_id}: acknowledged and found: {behind}"

    def finish(self) -> None:
        """All is read and committed by each group."""
        go_on_committing(self._crews, more=2)
        ends = self._writer.finish()
        for crew in self._crews:
            crew.wait_until(lambda crew=crew: crew.covers(ends), f"{crew.group_id} read all")  # type: ignore[misc]
            crew.wait_until(
                lambda crew=crew: latest_commits(crew) == ends,  # type: ignore[misc]
                f"{crew.group_id} committed all",
            )
            assert committed_in(self._server, crew.group_id, NAMES) == ends

    def close(self) -> None:
        self._stack.close()


@repeated(in_test=4, in_soak=50, soak_rounds=4)
def test_acknowledged_commits_survive(target: str, tmp_path: Path, repeats: Repeats) -> None:
    # Kafka 3.9 does not know the new protocol unless it is told to.
    left_out = "confluent-consumer" if target == "kafka-3.9" else None
    flavours = {name: members for name, members in CREWS.items() if name != left_out}
    with quick_server(target, tmp_path / "quick") as server:
        kill_again_and_again(server, Committing(server, flavours), repeats)
