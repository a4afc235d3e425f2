"""The entrance of a test: the ports by which its clients, and no others, reach the brokers.

A client that an earlier test has left running knows only old ports. They are closed, but stay
reserved for a while. Such a client tries them again and again, and would reach whoever gets one
next, perhaps the broker of another process.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from .ports import HeldPort
from .ready import Address

PAST_PORTS_MAX: Final = 64
"""Of all fixtures of this process: each takes a file descriptor."""
_past: Final[deque[HeldPort]] = deque(maxlen=PAST_PORTS_MAX)


class Entrance:
    """A port for each broker beside its listener, while a test runs."""

    def __init__(self) -> None:
        self._held: dict[int, HeldPort] = {}

    @property
    def is_open(self) -> bool:
        """Whether clients come in by it; if not, they use the listeners."""
        return bool(self._held)

    def renew(self, broker_ids: Iterable[int]) -> None:
        """Reserve other ports, for clients that come from now on."""
        self.close()
        self._held = {number: HeldPort() for number in broker_ids}

    def close(self) -> None:
        """Use these ports no more; they stay reserved for a while."""
        _past.extend(self._held.values())
        self._held = {}

    def ports(self, broker_ids: Collection[int]) -> dict[str, int]:
        """The ports of these brokers, as the admin API wants them."""
        return {str(number): self._held[number].port for number in sorted(broker_ids)}

    def addresses(self, listeners: Mapping[int, Address]) -> dict[int, Address]:
        """Where clients reach the brokers that listen there."""
        return {
            number: (host, self._held[number].port if self._held else port)
            for number, (host, port) in listeners.items()
        }
