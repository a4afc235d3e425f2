"""Groups under constant rebalances: members come, leave and crash while records are written.

What must hold: every record is handed to somebody at least once; within one generation a partition
has one owner; generations and committed offsets never go back.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.seeds import Repeats, repeated
from tests.support.brokers import create_topic
from tests.wire.group_members import Crew, Event, Member, Writer, missing, quick_server
from tests.wire.servers import Server

TOPIC: Final = "rebalanced"
GROUP: Final = "restless"
PARTITIONS: Final = 6
MEMBERS_MAX: Final = 4
READY: Final = 2
HISTORY_LINES: Final = 40


@pytest.fixture
def broker(target: str, tmp_path: Path) -> Iterator[Server]:
    with quick_server(target, tmp_path / "quick") as server:
        yield server


class Storm:
    """Starts and ends members of one crew, one event after the other."""

    def __init__(self, crew: Crew, seed: int) -> None:
        self._crew = crew
        self._chance = random.Random(seed)
        self._standby: list[Member] = []
        self.living: list[Member] = []
        self.endings = {"left": 0, "crashed": 0}

    @property
    def generation(self) -> int:
        """The highest that a member was told."""
        return max((member.generation for member in self._crew.members), default=0)

    def blow(self, rebalances: int) -> None:
        """Go on until there were so many rebalances; at the end one member lives at least."""
        while self.generation < rebalances:
            before = self.generation
            if self._chance.random() < 0.25 and 2 <= len(self.living) < MEMBERS_MAX:
                self._end_one()  # at the same time as somebody comes
                self._start_one()
            elif self._comes():
                self._start_one()
            else:
                self._end_one()
            self._crew.wait_until(
                lambda before=before: self.generation > before,  # type: ignore[misc]
                f"rebalanced after generation {before}",
            )
            if self._chance.random() < 0.5:
                self._crew.wait_until(self._settled, "of one mind")

    def _comes(self) -> bool:
        if len(self.living) <= 1:
            return True
        return len(self.living) < MEMBERS_MAX and self._chance.random() < 0.5

    def _start_one(self) -> None:
        while len(self._standby) <= READY:  # to start a process takes longer than to join
            self._standby.append(self._crew.start(go=False, enable_auto_commit=False))
        member = self._standby.pop(0)
        self._crew.wait_until(lambda: bool(member.said("ready")), f"{member.name} ready")
        member.go()
        self.living.append(member)

    def _end_one(self) -> None:
        member = self.living.pop(self._chance.randrange(len(self.living)))
        self._crew.wait_until(lambda: bool(member.said("owns")), f"{member.name} has joined")
        if self._chance.random() < 0.6:
            member.leave()
            self.endings["left"] += 1
        else:
            member.crash()
            self.endings["crashed"] += 1

    def _settled(self) -> bool:
        return {member.generation for member in self.living} == {self.generation}


def check_one_owner_per_generation(reads: list[Event]) -> None:
    owners: dict[tuple[int, str], str] = {}
    for event in reads:
        key = (event["generation"], event["partition"])
        assert owners.setdefault(key, event["name"]) == event["name"], key


def check_generations_only_rise(members: list[Member]) -> None:
    for member in members:
        told = [event["generation"] for event in member.said("owns")]
        assert told == sorted(set(told)), (member.name, told)


def check_offsets_never_go_back(crew: Crew) -> None:
    """A new owner begins at what earlier generations were told is committed, or later."""
    committed: dict[str, dict[int, int]] = {}
    for event in crew.events("committed"):
        for partition, offset in event["offsets"].items():
            latest = committed.setdefault(partition, {})
            latest[event["generation"]] = max(offset, latest.get(event["generation"], 0))
    seen: set[tuple[str, int, str]] = set()
    for event in crew.events("read"):
        key = (event["name"], event["generation"], event["partition"])
        if key in seen:
            continue
        seen.add(key)
        earlier = committed.get(event["partition"], {}).items()
        least = max((end for g, end in earlier if g < event["generation"]), default=0)
        if event["first"] < least:
            before = crew.history_of(event["partition"], event["time_s"])[-HISTORY_LINES:]
            pytest.fail("\n".join([f"{event} begins below {least}", *before]))


@repeated(in_test=15, in_soak=250, soak_rounds=4, seed=6)  # of which five leave and four crash
def test_rebalances_without_end(broker: Server, repeats: Repeats, tmp_path: Path) -> None:
    create_topic(broker.bootstrap_servers, TOPIC, partitions=PARTITIONS)
    with (
        Writer(broker, TOPIC, PARTITIONS) as writer,
        Crew(broker, GROUP, "kafka-python", topics=[TOPIC]) as crew,
        crew.kept(tmp_path / "events.txt"),
    ):
        storm = Storm(crew, repeats.seed)
        storm.blow(repeats.count)
        ends = writer.finish()
        check_one_owner_per_generation(crew.events("read"))
        crew.wait_until(lambda: crew.covers(ends), f"all read up to {ends}")
        reads = crew.events("read")
        assert not missing(reads, ends)
        check_one_owner_per_generation(reads)
        check_generations_only_rise(crew.members)
        check_offsets_never_go_back(crew)
        handed = sum(event["last"] - event["first"] + 1 for event in reads)
        written = sum(ends.values())
        print(
            f"{storm.generation} rebalances, {len(crew.members)} members, {storm.endings}, "
            f"{written} records handed out {handed} times"
        )


def test_what_is_said_of_a_failure(tmp_path: Path) -> None:
    """A record that is read again, below what its owner before was told is committed."""
    server: Any = SimpleNamespace(output="broker's last words")
    crew = Crew(server, GROUP, "kafka-python")
    said: list[tuple[str, str, dict[str, Any]]] = [
        ("a", "owns", {"generation": 1, "partitions": ["t:0", "t:1"]}),
        ("a", "read", {"generation": 1, "partition": "t:0", "first": 0, "last": 9}),
        ("a", "committed", {"generation": 1, "offsets": {"t:0": 10}}),
        ("a", "read", {"generation": 1, "partition": "t:1", "first": 0, "last": 0}),
        ("b", "owns", {"generation": 2, "partitions": ["t:0"]}),
        ("b", "read", {"generation": 2, "partition": "t:0", "first": 8, "last": 11}),
        ("b", "committed", {"generation": 2, "offsets": {"t:0": 12}}),
    ]
    events = [{"name": n, "event": e, "time_s": 5 + i / 8, **d} for i, (n, e, d) in enumerate(said)]
    for name in ("a", "b"):
        member: Any = SimpleNamespace(events=[e for e in events if e["name"] == name])
        member.said = lambda kind, member=member: [e for e in member.events if e["event"] == kind]
        crew.members.append(member)
    with pytest.raises(pytest.fail.Exception) as failed, crew.kept(tmp_path / "events.txt"):
        check_offsets_never_go_back(crew)
    assert str(failed.value).splitlines()[1:] == [
        "0.000 a owns generation=1 partitions=['t:0', 't:1']",
        "0.125 a read generation=1 partition=t:0 first=0 last=9",
        "0.250 a committed generation=1 offsets={'t:0': 10}",
        "0.500 b owns generation=2 partitions=['t:0']",
        "0.625 b read generation=2 partition=t:0 first=8 last=11",
    ]
    assert str(tmp_path / "events.txt") in failed.value.__notes__[0]
    kept = (tmp_path / "events.txt").read_text()
    assert "0.375 a read generation=1 partition=t:1 first=0 last=0" in kept
    assert kept.endswith("broker's last words")
