"""The quotas in force on this broker, and what each request uses of them.

A client that exceeds its quota gets its answer at once, with the time for which it is throttled;
then no further request of its connection is handled for that time (KIP-219). Only clients that have
a quota are measured, and nobody is while no quota is set.

`request_percentage` is a share of the time of the event loop, which does what Kafka's network and
request threads do: 100 is the whole loop. The time counts in which a request is decoded, handled
and answered, not the time in which it waits.

Requests that Kafka exempts are those of brokers: the APIs that only brokers may use, and the
fetches of followers. Connections on a listener that only brokers use are exempt altogether.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode, Refused

from .core.client_quotas import IP, Entity
from .core.client_rates import FETCH, MUTATION, PRODUCE, REQUEST, ClientRates
from .core.creation_rate import CreationRates
from .core.sampled_rate import THROTTLE_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from .config import Config
    from .runtime import Runtime

NS_PER_PERCENT: Final = 10_000_000
"""Of a second."""


class Quotas:
    """What clients may use."""

    are_set: bool = False
    """Whether any user or client id has a quota."""

    def __init__(
        self, config: "Config", runtime: "Runtime", *, exempt_listeners: frozenset[str]
    ) -> None:
        samples, window_ms = config.quota_window_num, 1000 * config.quota_window_size_seconds
        self.clock = runtime.clock
        self.now_ns = runtime.loop_ns
        self.creation_rates = CreationRates(samples, window_ms)
        span_ms = 1000 * (
            config.controller_quota_window_num * config.controller_quota_window_size_seconds
        )
        self.client_rates = ClientRates(samples, window_ms, mutation_span_ms=span_ms)
        self.exempt_listeners = exempt_listeners

    def replace(self, entries: Iterable[tuple[Entity, Mapping[str, float]]]) -> None:
        """Take all quotas of the store; others are gone."""
        self.creation_rates.clear_quotas()
        self.client_rates.limits.clear()
        self.are_set = False
        for entity, quotas in entries:
            self.change(entity, quotas)

    def change(self, entity: Entity, quotas: Mapping[str, float]) -> bool:
        """Take the quotas of one entity, perhaps none; return whether they were others before."""
        if IP in entity:
            return self.creation_rates.set_quota(entity[IP], quotas)
        limits = self.client_rates.limits
        is_changed = limits.change(entity, quotas)
        self.are_set = limits.are_set
        return is_changed


class Usage:
    """What one request uses, from its first byte to its answer."""

    __slots__ = (
        "_client_id",
        "_is_settled",
        "_quotas",
        "_since_ns",
        "_size_bytes",
        "_used_ns",
        "_user",
        "imposed_ms",
    )

    def __init__(self, quotas: Quotas) -> None:
        """The loop begins to work on a request."""
        self._quotas = quotas
        self._since_ns: int | None = quotas.now_ns()
        self._used_ns = 0
        self._user, self._client_id, self._size_bytes = "", "", 0
        self._is_settled = False
        self.imposed_ms = 0
        """For how long the client is throttled whatever it has used."""

    def identify(self, user: str, client_id: str | None, size_bytes: int) -> None:
        """Name the client, and the size of the request."""
        self._user, self._client_id, self._size_bytes = user, client_id or "", size_bytes

    def now_ms(self) -> int:
        """The broker's monotonic clock, by which it measures clients."""
        return self._quotas.clock.timer_ms()

    # The time of the loop.

    def pause(self) -> None:
        """The loop works on something else, as the answer is not known yet."""
        self._used_ns, self._since_ns = self._take_ns(), None

    def resume(self) -> None:
        """The loop works on this request again."""
        self._since_ns = self._quotas.now_ns()

    def _take_ns(self) -> int:
        """The time used since the last call."""
        used_ns, self._used_ns = self._used_ns, 0
        if self._since_ns is not None:
            now_ns = self._quotas.now_ns()
            used_ns += now_ns - self._since_ns
            self._since_ns = now_ns
        return used_ns

    def sent(self) -> None:
        """The answer is sent; what that took counts for the next request."""
        self._record(REQUEST, self._take_ns() / NS_PER_PERCENT)

    # Settling.

    def _record(self, kind: str, value: float) -> int:
        rates = self._quotas.client_rates
        limit = rates.limit(kind, self._user, self._client_id)
        return 0 if limit is None else rates.record(limit, value, self.now_ms())

    def settle(self, *, is_produce: bool, is_answered: bool) -> int:
        """Count a request that is about to be answered; for how long its client is throttled.

        A Produce without an answer is not throttled for its time, as in Kafka.
        """
        throttle_ms = self.imposed_ms
        if self._is_settled:
            return throttle_ms
        if is_produce:
            throttle_ms = max(throttle_ms, self._record(PRODUCE, self._size_bytes))
        if is_answered:
            throttle_ms = max(throttle_ms, self._record(REQUEST, self._take_ns() / NS_PER_PERCENT))
        return throttle_ms

    # Fetch.

    @property
    def fetch_bytes_max(self) -> int:
        """A larger answer would always be throttled, so it would never come."""
        rates = self._quotas.client_rates
        limit = rates.limit(FETCH, self._user, self._client_id)
        return THROTTLE_MS_MAX if limit is None else int(min(rates.at_once(limit), THROTTLE_MS_MAX))

    def settle_fetch(self, size_bytes: "Callable[[], int]") -> int:
        """Count an answer to a consumer; 0, or for how long it is throttled: then it must be empty,
        and its bytes do not count.
        """
        self._is_settled = True
        rates, now_ms = self._quotas.client_rates, self.now_ms()
        throttle_ms = self._record(REQUEST, self._take_ns() / NS_PER_PERCENT)
        limit = rates.limit(FETCH, self._user, self._client_id)
        if limit is not None:
            size = size_bytes()
            throttle_ms = max(throttle_ms, rates.record(limit, size, now_ms))
            if throttle_ms:
                rates.take_back(limit, size, now_ms)
        return throttle_ms

    # Changes of topics.

    def change_topics(self, count: int, *, is_strict: bool) -> tuple[bool, int]:
        """Count partitions to be created or deleted: whether they may be, and the throttle."""
        rates = self._quotas.client_rates
        limit = rates.limit(MUTATION, self._user, self._client_id)
        if limit is None:
            return True, 0
        return rates.change_topics(limit, count, self.now_ms(), is_strict=is_strict)


class TopicChanges:
    """The partitions that one request creates or deletes (KIP-599).

    From some version on a request is strict: what exceeds the quota is refused, and the client may
    try again. Before, everything is done, and the connection is throttled.
    """

    def __init__(self, usage: Usage | None, *, is_strict: bool) -> None:
        """`usage` None: there is no quota."""
        self._usage = usage
        self._is_strict = is_strict
        self._until_ms = 0

    def record(self, partitions: int) -> None:
        """Count partitions before they are created or deleted.

        Raises: Refused (THROTTLING_QUOTA_EXCEEDED).
        """
        if self._usage is None:
            return
        may, throttle_ms = self._usage.change_topics(partitions, is_strict=self._is_strict)
        if throttle_ms:
            self._until_ms = self._usage.now_ms() + throttle_ms
        if not may:
            raise Refused(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                "the quota controller_mutation_rate is exceeded: try again later",
            )

    @property
    def throttle_ms(self) -> int:
        """For how long the client must still be throttled."""
        if self._usage is None or not self._until_ms:
            return 0
        return max(self._until_ms - self._usage.now_ms(), 0)
