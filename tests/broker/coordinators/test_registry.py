"""Each coordinator hears of the partitions of its own topic, and all hear of deleted topics."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from odradek.broker.coordinators.registry import Coordinators
from odradek.broker.core.partition import Partition


class Recording:
    """What a coordinator was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def lead(self, partition: Partition) -> None:
        self.told.append(("lead", partition))

    def resign_partitions(self, partitions: Collection[int]) -> None:
        if partitions:
            self.told.append(("resign", list(partitions)))

    def forget_topic(self, topic: str) -> None:
        self.told.append(("forget", topic))


def test_each_hears_of_its_own_topic() -> None:
    groups, transactions = Recording(), Recording()
    coordinators = Coordinators({"groups": groups, "transactions": transactions})
    led: Any = SimpleNamespace(is_leader=True)
    followed: Any = SimpleNamespace(is_leader=False)
    served = {("groups", 0): led, ("groups", 1): followed, ("t", 0): led}
    coordinators.roles_changed([*served, ("groups", 2), ("transactions", 5)], served)
    assert groups.told == [("lead", led), ("resign", [1]), ("resign", [2])]
    assert transactions.told == [("resign", [5])]


def test_what_is_gone_from_here_is_coordinated_elsewhere() -> None:
    groups, transactions = Recording(), Recording()
    coordinators = Coordinators({"groups": groups, "transactions": transactions})
    coordinators.resign([("t", 0), ("groups", 3), ("transactions", 1), ("groups", 4)])
    coordinators.forget_topic("t")
    assert groups.told == [("resign", [3, 4]), ("forget", "t")]
    assert transactions.told == [("resign", [1]), ("forget", "t")]
