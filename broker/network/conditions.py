"""Which links are cut or slow, as plain data.

A link has a broker at one end, and another broker, the clients or the store at the other.
"""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

CLIENTS: Final = "clients"
STORE: Final = "store"
End = int | Literal["clients", "store"]
"""A broker's id, or one of the others."""


class Condition(NamedTuple):
    """What a link does to the bytes on it."""

    is_cut: bool = False
    """Nothing arrives."""
    delay_s: float = 0.0
    """By how much longer each round trip takes."""
    bytes_per_s: int | None = None
    """The rate of each connection in each direction; None: any."""

    def transit_s(self, size_bytes: int) -> float:
        """By how much longer a question of this size and its answer take, without the answer."""
        return self.delay_s + self.sending_s(size_bytes)

    def sending_s(self, size_bytes: int) -> float:
        """How long so many bytes take at the link's rate."""
        return size_bytes / self.bytes_per_s if self.bytes_per_s else 0.0

    def piece_bytes(self, size_bytes_max: int) -> int:
        """How many bytes to let through at once, so that the rate looks even."""
        if self.bytes_per_s is None:
            return size_bytes_max
        return max(1, min(size_bytes_max, self.bytes_per_s // PIECES_PER_S))


PIECES_PER_S: Final = 20
GOOD: Final = Condition()


class Split(NamedTuple):
    """Brokers in groups that do not reach each other; who is not named is with the last group."""

    groups: tuple[frozenset[int], ...]
    clients: bool = False
    """Whether clients, too, reach only the last group."""
    store: bool = False
    """Whether the store, too, reaches only the last group."""

    def cuts(self, broker_id: int, end: End) -> bool:
        """Whether a broker does not reach this end."""
        if end == CLIENTS:
            return self.clients and self._group_of(broker_id) != self._last
        if end == STORE:
            return self.store and self._group_of(broker_id) != self._last
        assert isinstance(end, int)
        return self._group_of(broker_id) != self._group_of(end)

    @property
    def _last(self) -> int:
        return len(self.groups) - 1

    def _group_of(self, broker_id: int) -> int:
        for index, group in enumerate(self.groups):
            if broker_id in group:
                return index
        return self._last


class Slowness(NamedTuple):
    """The links of one broker are slow."""

    broker_id: int
    delay_s: float = 0.0
    bytes_per_s: int | None = None
    clients: bool = False
    store: bool = False

    def slows(self, broker_id: int, end: End) -> bool:
        """Whether this link is one of them."""
        if end == CLIENTS:
            return self.clients and broker_id == self.broker_id
        if end == STORE:
            return self.store and broker_id == self.broker_id
        return self.broker_id in (broker_id, end)


class Conditions(NamedTuple):
    """All that is wrong with a network."""

    splits: tuple[Split, ...] = ()
    slow: tuple[Slowness, ...] = ()

    def with_split(self, split: Split) -> "Conditions":
        """This split beside those that there are."""
        return Conditions((*self.splits, split), self.slow)

    def with_slowness(self, slowness: Slowness) -> "Conditions":
        """This slowness instead of what the broker had."""
        others = (each for each in self.slow if each.broker_id != slowness.broker_id)
        return Conditions(self.splits, (*others, slowness))

    def between(self, broker_id: int, end: End) -> Condition:
        """The condition of one link."""
        slow = [each for each in self.slow if each.slows(broker_id, end)]
        rates = [each.bytes_per_s for each in slow if each.bytes_per_s is not None]
        condition = Condition(
            is_cut=any(each.cuts(broker_id, end) for each in self.splits),
            delay_s=sum(each.delay_s for each in slow),
            bytes_per_s=min(rates, default=None),
        )
        return GOOD if condition == GOOD else condition


def check_groups(groups: Iterable[frozenset[int]]) -> None:
    """Check that a split makes sense.  Raises: ValueError with a sentence."""
    seen: set[int] = set()
    count = 0
    for group in groups:
        count += 1
        if not group:
            raise ValueError("a group is empty: each needs a broker")
        if both := seen & group:
            raise ValueError(f"broker {min(both)} is in two groups")
        seen |= group
    if count < 2:
        raise ValueError("a split has at least two groups")
