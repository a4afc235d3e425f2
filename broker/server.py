"""One broker from start to stop: what is opened in which order, and what is closed after it.

Start: lock the data directory, open the coordination store, agree on the cluster id, load the logs,
bind, register below /brokers/ids, become controller and let it name the leaders, accept. Whatever
fails on the way is one StartupError, a sentence for the operator; all that was opened is closed.

Stop: accept no more, hang up, end the background work, give up the session, then flush everything
and write the marker of a clean shutdown, last of all.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from copy import copy
from typing import Final

from odradek.storage.errors import StorageError
from odradek.storage.log_config import LogConfig
from odradek.storage.log_dirs import LogDirs

from . import maintenance
from .channel import LocalChannel
from .client_quotas import ClientQuotas
from .closing import close_log_dirs
from .config import Config, ConfigError
from .connections import Connections
from .control import ControlRequests
from .controller import Controller
from .coordination import znodes
from .coordination.embedded import EmbeddedStore
from .coordination.interface import CoordinationError, Session
from .core.partition_state import TopicPartition
from .core.topic_names import GROUP_OFFSETS_TOPIC
from .dynamic_configs import DynamicConfigs, load_broker_configs
from .group_coordinator import GroupCoordinator
from .listener import Listener, PlainListener, StreamListener
from .membership import (
    Membership,
    agree_on_cluster_id,
    make_startup_paths,
    registration_of,
    settle_broker_id,
)
from .metadata import MetadataCache
from .node import Node
from .producer_ids import ProducerIds
from .recovery import ProgressBar, Recovery, no_bar
from .replicas import Replicas, read_overrides
from .runtime import Runtime
from .tasks import TaskSupervisor
from .topics import Topics

log = logging.getLogger(__name__)

STORE_FILE: Final = ".odradek-store.sqlite3"  # Kafka looks at directories and at its own files only
SESSION_TIMEOUT_MS: Final = 18_000
IS_NOT_LINUX: Final = sys.platform != "linux"


class StartupError(Exception):
    """The broker can't start; one sentence for the operator."""


