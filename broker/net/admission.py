"""Which new connections are let in, and when: their number and their rate, by broker, listener and
address.

A listener that is full or too fast does not accept; asyncio's accept, and then close. A connection
from an address with too many is closed at once, and one from an address that is too fast is held
unread, and closed later.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ..config import Config
from ..metrics.counters import CONNECTIONS_DELAYED, CONNECTIONS_REFUSED_BY_QUOTA
from ..settings.connections import CREATION_RATE, MAX_CONNECTIONS
from ..settings.declaration import INT32_MAX
from .connection import Connection
from .endpoints import PRIVATE
from .held import Held

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..node import Node

UNLIMITED: Final = INT32_MAX
BROKER: Final = ""
"""In place of the name of a listener: the rate of all of them."""


class Admission:
    """The limits of new connections."""

    def __init__(
        self,
        config: Config,
        node: "Node",
        connections: "Collection[Connection]",
        log: Callable[..., None],
    ) -> None:
        """`connections`: those that are open.  `log` limits the number of its lines."""
        self._config = config
        self._node = node
        self._open = connections
        self._log = log
        self._clock = node.clock
        self._rates = node.quotas.creation_rates
        self._of_brokers = config.broker_only_listeners
        self._per_host: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._changed: dict[str, asyncio.Event] = {}
        """By listener: whether it has a slot, for those that have waited for one."""
        self._accept_again_ms: dict[str, int] = {}
        """By listener, while it accepts nobody because of a rate."""
        self.held = Held(node.clock)

    # How many.

    async def wait_for_slot(self, listener_name: str) -> None:
        """Return once `has_slot`."""
        event = self._changed.setdefault(listener_name, asyncio.Event())
        self.limits_changed()
        await event.wait()

    def has_slot(self, listener_name: str) -> bool:
        """Whether one more may connect here.  A broker may take a client's slot."""
        of_listener = self._config.limit_of_listener(listener_name, MAX_CONNECTIONS)
        if self._per_listener[listener_name] >= of_listener:
            return False
        if len(self._open) < self._config.max_connections:
            return True
        return self.is_of_brokers(listener_name) and any(self.clients())

    def is_of_brokers(self, listener_name: str) -> bool:
        """Whether connections on this listener have priority over clients, as in Kafka."""
        return listener_name in self._of_brokers and not self._node.local.is_alone

    def clients(self) -> Iterator[Connection]:
        """The open connections without priority."""
        return (each for each in self._open if not self.is_of_brokers(each.listener_name))

    def refuses(self, host: str, listener_name: str) -> bool:
        """Whether this host has reached `max.connections.per.ip`."""
        if listener_name == PRIVATE.name:
            return False
        limit = self._config.connection_limits.get(host, self._config.max_connections_per_ip)
        if self._per_host[host] < limit:
            return False
        self._log("connection refused host=%s reason=max.connections.per.ip=%d", host, limit)
        return True

    def came(self, connection: Connection) -> None:
        """Count an open connection."""
        self._per_listener[connection.listener_name] += 1
        if connection.listener_name != PRIVATE.name:
            self._per_host[connection.host] += 1
        self.limits_changed()

    def went(self, connection: Connection) -> None:
        """The end of what `came` has begun."""
        self._per_listener[connection.listener_name] -= 1
        if connection.listener_name != PRIVATE.name:
            self._per_host[connection.host] -= 1
            if self._per_host[connection.host] <= 0:
                del self._per_host[connection.host]
        self.limits_changed()

    def limits_changed(self) -> None:
        """Take note that the number of connections or a limit has changed."""
        for listener_name, event in self._changed.items():
            if self.has_slot(listener_name):
                event.set()
            else:
                event.clear()

    # How fast.

    def delay_ms(self, listener_name: str) -> int:
        """How long a listener must not accept because of max.connection.creation.rate."""
        until_ms = self._accept_again_ms.get(listener_name)
        if until_ms is None:
            return 0
        left_ms = until_ms - self._clock.timer_ms()
        if left_ms <= 0:
            del self._accept_again_ms[listener_name]
        return max(left_ms, 0)

    def is_over_quota(self, host: str, listener_name: str, close: Callable[[], None]) -> bool:
        """Count a connection that was just accepted; if its address is over its quota, it will be
        closed by `close`, after a delay.
        """
        now_ms, bounds = self._clock.timer_ms(), self._bounds(listener_name)
        delays_ms = [self._rates.delay_ms(of, bound, now_ms) for of, bound in bounds.items()]
        refusal_ms = 0
        if not self.is_of_brokers(listener_name):
            refusal_ms = self._rates.refusal_ms(host, now_ms)
        if refusal_ms:
            for of in bounds:
                self._rates.take_back(of, now_ms)
            self._node.metrics.counters.add(CONNECTIONS_REFUSED_BY_QUOTA)
            self._log(
                "connection refused host=%s reason=connection_creation_rate closed_after_ms=%d",
                host,
                refusal_ms,
            )
            self.held.hold(host, close, refusal_ms)
        if any(delays_ms):
            self._node.metrics.counters.add(CONNECTIONS_DELAYED)
            self._accept_again_ms[listener_name] = now_ms + max(delays_ms)
        return refusal_ms > 0

    def _bounds(self, listener_name: str) -> dict[str, int]:
        """The rates that a new connection counts for."""
        bounds = {listener_name: self._config.limit_of_listener(listener_name, CREATION_RATE)}
        if not self.is_of_brokers(listener_name):
            bounds[BROKER] = self._config.max_connection_creation_rate
        return {of: bound for of, bound in bounds.items() if bound != UNLIMITED}
