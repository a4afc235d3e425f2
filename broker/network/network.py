"""The network of one process: its conditions, and the links that follow them."""

import asyncio
from collections.abc import Callable

from .conditions import GOOD, Condition, Conditions, End


class Link:
    """One link, as it is now; whoever uses it can be told when that changes."""

    __slots__ = ("_users", "condition")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self._users: set[Callable[[], None]] = set()

    @property
    def is_good(self) -> bool:
        """Whether bytes pass as if there were no `Link`."""
        return self.condition is GOOD

    @property
    def is_cut(self) -> bool:
        """Whether nothing arrives."""
        return self.condition.is_cut

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this whenever the condition changes."""
        self._users.add(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        """The end of `watch`; may be repeated."""
        self._users.discard(changed)

    def become(self, condition: Condition) -> None:
        """Change the condition."""
        if condition != self.condition:
            self.condition = condition
            for changed in list(self._users):
                changed()

    async def cross(self) -> None:
        """Return once something small and its answer would have arrived."""
        while self.is_cut:
            mended = asyncio.Event()
            self.watch(mended.set)
            try:
                await mended.wait()
            finally:
                self.unwatch(mended.set)
        if self.condition.delay_s:
            await asyncio.sleep(self.condition.delay_s)


class Network:
    """All links of the brokers of this process."""

    def __init__(self) -> None:
        self.conditions = Conditions()
        self._links: dict[tuple[int, End], Link] = {}

    @property
    def is_good(self) -> bool:
        """Whether nothing is cut or slow."""
        return self.conditions == Conditions()

    def link(self, broker_id: int, end: End) -> Link:
        """The link from a broker of this process to another one, to its clients or to the store."""
        found = self._links.get((broker_id, end))
        if found is None:
            found = Link(self.conditions.between(broker_id, end))
            self._links[broker_id, end] = found
        return found

    def change(self, conditions: Conditions) -> None:
        """Let all links have these conditions from now on."""
        self.conditions = conditions
        for (broker_id, end), link in list(self._links.items()):
            link.become(conditions.between(broker_id, end))

    def heal(self) -> None:
        """Let all links be good."""
        self.change(Conditions())

    def is_cut(self, broker_id: int, end: End) -> bool:
        """Whether nothing gets from the one to the other."""
        return self.conditions.between(broker_id, end).is_cut
