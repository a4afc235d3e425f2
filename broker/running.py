"""The brokers of a process, which has one or several."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .server import Broker

if TYPE_CHECKING:
    from .local_cluster import LocalCluster


def brokers_of(running: "Broker | LocalCluster") -> Mapping[int, Broker]:
    """Those that run, by id."""
    return {running.broker_id: running} if isinstance(running, Broker) else running.brokers


def broker_ids_of(running: "Broker | LocalCluster") -> list[int]:
    """The ids of all, running or not."""
    return [running.broker_id] if isinstance(running, Broker) else running.broker_ids
