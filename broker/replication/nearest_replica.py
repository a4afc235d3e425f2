"""Directs consumers to the replica that is nearest to them (`replica.selector.class`)."""

from typing import TYPE_CHECKING

from ..core.partition import Partition
from ..core.replica_selector import SELECTORS, Racks, Selector, preferred_replica
from ..member.metadata import MetadataCache
from ..runtime import Clock

if TYPE_CHECKING:
    from ..core.fetch_reads import Nearest


class NearestReplica:
    """What a leader knows about the racks of its followers."""

    def __init__(self, selector: Selector, metadata: MetadataCache, clock: Clock) -> None:
        self._selector = selector
        self._metadata = metadata
        self._clock = clock
        self._brokers: object = None
        self._racks: dict[str, Racks] = {}

    @classmethod
    def configured(
        cls, selector_class: str | None, metadata: MetadataCache, clock: Clock
    ) -> "NearestReplica | None":
        """The instance for `replica.selector.class`; None: everybody reads from the leader."""
        return None if selector_class is None else cls(SELECTORS[selector_class], metadata, clock)

    def of(self, rack: str, listener_name: str) -> "Nearest":
        """For a client that names its rack, and reaches brokers by this listener."""
        selector, now_ms = self._selector, self._clock.now_ms()
        racks = self._racks_of(listener_name)

        def nearest(partition: Partition, offset: int) -> int | None:
            return preferred_replica(partition, offset, selector, rack, racks, now_ms=now_ms)

        return nearest

    def _racks_of(self, listener_name: str) -> Racks:
        """The racks of the brokers with the listener; computed once per list of live brokers."""
        brokers = self._metadata.brokers
        if brokers is not self._brokers:
            self._brokers, self._racks = brokers, {}
        racks = self._racks.get(listener_name)
        if racks is None:
            racks = self._racks[listener_name] = {
                broker.broker_id: broker.rack
                for broker in brokers.values()
                if listener_name in broker.endpoints
            }
        return racks
