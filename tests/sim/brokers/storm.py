"""What befalls a simulated cluster: faults, and admin clients who change it meanwhile."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.sim.client import ErrorAnswer
from tests.sim.process import HOST
from tests.sim.storage_client import StorageClient
from tests.support.messages import creatable

from .clients import EVENTS, TABLE
from .cluster import SimCluster

SHORT: Final = "short"
"""A topic that comes and goes."""
ENOUGH: Final = {"kill": 3, "hold": 1, "session": 1}
"""A storm has at least so many of these."""
ACTIONS_MAX: Final = 200
PAUSES_S: Final = ((0.01, 0.2), (0.05, 0.5), (0.2, 1.0))
HOLD_MS: Final = (100, 1_500)
HOUR_MS: Final = 3_600_000
TIMEOUT_MS: Final = 5_000
ALL: Final = -1


class Fault(NamedTuple):
    """A kind of fault, how often it happens beside the others, and which brokers it may strike."""

    name: str
    weight: int
    candidates: Callable[[], Sequence[int]]
    strike: Callable[[int], Awaitable[object]]
    kills: int = 0


class Storm:
    """Faults in any order, until there were enough of each kind."""

    def __init__(self, cluster: SimCluster, partitions: int) -> None:
        self.happened: Counter[str] = Counter()
        self.is_over = False
        self._cluster = cluster
        self._partitions = partitions
        self._random = cluster.loop.random
        self._pause_s = self._random.choice(PAUSES_S)

    # Faults.

    async def rage(self, actions: int) -> None:
        """So many faults and more, until there were enough of each kind."""
        faults = self._faults()
        weights = [fault.weight for fault in faults]
        for number in range(ACTIONS_MAX):
            if number >= actions and self.happened >= Counter(ENOUGH):
                return
            await asyncio.sleep(self._random.uniform(*self._pause_s))
            [fault] = self._random.choices(faults, weights)
            candidates = fault.candidates()
            if candidates:
                await fault.strike(self._random.choice(candidates))
                self.happened[fault.name] += 1
                self.happened["kill"] += fault.kills
        raise AssertionError(f"so much does not happen: {self.happened}")

    def _faults(self) -> Sequence["Fault"]:
        running, all_of_them = self._running, self._everybody
        return (
            Fault("kill", 5, running, self._kill),
            Fault("stop", 2, running, self._cluster.stop_broker),
            Fault("start", 10, self._down, self._cluster.start_broker),
            Fault("bounce", 3, running, self._bounce, kills=1),
            Fault("session", 3, running, self._cluster.end_session),
            Fault("controller", 1, all_of_them, self._delete_controller),
            Fault("kill controller", 1, self._controllers, self._kill_controller, kills=1),
            Fault("hold", 4, running, self._hold),
            Fault("process", 1, all_of_them, self._crash),
            Fault("clock", 1, all_of_them, self._move_clock),
        )

    # Whom they may strike.

    def _running(self) -> Sequence[int]:
        return list(self._cluster.brokers)

    def _down(self) -> Sequence[int]:
        return sorted(set(self._cluster.ports) - set(self._cluster.brokers))

    def _controllers(self) -> Sequence[int]:
        return self._cluster.controllers[:1]

    def _everybody(self) -> Sequence[int]:
        """All brokers at once: whichever is chosen."""
        return (ALL,)

    # What they do.

    async def _kill(self, broker_id: int) -> None:
        await self._cluster.kill_broker(broker_id, expire=self._random.random() < 0.5)

    async def _bounce(self, broker_id: int) -> None:
        """Kill one; it is back while its old session may still be there."""
        await self._cluster.kill_broker(broker_id, expire=self._random.random() < 0.3)
        await self._cluster.start_broker(broker_id)

    async def _kill_controller(self, broker_id: int) -> None:
        await self._cluster.kill_broker(broker_id, expire=True)

    async def _delete_controller(self, _: int) -> None:
        await self._cluster.delete_controller()

    async def _hold(self, broker_id: int) -> None:
        self._cluster.hold(broker_id, self._random.randint(*HOLD_MS))

    async def _crash(self, _: int) -> None:
        self._cluster.crash()
        await self._cluster.start()

    async def _move_clock(self, _: int) -> None:
        self._cluster.clock.move_wall(self._random.choice((-HOUR_MS, HOUR_MS)))

    async def calm(self) -> None:
        """Start whoever is down."""
        self.is_over = True
        for broker_id in self._cluster.ports:
            await self._cluster.start_broker(broker_id)

    # Admin clients.

    async def administer(self) -> None:
        """Change something now and then, until the storm is over; who is refused tries again."""
        choices = (
            self._create,
            self._delete,
            self._extend,
            self._reassign,
            self._reassign,
            self._elect,
            self._configure,
        )
        while not self.is_over:
            await asyncio.sleep(self._random.uniform(0.05, 0.6))
            with contextlib.suppress(ConnectionError, TimeoutError, ErrorAnswer):
                client = await StorageClient.connect(self._cluster.controller_port, HOST)
                try:
                    await self._random.choice(choices)(client)
                finally:
                    await client.close()

    def _replicas(self) -> list[int]:
        ids = list(self._cluster.ports)
        return self._random.sample(ids, self._random.randint(2, len(ids)))

    async def _create(self, client: StorageClient) -> None:
        topic = creatable(SHORT, self._random.randint(1, 3), factor=self._random.randint(1, 3))
        await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7)

    async def _delete(self, client: StorageClient) -> None:
        await client.remove_topic(SHORT)

    async def _extend(self, client: StorageClient) -> None:
        topic = CreatePartitionsTopic(name=SHORT, count=self._random.randint(2, 4))
        await client.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 3)

    async def _reassign(self, client: StorageClient) -> None:
        name, count = self._random.choice(((EVENTS, self._partitions), (TABLE, 1), (SHORT, 1)))
        target = None if self._random.random() < 0.2 else self._replicas()
        partition = ReassignablePartition(
            partition_index=self._random.randrange(count), replicas=target
        )
        topics = [ReassignableTopic(name=name, partitions=[partition])]
        request = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics)
        await client.ask(request, 0)

    async def _elect(self, client: StorageClient) -> None:
        await client.ask(
            ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS), 2
        )

    async def _configure(self, client: StorageClient) -> None:
        size = self._random.choice((None, "700", "5000"))
        await client.configure(self._random.choice((EVENTS, TABLE)), "segment.bytes", size)
