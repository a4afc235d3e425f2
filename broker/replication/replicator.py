"""The followers on this broker, and the in-sync sets of the partitions that it leads."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..core.partition import Partition
from ..core.partition_state import TopicPartition
from ..peers.addresses import Peers
from ..slices import Slices
from ..tasks import TaskSupervisor
from .following import Following, fetcher_index

if TYPE_CHECKING:
    from ..local_broker import LocalBroker
    from .fetcher import Fetcher
    from .isr_changes import AsksController, IsrChanges

FetcherId = tuple[int, int]
"""The leader, and the index of the connection to it."""


class Replicator:
    """Fetches for followers, and reports lagging or caught-up followers to the controller.

    The server creates it and spawns `run`; the server's task supervisor ends it.
    """

    def __init__(
        self,
        local: "LocalBroker",
        tasks: TaskSupervisor,
        peers: Peers,
        controller: "AsksController",
    ) -> None:
        self._local = local
        self._tasks = tasks
        self._peers = peers
        self._versions = peers.versions
        self._fetchers: dict[FetcherId, tuple[Fetcher, asyncio.Task[None]]] = {}
        self._controller = controller
        self._assigned: dict[TopicPartition, FetcherId] = {}
        self._isr_changes: IsrChanges | None = None

    # Called for LeaderAndIsr, UpdateMetadata, StopReplica.

    def roles_changed(self, keys: Iterable[TopicPartition]) -> None:
        """LeaderAndIsr has told these partitions to follow a leader, or to lead."""
        followings: dict[FetcherId, list[Following]] = {}
        for key in keys:
            partition = self._local.replicas.partitions.get(key)
            fetcher_id = None if partition is None else self._fetcher_for(key, partition)
            known = self._assigned.get(key)
            if known is not None and known != fetcher_id:
                self._fetchers[known][0].forget(key)
                del self._assigned[key]
            if fetcher_id is None:
                continue
            assert partition is not None
            self._assigned[key] = fetcher_id
            followings.setdefault(fetcher_id, []).append(Following(key, partition))
        for fetcher_id, some in followings.items():
            self._fetcher(fetcher_id).follow(some)
        self._end_idle()

    def stopped(self, keys: Iterable[TopicPartition]) -> None:
        """These partitions are no longer on this broker (StopReplica, a failed directory)."""
        for key in keys:
            fetcher_id = self._assigned.pop(key, None)
            if fetcher_id is not None:
                self._fetchers[fetcher_id][0].forget(key)
        self._end_idle()

    def brokers_changed(self) -> None:
        """UpdateMetadata has brought other live brokers or addresses."""
        self._retry()
        live = self._local.metadata.brokers
        for partition in self._local.replicas.partitions.values():
            if partition.followers:
                partition.wait_for_living(live)

    def settings_changed(self) -> None:
        """The broker's settings have changed: there may be more or fewer fetchers now."""
        moved = [
            key
            for key, fetcher_id in self._assigned.items()
            if fetcher_id[1] != fetcher_index(*key, self._fetcher_count)
        ]
        self.roles_changed(moved)
        self.throttles_changed()

    def throttles_changed(self) -> None:
        """The throttles have changed: what was left out of fetches may be fetched now."""
        self._retry()

    def _retry(self) -> None:
        for fetcher, _ in self._fetchers.values():
            fetcher.retry()

    def _fetcher_for(self, key: TopicPartition, partition: Partition) -> FetcherId | None:
        """None: there is no leader to fetch from."""
        leader = partition.state.leader
        if partition.is_leader or leader < 0:
            return None
        return leader, fetcher_index(*key, self._fetcher_count)

    @property
    def _fetcher_count(self) -> int:
        return max(1, self._local.config.num_replica_fetchers)

    def _fetcher(self, fetcher_id: FetcherId) -> "Fetcher":
        known = self._fetchers.get(fetcher_id)
        if known is not None:
            return known[0]
        from .fetcher import Fetcher  # imported only if there are other brokers

        leader_id, index = fetcher_id
        fetcher = Fetcher(
            self._local,
            self._peers,
            self._versions,
            leader_id,
            index,
        )
        task = self._tasks.spawn(fetcher.run(), f"fetch from {leader_id} ({index})")
        self._fetchers[fetcher_id] = fetcher, task
        return fetcher

    def _end_idle(self) -> None:
        used = set(self._assigned.values())
        for fetcher_id in self._fetchers.keys() - used:
            _, task = self._fetchers.pop(fetcher_id)
            task.cancel()

    # In-sync sets.

    def propose(self, partition: Partition) -> None:
        """Ask the controller for the in-sync set that the partition's leader wants."""
        if self._isr_changes is None:
            from .isr_changes import IsrChanges  # imported only if there are other brokers

            self._isr_changes = IsrChanges(
                self._controller, self._versions, self._tasks, self._local
            )
        self._isr_changes.propose(partition)

    async def run(self) -> None:
        """Look for followers that lag or are gone, forever."""
        while True:
            await asyncio.sleep(max(1, self._local.config.replica_lag_time_max_ms // 2) / 1000)
            await self._look()

    async def _look(self) -> None:
        await self._shrink_isrs()
        self._local.fetch_sessions.slots.end_idle_followers(self._local.clock.now_ms())

    async def _shrink_isrs(self) -> None:
        local, slices = self._local, Slices(self._local.clock)
        lag_max_ms = local.config.replica_lag_time_max_ms
        led = [
            partition
            for partition in local.replicas.partitions.values()
            if partition.is_leader and (partition.followers or partition.has_strangers)
        ]
        for partition in led:
            if partition.shrink_isr(local.clock.now_ms(), lag_max_ms):
                self.propose(partition)
            await slices.step()
