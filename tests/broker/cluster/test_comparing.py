"""When the replicas of leaderless partitions are compared."""

import asyncio
from collections.abc import Collection

import pytest

from odradek.broker.cluster import comparing
from odradek.broker.cluster.comparing import Comparing
from odradek.broker.core.partition_state import TopicPartition
from odradek.broker.tasks import TaskSupervisor
from tests.support.awaiting import turns, until

A, B = ("a", 0), ("b", 0)


class Comparisons:
    """What there is to compare, and what was compared."""

    def __init__(self) -> None:
        self.found: set[TopicPartition] = set()
        self.made: list[set[TopicPartition]] = []
        self.troubles: list[str] = []
        self.tasks = TaskSupervisor(lambda name, error: self.troubles.append(f"{name}: {error}"))
        self.comparing = Comparing(lambda: frozenset(self.found), self._compare, self.tasks)

    async def _compare(self, found: Collection[TopicPartition]) -> None:
        self.made.append(set(found))

    async def find(self, *keys: TopicPartition) -> None:
        """These can be compared as well, and all that follows from that at once has happened."""
        self.found.update(keys)
        self.comparing.look()
        await turns(5)

    async def end(self) -> None:
        self.comparing.end()
        await self.tasks.close()
        assert not self.troubles


def test_what_was_not_compared_yet_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "PAUSE_MIN_S", 600.0)
    monkeypatch.setattr(comparing, "PAUSE_MAX_S", 600.0)

    async def test() -> None:
        comparisons = Comparisons()
        await comparisons.find()
        assert comparisons.made == []
        await comparisons.find(A)
        await comparisons.find(A)
        assert comparisons.made == [{A}], "the same is compared again after a pause"
        await comparisons.find(B)
        assert comparisons.made == [{A}, {A, B}]
        await comparisons.end()
        await comparisons.find(("c", 0))
        assert len(comparisons.made) == 2

    asyncio.run(test())


def test_what_had_a_leader_meanwhile_does_not_wait_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparing, "PAUSE_MIN_S", 600.0)

    async def test() -> None:
        comparisons = Comparisons()
        await comparisons.find(A, B)
        comparisons.found.remove(A)
        await comparisons.find()
        assert comparisons.made == [{A, B}]
        await comparisons.find(A)
        assert comparisons.made == [{A, B}, {A, B}]
        await comparisons.end()

    asyncio.run(test())


def test_it_is_repeated_until_there_is_nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "PAUSE_MIN_S", 0.001)

    async def test() -> None:
        comparisons = Comparisons()
        await comparisons.find(A)
        await until(lambda: len(comparisons.made) > 3)
        comparisons.found.clear()
        await until(lambda: not len(comparisons.tasks))
        count = len(comparisons.made)
        await comparisons.find(A)
        assert len(comparisons.made) == count + 1
        await comparisons.end()

    asyncio.run(test())