class Broker:
    """A broker; `start`, then `stop`.

    `portable` serves connections through asyncio's transports instead of sockets of their own,
    whose system calls only Linux has.
    """

    host: str
    port: int
    """Where the first listener is reached by clients; known once started."""

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        *,
        portable: bool = IS_NOT_LINUX,
        recovery_bar: ProgressBar = no_bar,
    ) -> None:
        self.config = copy(config)  # some of it may change while the broker runs
        self.broker_id: int = config.broker_id  # -1 may become another when it starts
        self.data_dir: str = config.data_dir
        self._runtime = runtime
        self._portable = portable
        self._recovery_bar = recovery_bar
        self._stack = AsyncExitStack()
        self._failed: asyncio.Future[str] | None = None

    async def start(self) -> None:
        """Return once it serves.  Raises: StartupError."""
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except (ConfigError, StorageError, CoordinationError) as error:
            await self._stack.aclose()
            raise StartupError(str(error)) from error
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Stop cleanly.  Raises: StorageError if not everything could be made durable."""
        await self._stack.aclose()

    async def failed(self) -> str:
        """Return once the broker can't go on by itself, with the reason; the caller stops it."""
        assert self._failed is not None
        return await asyncio.shield(self._failed)

    def _fail(self, reason: str) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(reason)

    async def _start(self) -> None:
        runtime, stack = self._runtime, self._stack
        log_dirs = LogDirs.lock(self.config.data_dirs, runtime.files)
        # Until the logs are loaded there is nothing to flush, and no right to a marker.
        stack.push_async_callback(self._close_log_dirs, log_dirs)
        store = EmbeddedStore(f"{log_dirs.first.path}/{STORE_FILE}", runtime=runtime)
        stack.push_async_callback(store.close)  # also if we are cancelled while a thread opens it
        await store.start()
        session = await store.open_session(SESSION_TIMEOUT_MS, self._on_session_end)
        stack.push_async_callback(session.close)
        await make_startup_paths(session)
        owner = log_dirs.stored_owner()
        self.broker_id = await settle_broker_id(self.config, owner, session)
        await load_broker_configs(self.config, session, self.broker_id)
        cluster_id = await agree_on_cluster_id(
            session, None if owner is None else owner.cluster_id, runtime.random.randbytes
        )
        log_dirs.identify(self.broker_id, cluster_id)
        config_of = await self._log_configs(session)
        recovery = Recovery(
            config_of, runtime, jobs_max=self.config.num_recovery_threads_per_data_dir
        )
        await recovery.run(log_dirs.online, self._recovery_bar)
        log_dirs.load(config_of, runtime.clock.wall_ms())
        node = await self._make_node(log_dirs, cluster_id, session)
        listeners = await self._bind(node)
        await self._join(node, session, listeners)
        for listener in listeners:
            await listener.accept()

    async def _close_log_dirs(self, log_dirs: LogDirs) -> None:
        """Flush and mark as clean, unless something went wrong before or with it."""
        if log_dirs.is_loaded and not self._has_failed():
            await close_log_dirs(log_dirs, self._runtime.offload)
        else:
            log_dirs.abandon()

    def _has_failed(self) -> bool:
        return self._failed is not None and self._failed.done()

    def _on_session_end(self, error: CoordinationError) -> None:
        self._fail(f"the coordination store is lost: {error}")

    async def _log_configs(self, session: Session) -> Callable[[str], LogConfig]:
        """The log settings of each topic."""
        made = {
            topic: self.config.topic_config(await read_overrides(topic, session)).log_config
            for topic in await session.children("/config/topics")
        }
        plain = self.config.topic_config().log_config
        return lambda topic: made.get(topic, plain)

    async def _make_node(self, log_dirs: LogDirs, cluster_id: str, session: Session) -> Node:
        config, runtime = self.config, self._runtime
        tasks = TaskSupervisor(lambda name, error: self._fail(f"task {name} failed: {error}"))
        self._stack.push_async_callback(tasks.close)
        self._tasks = tasks
        replicas = Replicas(
            log_dirs, config, runtime, tasks, broker_id=self.broker_id, on_offline=self._fail
        )
        replicas.counters.add_all_loaded(log_dirs)
        metadata = MetadataCache(cluster_id)
        node = Node(config, runtime, broker_id=self.broker_id, metadata=metadata, replicas=replicas)
        self._stack.callback(node.loggers.reset_all)
        node.topics = Topics(node, session)
        node.dynamic_configs = DynamicConfigs(node, session)
        node.client_quotas = ClientQuotas(session)
        node.groups = GroupCoordinator(node, tasks)
        self._stack.callback(node.groups.close)
        for data_dir in log_dirs.online:
            for plan in data_dir.deleted_plans():
                replicas.deletions.add(plan, config.log_segment_delete_delay_ms)
        return node

    async def _bind(self, node: Node) -> list[Listener]:
        connections = Connections(self.config, self._runtime, node)
        self._stack.callback(connections.close_all)
        self._tasks.spawn(connections.sweep_forever(), "sweep connections")
        node.dynamic_configs.on_broker_changed.append(connections.limits_changed)
        listeners: list[Listener] = []
        for endpoint in self.config.listener_endpoints:
            kind = StreamListener if self._portable else PlainListener
            listener = kind(connections, endpoint, self.config)
            try:
                await listener.bind()
            except OSError as error:
                raise StartupError(
                    f"cannot listen on {endpoint}: {error.strerror or error}"
                ) from error
            self._stack.callback(listener.close)
            listeners.append(listener)
        return listeners

    async def _join(self, node: Node, session: Session, listeners: Sequence[Listener]) -> None:
        """Become visible, become controller, and wait for it to name the leaders."""
        runtime = self._runtime
        ports = {listener.name: listener.port for listener in listeners}
        registration = registration_of(
            self.config, ports, own_host=socket.gethostname(), wall_ms=runtime.clock.wall_ms()
        )
        self.host, self.port = registration.endpoints[0].host, registration.endpoints[0].port
        membership = Membership(session, self.broker_id, session_timeout_ms=SESSION_TIMEOUT_MS)
        await membership.register(registration)
        node.control = ControlRequests(node, session)
        channel = LocalChannel(node, session)
        controller = Controller(session, channel, self.broker_id, runtime.clock)
        node.controller = controller
        node.producer_ids = ProducerIds(controller.allocate_producer_ids)
        await node.dynamic_configs.load()
        self._tasks.spawn(node.dynamic_configs.run(), "config changes")
        node.replicas.on_log_dir_failed = lambda offline: self._log_dir_failed(
            offline, node, session
        )
        upkeep = node.replicas, self.config, runtime
        self._tasks.spawn(maintenance.write_checkpoints(*upkeep), "write checkpoints")
        await controller.elect()
        await controller.take_over()
        self._tasks.spawn(controller.run(), "controller")
        self._tasks.spawn(node.groups.expire_forever(), "expire offsets")
        for name, loop in maintenance.loops(*upkeep).items():
            self._tasks.spawn(loop, name)
        self._name_unknown(node)

    def _log_dir_failed(
        self, offline: Collection[TopicPartition], node: Node, session: Session
    ) -> None:
        """Resign from groups whose log is gone, and have the controller ask what is left."""
        node.groups.resign_partitions([p for topic, p in offline if topic == GROUP_OFFSETS_TOPIC])

        async def tell() -> None:
            event = znodes.LogDirEvent(self.broker_id).encode()
            await session.create(znodes.LOG_DIR_EVENT_PREFIX, event, sequential=True)

        self._tasks.spawn(tell(), "log directory failed")

    def _name_unknown(self, node: Node) -> None:
        for kept in node.replicas.log_dirs.all_logs():
            if (kept.topic, kept.partition) not in node.replicas.partitions:
                log.warning(
                    "partition directory left alone directory=%s reason=the store does not know it",
                    kept.directory,
                )
