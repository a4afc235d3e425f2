"""The quotas of users and client ids: which one counts for a client, and how much it has used.

    a quota of                       counts for              and is shared by all clients with
    user u and client id c           this user with this id  the same user and client id
    user u and any client id         this user               the same user and client id
    user u                           this user               the same user
    any user and client id c         this client id          the same user and client id
    any user and any client id       everybody               the same user and client id
    any user                         everybody               the same user
    client id c                      this client id          the same client id
    any client id                    everybody               the same client id

The first of these that an entity has set counts, for each kind of quota by itself.

Source: DefaultQuotaCallback, ClientQuotaManager, ClientRequestQuotaManager and
ControllerMutationQuotaManager of Kafka 3.9.2 (KIP-124, KIP-599).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from .client_quotas import CLIENT_ID, USER, Entity
from .recently_used import RecentlyUsed
from .sampled_rate import FullRate
from .token_bucket import TokenBucket

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"

CLIENTS_MAX: Final = 10_000
"""Of how many the rates are kept, for each kind of measure."""
IDLE_MS_MAX: Final = 3_600_000
NAME_LENGTH_MAX: Final = 128
"""Longer names of clients are kept as a digest."""

_ABSENT: Final = 0
_Part = str | int | None


class Limit(NamedTuple):
    """The quota that counts for a client."""

    rate: float
    shared_by: tuple[str, _Part, _Part]
    """What those have in common that share it: kind, user, client id."""


class Limits:
    """The quotas of all users and client ids."""

    def __init__(self) -> None:
        self._rates: dict[str, dict[tuple[_Part, _Part], float]] = {}

    @property
    def are_set(self) -> bool:
        """Whether there is any quota."""
        return bool(self._rates)

    def clear(self) -> None:
        """Forget all quotas."""
        self._rates.clear()

    def change(self, entity: Entity, quotas: Mapping[str, float]) -> bool:
        """Take the quotas of one entity, perhaps none; return whether they were others before."""
        key = entity.get(USER, _ABSENT), entity.get(CLIENT_ID, _ABSENT)
        is_changed = False
        for kind in (PRODUCE, FETCH, REQUEST, MUTATION):
            rates = self._rates.setdefault(kind, {})
            is_changed |= rates.get(key) != quotas.get(kind)
            if kind in quotas:
                rates[key] = quotas[kind]
            else:
                rates.pop(key, None)
            if not rates:
                del self._rates[kind]
        return is_changed

    def find(self, kind: str, user: str, client_id: str) -> Limit | None:
        """The quota of this kind that counts for a client."""
        rates = self._rates.get(kind)
        if rates is None:
            return None
        for asked, by_user, by_client in (
            ((user, client_id), True, True),
            ((user, None), True, True),
            ((user, _ABSENT), True, False),
            ((None, client_id), True, True),
            ((None, None), True, True),
            ((None, _ABSENT), True, False),
            ((_ABSENT, client_id), False, True),
            ((_ABSENT, None), False, True),
        ):
            rate = rates.get(asked)
            if rate is not None:
                shared_user = _short(user) if by_user else _ABSENT
                return Limit(rate, (kind, shared_user, _short(client_id) if by_client else _ABSENT))
        return None


class ClientRates:
    """What clients have used of late; only of those that have a quota."""

    def __init__(self, samples: int, window_ms: int, *, mutation_span_ms: int) -> None:
        """`window_ms` is the length of a sample; changes may be saved up for the span."""
        self.limits = Limits()
        self._window_ms = window_ms
        self._full_windows_ms = (samples - 1) * window_ms
        self._rates: RecentlyUsed[tuple[str, _Part, _Part], FullRate] = RecentlyUsed(
            lambda: FullRate(samples, window_ms), count_max=CLIENTS_MAX, idle_ms_max=IDLE_MS_MAX
        )
        self._buckets: RecentlyUsed[tuple[str, _Part, _Part], TokenBucket] = RecentlyUsed(
            lambda: TokenBucket(mutation_span_ms), count_max=CLIENTS_MAX, idle_ms_max=IDLE_MS_MAX
        )

    def __len__(self) -> int:
        return len(self._rates) + len(self._buckets)

    def limit(self, kind: str, user: str, client_id: str | None) -> Limit | None:
        """The quota of a client; that it sends no client id is the same as an empty one."""
        return self.limits.find(kind, user, client_id or "")

    def record(self, limit: Limit, value: float, now_ms: int) -> int:
        """Count bytes or percents; how long the client must be throttled, 0: not at all.

        Because of request_percentage not longer than one sample, as in Kafka.
        """
        rate = self._rates.use(limit.shared_by, now_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit.rate, now_ms)
        is_request = limit.shared_by[0] == REQUEST
        return min(throttle_ms, self._window_ms) if is_request else throttle_ms

    def take_back(self, limit: Limit, value: float, now_ms: int) -> None:
        """Do not count what was recorded."""
        self._rates.use(limit.shared_by, now_ms).record(-value, now_ms)

    def at_once(self, limit: Limit) -> float:
        """What a client that was silent may use without being throttled."""
        return max(limit.rate, 0.0) * self._full_windows_ms / 1000

    def change_topics(
        self, limit: Limit, count: int, now_ms: int, *, is_strict: bool
    ) -> tuple[bool, int]:
        """Count partitions that a client creates or deletes, unless it is strictly refused.

        Returns whether it may, and how long it must be throttled.
        """
        bucket, rate = self._buckets.use(limit.shared_by, now_ms), limit.rate
        if is_strict and bucket.has_debt(rate, now_ms):
            return False, bucket.throttle_ms(rate, now_ms)
        bucket.take(count, rate, now_ms)
        return True, 0 if is_strict else bucket.throttle_ms(rate, now_ms)


def _short(name: str) -> str:
    """A name, or its digest if it would take much memory."""
    if len(name) <= NAME_LENGTH_MAX:
        return name
    return f"sha256:{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
