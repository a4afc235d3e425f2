"""The entrance of a test: the ports by which its clients, and no others, reach the brokers.

Clients that an earlier test has left running know only the ports of then, which are closed. These
stay reserved for a while: such a client tries again and again, and would find whoever gets the port
next, perhaps the broker of a test in another process.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from .ports import HeldPort
from .ready import Address

PAST_PORTS_MAX: Final = 64
"""Each takes a file descriptor."""


class Entrance:
    """A port for each broker beside its listener, while a test runs."""

    def __init__(self) -> None:
        self._held: dict[int, HeldPort] = {}
        self._past: deque[HeldPort] = deque(maxlen=PAST_PORTS_MAX)

    @property
    def is_open(self) -> bool:
        """Whether clients come in by it; if not, they use the listeners."""
        return bool(self._held)

    def renew(self, broker_ids: Iterable[int]) -> None:
        """Reserve other ports, for clients that come from now on."""
        self.close()
        self._held = {number: HeldPort() for number in broker_ids}

    def close(self) -> None:
        """Use the ports no more."""
        self._past.extend(self._held.values())  # the oldest leave it and are released
        self._held = {}

    def release(self) -> None:
        """Use the ports no more, and release them and all earlier ones."""
        self.close()
        self._past.clear()

    def ports(self, broker_ids: Collection[int]) -> dict[str, int]:
        """The ports of these brokers, as the admin API wants them."""
        return {str(number): self._held[number].port for number in sorted(broker_ids)}

    def addresses(self, listeners: Mapping[int, Address]) -> dict[int, Address]:
        """Where clients reach the brokers that listen there."""
        return {
            number: (host, self._held[number].port if self._held else port)
            for number, (host, port) in listeners.items()
        }
