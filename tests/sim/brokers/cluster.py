"""All brokers of a cluster as one simulated process, each of which dies and comes back."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from unittest import mock

from odradek.broker import local_cluster
from odradek.broker.config import Config, load_config
from odradek.broker.coordination.interface import Delete
from odradek.broker.coordination.tree import Tree
from odradek.broker.coordination.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    decode_controller_epoch,
)
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.net.endpoints import PRIVATE
from odradek.broker.node import Node
from odradek.broker.server import Broker
from tests.sim.broker import SETTINGS
from tests.sim.loop import SimLoop
from tests.sim.process import HOST, SimProcess

from .states import WatchedStore

SESSION_MS: Final = 1_000


class SimCluster:
    """A `LocalCluster` that may be killed as a whole, too; clients reach it at the same ports."""

    def __init__(
        self, loop: SimLoop, directory: Path, count: int, settings: Mapping[str, str]
    ) -> None:
        self.loop = loop
        self._process = SimProcess(loop, "cluster", directory)
        self.clock = self._process.clock
        self._count = count
        self._settings = {
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            **SETTINGS,
            **settings,
        }
        self.ports: dict[int, int] = {}
        """Where clients reach each broker, running or not."""
        self.is_up = False
        self._cluster: LocalCluster | None = None
        self._store: WatchedStore | None = None

    # All at once.

    async def start(self) -> None:
        """Start the process; return when all brokers serve."""
        runtime = self._process.begin()
        cluster = self._cluster = LocalCluster(
            str(self._process.directory),
            self._count,
            self._load,
            runtime,
            ports=list(self.ports.values()),
            portable=True,
        )
        with mock.patch.object(local_cluster, "EmbeddedStore", self._make_store):
            await self._process.run(cluster.start())
        assert cluster._failed is not None
        cluster._failed.add_done_callback(_raise_why)
        self.ports = {broker_id: broker.port for broker_id, broker in cluster.brokers.items()}
        self.is_up = True

    def _load(self, own: Mapping[str, str]) -> Config:
        listeners = {"listeners": f"PLAINTEXT://{HOST}:0"}
        return load_config(overrides={**listeners, **self._settings, **own})

    def _make_store(self, path: str, **options: object) -> WatchedStore:
        self._store = WatchedStore(path, self._store, **options)
        return self._store

    async def stop(self) -> None:
        """Stop all brokers in good order."""
        self.is_up = False
        await self._process.run(self._running.stop())
        self._process.end()

    def crash(self) -> None:
        """Kill the process: all brokers, and the store, in the middle of what they do."""
        self.is_up = False
        self._process.crash()

    # One broker.

    async def start_broker(self, broker_id: int) -> None:
        """Start one, unless it runs."""
        await self._process.run(self._running.start_broker(broker_id))

    async def stop_broker(self, broker_id: int) -> None:
        """Stop one in good order: others lead for it."""
        await self._process.run(self._running.stop_broker(broker_id))

    async def kill_broker(self, broker_id: int, *, expire: bool) -> None:
        """End one as `kill -9` would; its session ends later, or with `expire` at once."""
        await self._process.run(self._running.kill_broker(broker_id, expire=expire))

    async def end_session(self, broker_id: int) -> None:
        """Expire the session of a broker that goes on."""
        session_id = self.brokers[broker_id]._session.id
        await self._process.run(self.store.expire_session(session_id))

    async def delete_controller(self) -> None:
        """Delete /controller, as an operator may; who was it goes on until it hears of that."""
        if self.tree.exists(CONTROLLER) is None:
            return
        session = await self._process.run(self.store.open_session(SESSION_MS))
        await self._process.run(session.multi([Delete(CONTROLLER)]))
        await self._process.run(session.close())

    def hold(self, broker_id: int, for_ms: int) -> None:
        """Let nothing through to the listener by which other brokers reach one."""
        known = self.node(broker_id).metadata.brokers.get(broker_id)
        if known is not None:
            port = known.endpoints[PRIVATE.name].port
            self.loop.network.hold(port, for_ms * 1_000_000)

    # What there is.

    @property
    def brokers(self) -> dict[int, Broker]:
        """Those that run, by id."""
        return self._running.brokers if self.is_up else {}

    @property
    def store(self) -> WatchedStore:
        """The store that the brokers share."""
        assert self._store is not None
        return self._store

    @property
    def tree(self) -> Tree:
        """All nodes of the store."""
        return self.store.tree

    @property
    def controller_epoch(self) -> int:
        """How many controllers there were."""
        return decode_controller_epoch(self.tree.get(CONTROLLER_EPOCH)[0])

    def node(self, broker_id: int) -> Node:
        """What the handlers of a running broker see."""
        return self.brokers[broker_id].node

    @property
    def port(self) -> int:
        """Where any broker takes clients, or may do so again."""
        running = [broker_id for broker_id in self.brokers if broker_id in self.ports]
        return self.ports[self.loop.random.choice(running or list(self.ports))]

    @property
    def controllers(self) -> list[int]:
        """Who acts as controller: one broker, none, or a deposed one that has not heard of it."""
        return [each for each in self.brokers if self.node(each).controller.is_active]

    @property
    def controller_port(self) -> int:
        """Where the controller takes clients, or anybody if there is none."""
        active = self.controllers
        return self.ports.get(active[0], self.port) if active else self.port

    @property
    def _running(self) -> LocalCluster:
        assert self._cluster is not None
        return self._cluster


def _raise_why(failed: "asyncio.Future[str]") -> None:
    """End the simulation: a broker cannot go on, though nobody has ended it."""
    raise AssertionError(failed.result())
