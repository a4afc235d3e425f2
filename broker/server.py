"""One broker from start to stop: the order in which its parts are opened and closed.

Start: lock the data directory, open the coordination store, agree on the cluster id, load the logs,
bind, register below /brokers/ids, accept connections, find the controller or become it, and get the
roles of the replicas from it. Any failure is one StartupError, a sentence for the operator, and
everything opened so far is closed.

Stop: hand over leadership, stop accepting, close connections, end the background work, close the
session, flush everything, and finally write the marker of a clean shutdown.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from copy import copy
from typing import TYPE_CHECKING, Final

from odradek import __version__
from odradek.protocol.schema import Message
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.errors import StorageError
from odradek.storage.log.log_config import LogConfig

from . import maintenance
from .administration.dynamic_configs import load_broker_configs
from .assembly import assemble
from .away import Away
from .certificates import Certificates
from .cluster.election import KRaftControls
from .config import Config, ConfigError
from .coordination.current import CurrentSession
from .coordination.embedded import EmbeddedStore
from .coordination.interface import CoordinationError, Session, Store
from .listeners import CannotListen, Listeners
from .local_broker import LocalBroker
from .logins import check_own_logins, make_offers
from .maintenance.loop_watch import watch_loop
from .member.cluster_directory import brokers_in
from .member.membership import (
    CannotJoin,
    agree_on_cluster_id,
    check_authorizer,
    make_startup_paths,
    registration_of,
    settle_broker_id,
)
from .member.metadata import MetadataCache
from .metrics.metrics import Metrics
from .net.connections import Connections
from .net.endpoints import Endpoint
from .network.conditions import CLIENTS, STORE
from .node import Node
from .partitions.closing import close_log_dirs
from .partitions.replicas import Replicas, read_overrides
from .partitions.start_warnings import name_old_transactions, name_unknown
from .partitions.startup import ProgressBar, Recovery, no_bar
from .pause import Pause
from .runtime import Runtime
from .sasl.credentials import ScramUsers
from .tasks import TaskSupervisor

if TYPE_CHECKING:
    from .coordination.zookeeper import ZooKeeperStore
    from .network.network import Link, Network

logger = logging.getLogger(__name__)

PAUSED: Final = "paused"
CUT_OFF: Final = "cut off"
STORE_FILE: Final = ".odradek-store.sqlite3"  # Kafka ignores files other than its own
IS_NOT_LINUX: Final = sys.platform != "linux"


class StartupError(Exception):
    """The broker can't start; one sentence for the operator."""


