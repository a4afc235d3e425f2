"""How fast clients may connect: to the broker, to a listener, from an address (KIP-612).

A listener whose connection exceeds the rate of the broker, or its own, waits before it accepts the
next one. An address that exceeds its quota is refused: the connection is closed, though not at
once, as the client would only come again. It does not count, else an address that tries often would
never get in.

Source: ConnectionQuotas of Kafka 3.9.2.
"""

from collections.abc import Mapping
from typing import Final

from .client_quotas import IP_QUOTAS
from .recently_used import RecentlyUsed
from .sampled_rate import FullRate

ADDRESSES_MAX: Final = 10_000
IDLE_MS_MAX: Final = 3_600_000
(CONNECTION_CREATION_RATE,) = IP_QUOTAS


class CreationRates:
    """The rates of new connections, and the quotas of addresses.

    No delay is longer than one sample, as in Kafka.
    """

    def __init__(self, samples: int, window_ms: int) -> None:
        """`window_ms` is the length of one sample."""
        self._delay_ms_max = window_ms
        self._samples = samples
        self._of_listeners: dict[str, FullRate] = {}
        self._of_addresses: RecentlyUsed[str, FullRate] = RecentlyUsed(
            lambda: FullRate(samples, window_ms), count_max=ADDRESSES_MAX, idle_ms_max=IDLE_MS_MAX
        )
        self._quotas: dict[str | None, float] = {}

    def set_quota(self, address: str | None, quotas: Mapping[str, float]) -> bool:
        """Take the quotas of an address, or of those that have none (None).

        Returns whether they were others before.
        """
        key = None if address is None else dotted(address)
        quota, before = quotas.get(CONNECTION_CREATION_RATE), self._quotas.pop(key, None)
        if quota is not None:
            self._quotas[key] = quota
        return quota != before

    def clear_quotas(self) -> None:
        """Forget the quotas of all addresses."""
        self._quotas.clear()

    def delay_ms(self, of: str, bound: float, now_ms: int) -> int:
        """Count a connection of a listener, or of the broker; how long its listener must wait
        before it accepts the next one.
        """
        rate = self._of_listeners.setdefault(of, FullRate(self._samples, self._delay_ms_max))
        rate.record(1, now_ms)
        return min(rate.throttle_ms(bound, now_ms), self._delay_ms_max)

    def take_back(self, of: str, now_ms: int) -> None:
        """Do not count the last connection after all, as its address is refused."""
        self._of_listeners[of].record(-1, now_ms)

    def refusal_ms(self, host: str, now_ms: int) -> int:
        """Count a connection from an address; 0, or when to close it: then it does not count."""
        if not self._quotas:
            return 0
        quota = self._quotas.get(host, self._quotas.get(None))
        if quota is None:
            return 0
        rate = self._of_addresses.use(host, now_ms)
        rate.record(1, now_ms)
        delay_ms = min(rate.throttle_ms(quota, now_ms), self._delay_ms_max)
        if delay_ms:
            rate.record(-1, now_ms)
        return delay_ms


def dotted(address: str) -> str:
    """An IPv4 address of one to four numbers, as four; its last number fills the remaining bytes.

    Anything else stays as it is.
    """
    *first, last = address.split(".")
    size = 4 - len(first)
    if not 1 <= size <= 4 or not all(number.isdecimal() for number in (*first, last)):
        return address
    if int(last) >= 256**size:
        return address
    return ".".join((*(str(int(number)) for number in first), *map(str, int(last).to_bytes(size))))
