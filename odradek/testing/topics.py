"""Topics of the brokers under test: `broker.topics`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from odradek.spelling import did_you_mean

from .door import AdminClient, NotFound

NAMED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, as it was when it was asked for."""

    partition: int
    leader: int
    """-1: there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, as it was when it was asked for."""

    name: str
    partitions: tuple[Partition, ...]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The topic of an answer."""
        partitions = (
            Partition(
                each["partition"],
                each["leader"],
                each["leader_epoch"],
                tuple(each["replicas"]),
                tuple(each["isr"]),
            )
            for each in given["partitions"]
        )
        return cls(given["name"], tuple(partitions))


class NoSuchTopic(KeyError):
    """There is no topic with a name; the message says which there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(name)
        listed = ", ".join(known[:NAMED_MAX]) + (", …" if known[NAMED_MAX:] else "")
        there = f"; there is {listed}" if known else "; there is none at all"
        self._sentence = f"there is no topic {name!r}{did_you_mean(name, known) or there}"

    def __str__(self) -> str:
        return self._sentence


class Topics:
    """The topics: `"orders" in topics`, `topics["orders"]`, `for name in topics`."""

    def __init__(self, admin: Callable[[], AdminClient]) -> None:
        self._admin = admin

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | bool | float] | None = None,
    ) -> Topic:
        """Create a topic; return once all brokers know its leaders.  Raises: AdminError."""
        given = {"partitions": partitions, "replication_factor": replication_factor}
        given = {key: value for key, value in given.items() if value is not None}
        return Topic.of(self._admin().post("topics", name=name, configs=configs or {}, **given))

    def delete(self, name: str) -> None:
        """Delete a topic; return once no broker knows it.  Raises: AdminError."""
        self._admin().delete("topics", name)

    def __getitem__(self, name: str) -> Topic:
        """Raises: NoSuchTopic, a KeyError."""
        try:
            return Topic.of(self._admin().get("topics", name))
        except NotFound:
            pass
        raise NoSuchTopic(name, list(self))

    def __contains__(self, name: str) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        """The names of all topics but internal ones, sorted."""
        return iter([topic["name"] for topic in self._admin().get("topics")["topics"]])

    def __len__(self) -> int:
        return sum(1 for _ in self)
