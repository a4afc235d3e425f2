"""What the resources of the admin API may touch."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..faults.disks import BreakableFiles
from ..movable_clock import MovableClock
from ..running import broker_ids_of, brokers_of
from ..server import Broker

if TYPE_CHECKING:
    from ..faults.interceptor import Interceptor
    from ..local_cluster import LocalCluster
    from ..network.conditions import End
    from ..network.network import Network
    from ..runtime import Runtime
    from ..snapshots.snapshots import Snapshots


@dataclass(slots=True, kw_only=True)
class Controls:
    """The brokers of this process, and what they share."""

    running: "Broker | LocalCluster"
    runtime: "Runtime"
    changing_brokers: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a broker is started or ended, so that no two requests do so at once."""
    snapshots: "Snapshots | None" = None
    """Once there is one."""
    racks_before: dict[int, str | None] = field(default_factory=dict)
    """Of brokers that were put into another rack."""

    @property
    def clock(self) -> MovableClock:
        """The brokers' clock."""
        assert isinstance(self.runtime.clock, MovableClock)
        return self.runtime.clock

    @property
    def network(self) -> "Network":
        """The links between the brokers."""
        assert self.runtime.network is not None
        return self.runtime.network

    @property
    def has_good_network(self) -> bool:
        """Whether no link is cut or slow."""
        network = self.runtime.network
        return network is None or network.is_good

    def is_cut(self, broker_id: int, end: "End") -> bool:
        """Whether a test has cut the link between a broker and another one, or the store."""
        network = self.runtime.network
        return network is not None and network.is_cut(broker_id, end)

    @property
    def uses_zookeeper(self) -> bool:
        """Whether there may be other brokers, in other processes."""
        return isinstance(self.running, Broker) and bool(self.running.config.zookeeper_connect)

    @property
    def disks(self) -> BreakableFiles:
        """The brokers' disks."""
        assert isinstance(self.runtime.files, BreakableFiles)
        return self.runtime.files

    @property
    def cluster(self) -> "LocalCluster | None":
        """The cluster, if this process has several brokers."""
        return None if isinstance(self.running, Broker) else self.running

    @property
    def interceptor(self) -> "Interceptor":
        """The rules by which requests fail, and their journal."""
        assert self.runtime.interceptor is not None  # brokers with an admin API have one
        return self.runtime.interceptor

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The running brokers by id."""
        return brokers_of(self.running)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, running or not."""
        return broker_ids_of(self.running)

    def log_dirs(self, broker_id: int) -> list[str]:
        """The absolute paths of a broker's log directories."""
        if isinstance(self.running, Broker):
            paths = self.running.config.data_dirs
        else:
            paths = (self.running.data_dir(broker_id),)
        return [os.path.abspath(path) for path in paths]
