"""The quotas in force on this broker, as they are in the store, and the rates they limit."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .core.client_quotas import IP, Entity
from .core.creation_rate import CreationRates

if TYPE_CHECKING:
    from .config import Config


class Quotas:
    """What clients may use."""

    def __init__(self, config: "Config") -> None:
        samples, window_ms = config.quota_window_num, 1000 * config.quota_window_size_seconds
        self.creation_rates = CreationRates(samples, window_ms)

    def replace(self, entries: Iterable[tuple[Entity, Mapping[str, float]]]) -> None:
        """Take all quotas of the store; others are gone."""
        self.creation_rates.clear_quotas()
        for entity, quotas in entries:
            self.change(entity, quotas)

    def change(self, entity: Entity, quotas: Mapping[str, float]) -> None:
        """Take the quotas of one entity; none: it has no quota any more."""
        if IP in entity:
            self.creation_rates.set_quota(entity[IP], quotas)