class Broker:
    """A broker; `start`, then `stop`.

    `portable` serves connections through asyncio's transports instead of plain sockets, whose
    system calls only Linux has. `store` is shared by several brokers of one process; without it,
    the store is embedded in the data directory, or ZooKeeper.
    """

    host: str
    port: int
    """The address at which clients reach the first listener; known once started."""
    node: Node
    """The broker as its handlers see it; known once started."""
    connections: Connections
    """The connections of its clients and of other brokers; known once started."""
    store: "EmbeddedStore | ZooKeeperStore"
    """The coordination store; known once started."""

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        *,
        store: EmbeddedStore | None = None,
        process_password: str = "",
        portable: bool = IS_NOT_LINUX,
        recovery_bar: ProgressBar = no_bar,
    ) -> None:
        self.config = copy(config)  # some settings may change while the broker runs
        if store is not None:
            assert process_password, "brokers that share a store log in to each other"
            self.config.share_process(process_password)
        self.broker_id: int = config.broker_id  # -1 may be replaced by another id at start
        self.data_dir: str = config.data_dir
        self.listening: list[Endpoint] = []
        """The endpoints for clients, with their actual ports; known once started."""
        self._runtime = runtime
        self._shared_store = store
        self._has_crashed = False
        self._is_broken = False
        self._has_retired = False
        self._portable = portable
        self._recovery_bar = recovery_bar
        self._scram_users = ScramUsers()
        self._pause = Pause()
        self._away = Away(self.config.zookeeper_session_timeout_ms, self._expire_session)
        self._stack = AsyncExitStack()
        self._failed: asyncio.Future[str] | None = None

    async def start(self) -> None:
        """Start the broker; return once it serves.  Raises: StartupError."""
        await self.join()
        await self.begin()

    async def join(self) -> None:
        """The first half of `start`: load the logs and register the broker.  Raises: StartupError.

        Brokers that start together all join before the first of them begins, so that the controller
        finds all of them and does not move leadership.
        """
        self._failed = asyncio.get_running_loop().create_future()
        await self._closing_on_error(self._join())

    async def begin(self) -> None:
        """The second half of `start`.  Raises: StartupError."""
        await self._closing_on_error(self._begin())

    async def _closing_on_error(self, half: Awaitable[None]) -> None:
        try:
            await half
        except (CannotListen, ConfigError, StorageError, CoordinationError) as error:
            await self._stack.aclose()
            raise StartupError(str(error)) from error
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Stop cleanly.  Raises: StorageError if not everything could be made durable."""
        self.resume()
        self._away.end_all()
        await self._stack.aclose()

    async def retire(self) -> None:
        """Prepare for a stop of all brokers: no controller elections or leadership handover."""
        self._has_retired = True
        self.resume()
        await self._member.retire()

    async def crash(self, *, expire: bool = False) -> None:
        """End as `kill -9` would: reset connections, flush nothing, do not notify other brokers.

        Only for brokers with a shared embedded store. The session in it expires after its timeout,
        or, with `expire`, at once.
        """
        self._has_crashed = True
        assert isinstance(self._shared_store, EmbeddedStore)
        after_ms = 0 if expire else self.config.zookeeper_session_timeout_ms
        self._shared_store.abandon_session(self._session.id, after_ms=after_ms)
        self.connections.reset_all()
        self._pause.end()  # only so that nothing waits
        self._away.end_all()
        await self._stack.aclose()

    def pause(self) -> None:
        """Read and send nothing until `resume`; the session expires at its timeout.

        Only with an embedded store: a client of ZooKeeper has a process that can be stopped.
        """
        if self._pause.is_on:
            return
        assert isinstance(self.store, EmbeddedStore)
        logger.info("broker pauses broker=%d", self.broker_id)
        self._pause.begin()
        self.connections.pause()
        self._away.begin(PAUSED, self._tasks)

    def resume(self) -> None:
        """Go on after `pause`, if there was one."""
        if not self._pause.is_on:
            return
        logger.info("broker resumes broker=%d", self.broker_id)
        self._pause.end()
        self._away.end(PAUSED)
        self.connections.go_on()

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._pause.is_on

    def _follow_network(self, network: "Network") -> None:
        """Do what a test wants of the links to the clients and to the store."""
        to_store = network.link(self.broker_id, STORE)

        def look() -> None:
            if isinstance(self.store, EmbeddedStore):
                if to_store.is_cut:
                    self._away.begin(CUT_OFF, self._tasks)
                else:
                    self._away.end(CUT_OFF)
            elif to_store.is_cut:
                self.store.cut_off()
            else:
                self.store.let_through()

        to_store.watch(look)
        self._stack.callback(to_store.unwatch, look)
        if not self._portable:
            self.connections.follow(network.link(self.broker_id, CLIENTS))

    @property
    def can_be_cut_off_from_clients(self) -> bool:
        """Whether it has its own sockets; asyncio's can't be diverted."""
        return not self._portable

    async def _expire_session(self) -> None:
        assert isinstance(self.store, EmbeddedStore)
        await self.store.expire_session(self._session.id)

    async def open_entrance(self, name: str, host: str, port: int) -> None:
        """Accept clients of the first listener there, too, and no longer at the last entrance.

        Raises: OSError.
        """
        await self._listeners.open_entrance(name, host, port)

    async def failed(self) -> str:
        """Return once the broker can't continue, with the reason; the caller must stop it."""
        assert self._failed is not None
        return await asyncio.shield(self._failed)

    async def ask_controller(self, request: Message, version: int) -> Message:
        """Send the controller a request, wherever it is.  Raises: PeerFailed."""
        return await self._member.ask_controller(request, version)

    async def move_to_rack(self, rack: str | None) -> None:
        """Register with another rack, as a test wants it.  Raises: CoordinationError."""
        self.config.move_to_rack(rack)
        await self._member.move_to_rack(rack)

    @property
    def _has_own_store(self) -> bool:
        """Whether the broker is alone, as no other one uses its embedded store."""
        return self._shared_store is None and self.config.zookeeper_connect is None

    def _fail(self, reason: str) -> None:
        """End the broker because something in it is broken: no flush, no clean shutdown marker."""
        self._is_broken = True
        self._end(reason)

    def _end(self, reason: str) -> None:
        """End the broker; its log directories are closed cleanly if they are all right."""
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(reason)

    async def _join(self) -> None:
        runtime, stack = self._runtime, self._stack
        if brokers_in(self.config.data_dir):
            raise StartupError(
                f"{self.config.data_dir} is the directory of several brokers, which run in one "
                "process: start them with --brokers"
            )
        log_dirs = LogDirs.lock(
            self.config.data_dirs,
            runtime.files,
            needs_first=self._has_own_store,
            boot_id=runtime.boot_id(),
        )
        logger.info(
            "broker starts version=%s directories=%s", __version__, ",".join(self.config.data_dirs)
        )
        # Until the logs are loaded, there is nothing to flush and no marker must be written.
        stack.push_async_callback(self._close_log_dirs, log_dirs)
        session = self._session = await self._open_session(log_dirs)
        await check_authorizer(self.config, session)
        await make_startup_paths(session)
        owner = log_dirs.stored_owner()
        self.broker_id = await settle_broker_id(self.config, owner, session)
        await load_broker_configs(self.config, session, self.broker_id, runtime.random_bytes)
        # Before the logs, whose recovery may take long.
        self._certificates = Certificates(self.config, runtime)
        cluster_id = await agree_on_cluster_id(
            session,
            None if owner is None else owner.cluster_id,
            runtime.random.randbytes,
            is_own_store=self.config.zookeeper_connect is None,
        )
        self._offers = await make_offers(self.config, self._scram_users, session, runtime)
        log_dirs.identify(self.broker_id, cluster_id)
        config_of = await self._log_configs(session)
        recovery = Recovery(
            config_of, runtime, jobs_max=self.config.num_recovery_threads_per_data_dir
        )
        await recovery.run(log_dirs.online, self._recovery_bar)
        log_dirs.load(config_of, runtime.clock.wall_ms())
        node = await self._make_node(log_dirs, cluster_id, session)
        if node.acls is not None:
            await node.acls.load()
        await self._bind(node)
        await self._register(node, session)

    async def _open_session(self, log_dirs: LogDirs) -> CurrentSession:
        runtime, config = self._runtime, self.config
        network = runtime.network
        if network is not None and network.is_cut(config.broker_id, STORE):
            raise StartupError("a test has cut it off from the store: heal the network first")
        store: EmbeddedStore | ZooKeeperStore
        if self._shared_store is not None:
            store = self._shared_store
        elif config.zookeeper_connect is not None:
            from .coordination.zookeeper import zookeeper_store

            store = zookeeper_store(config)
            self._stack.push_async_callback(store.close)
        else:
            embedded = EmbeddedStore(f"{log_dirs.first.path}/{STORE_FILE}", runtime=runtime)
            # Before it is opened, so that it is closed even if `start` is cancelled meanwhile.
            self._stack.push_async_callback(embedded.close)
            await embedded.start()
            store = embedded
        session = CurrentSession(
            store if network is None else _distant(store, network.link(config.broker_id, STORE)),
            config.zookeeper_session_timeout_ms,
            on_failure=self._on_session_end,
            pause=self._away.pause,
        )
        self.store = store
        self._stack.push_async_callback(session.close)
        await session.open()
        return session

    async def _close_log_dirs(self, log_dirs: LogDirs) -> None:
        """Flush and mark as clean; if something is broken or not loaded, close without writing."""
        if log_dirs.is_loaded and not (self._is_broken or self._has_crashed):
            await close_log_dirs(log_dirs, self._runtime.offload)
            logger.info("broker stopped cleanly broker=%d", self.broker_id)
        else:
            log_dirs.abandon()

    def _has_failed(self) -> bool:
        return self._failed is not None and self._failed.done()

    def _on_session_end(self, error: CoordinationError) -> None:
        if isinstance(error, CannotJoin | KRaftControls):
            self._end(str(error))
        else:
            self._fail(f"the coordination store is lost: {error}")

    async def _log_configs(self, session: Session) -> Callable[[str], LogConfig]:
        """Read the log settings of all topics; returns a function that gives those of a topic."""
        made = {
            topic: self.config.topic_config(await read_overrides(topic, session)).log_config
            for topic in await session.children("/config/topics")
        }
        plain = self.config.topic_config().log_config
        return lambda topic: made.get(topic, plain)

    async def _make_node(self, log_dirs: LogDirs, cluster_id: str, session: CurrentSession) -> Node:
        config, runtime = self.config, self._runtime
        tasks = TaskSupervisor(lambda name, error: self._fail(f"task {name} failed: {error}"))
        self._stack.push_async_callback(tasks.close)
        self._tasks = tasks
        if config.odradek_admin_listener and runtime.interceptor is None:
            from .faults.interceptor import interceptor_for  # only tests need it

            frames_bytes_max = config.odradek_journal_frames_bytes
            runtime.interceptor = interceptor_for(runtime, frames_bytes_max=frames_bytes_max)
        metrics = Metrics()
        metrics.counters.add_all_loaded(log_dirs)
        replicas = Replicas(
            log_dirs,
            config,
            runtime,
            tasks,
            broker_id=self.broker_id,
            counters=metrics.counters,
            on_offline=self._fail,
        )
        local = LocalBroker(
            config,
            runtime,
            broker_id=self.broker_id,
            is_alone=self._has_own_store,
            metadata=MetadataCache(cluster_id),
            metrics=metrics,
            replicas=replicas,
            scram_users=self._scram_users,
        )
        node, self._member = assemble(
            local, session, tasks, self._certificates.securities, self._pause
        )
        self._stack.callback(node.loggers.reset_all)
        self._stack.callback(node.groups.close)
        self._stack.callback(node.transactions.close)
        self._stack.callback(node.verifier.close)
        for data_dir in log_dirs.online:
            for plan in data_dir.deleted_plans():
                replicas.deletions.add(plan, config.log_segment_delete_delay_ms)
        return node

    async def _bind(self, node: Node) -> None:
        connections = self.connections = Connections(self.config, self._runtime, node, self._offers)
        node.metrics.add_gauges({"connection_count": connections.__len__})
        self._stack.callback(connections.close_all)
        self._tasks.spawn(connections.sweep_forever(), "sweep connections")
        self._tasks.spawn(connections.shares.watch(), "watch for floods")
        for offer in self._offers.values():
            if offer.keys is not None:
                self._tasks.spawn(offer.keys.refresh_forever(), "refresh keys of tokens")
        configs = node.dynamic_configs
        certificates, config = self._certificates, self.config
        configs.on_broker_changed.append(connections.admission.limits_changed)
        configs.after_broker_changed.append(lambda: certificates.renew(config, rereads=False))
        configs.on_own_written.append(lambda: certificates.renew(config, rereads=True))
        configs.broker_checks.append(certificates.check)
        if self._runtime.network is not None:
            self._follow_network(self._runtime.network)
        self._listeners = Listeners(connections, config, certificates, portable=self._portable)
        self._stack.callback(self._listeners.close)
        await self._listeners.bind()

    async def _register(self, node: Node, session: CurrentSession) -> None:
        """Register the broker, and accept connections."""
        config, runtime = self.config, self._runtime
        ports = {listener.name: listener.port for listener in self._listeners}
        self.listening = [end._replace(port=ports[end.name]) for end in config.listener_endpoints]
        registration = registration_of(
            config, ports, own_host=socket.gethostname(), wall_ms=runtime.clock.wall_ms()
        )
        self.host, self.port = registration.endpoints[0].host, registration.endpoints[0].port
        self.node = node
        self._stack.callback(self._member.end)
        watch = watch_loop(config, runtime, node.metrics.counters)
        self._tasks.spawn(watch, "watch the loop")
        checkpoints = maintenance.write_checkpoints(node.replicas, config, runtime)
        self._tasks.spawn(checkpoints, "write checkpoints")
        await node.dynamic_configs.load_scram_users()
        await check_own_logins(self._certificates.securities, self._offers, self._tasks)
        await self._member.register(registration)
        await node.dynamic_configs.load_quotas()
        await self._listeners.accept()

    async def _begin(self) -> None:
        """Return once the controller has sent the roles of the replicas."""
        node = self.node
        await self._member.begin()
        self._stack.push_async_callback(self._hand_over)
        self._tasks.spawn(node.groups.expire_forever(), "expire offsets")
        for name, loop in maintenance.loops(node.replicas, self.config, self._runtime).items():
            self._tasks.spawn(loop, name)
        if node.controller.is_active:
            name_unknown(node.replicas)
        name_old_transactions(
            node.replicas,
            open_ms_max=self.config.transaction_max_timeout_ms,
            wall_ms=self._runtime.clock.wall_ms(),
        )

    async def _hand_over(self) -> None:
        if self._has_failed() or self._has_crashed or self._has_retired:
            return
        network, controller_id = self._runtime.network, self.node.metadata.controller_id
        if network is not None and network.is_cut(self.broker_id, controller_id):
            # Its tries would last for 3 * controller.socket.timeout.ms, and be in vain.
            logger.warning("no controlled shutdown: a test has cut the link to the controller")
            return
        await self._member.hand_over()


def _distant(store: Store, link: "Link") -> Store:
    from .coordination.distant import DistantStore  # only tests need it

    return DistantStore(store, link)
