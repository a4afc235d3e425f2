"""Sending consumers to the replica that is nearest to them (`replica.selector.class`)."""

from .core.fetch_reads import Nearest
from .core.partition import Partition
from .core.replica_selector import SELECTORS, Selector, preferred_replica
from .metadata import MetadataCache
from .runtime import Clock


class NearestReplica:
    """What a leader knows of where its followers stand."""

    def __init__(self, selector: Selector, metadata: MetadataCache, clock: Clock) -> None:
        self._selector = selector
        self._metadata = metadata
        self._clock = clock

    @classmethod
    def configured(
        cls, selector_class: str | None, metadata: MetadataCache, clock: Clock
    ) -> "NearestReplica | None":
        """As `replica.selector.class` says; None: everybody reads from the leader."""
        return None if selector_class is None else cls(SELECTORS[selector_class], metadata, clock)

    def of(self, rack: str, listener_name: str) -> Nearest:
        """For a client that says in which rack it stands, and knows brokers by this listener."""
        selector, metadata, now_ms = self._selector, self._metadata, self._clock.now_ms()
        racks = {
            broker.broker_id: broker.rack
            for broker in metadata.brokers.values()
            if listener_name in broker.endpoints
        }

        def nearest(partition: Partition, offset: int) -> int | None:
            return preferred_replica(partition, offset, selector, rack, racks, now_ms=now_ms)

        return nearest
