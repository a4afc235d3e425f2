"""Several brokers in one process, for tests and trials: one event loop, one embedded store.

They are brokers like any other: each has its own directory, `broker-N`, and its own listeners, and
communicates with the others over sockets. Only the store, beside their directories, is shared.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from odradek.host_port import PORT_MAX
from odradek.storage.errors import StorageError

from .administration.internal_topics import internal_topic_settings
from .config import Config, ConfigError
from .coordination.embedded import EmbeddedStore
from .coordination.interface import StoreError
from .member.cluster_directory import brokers_in, is_of_one_broker
from .net.endpoints import Endpoint
from .partitions.startup import ProgressBar, no_bar
from .runtime import Runtime
from .server import IS_NOT_LINUX, STORE_FILE, Broker, StartupError

LOCK_FILE: Final = ".lock"
PASSWORD_BITS: Final = 256

Load = Callable[[Mapping[str, str]], Config]
"""Loads a configuration from the user's settings, with these settings overriding them."""


def cluster_configs(
    directory: str, count: int, load: Load, ports: Sequence[int] = ()
) -> list[dict[str, str]]:
    """The settings of each broker that override the given ones: ids and ports count up.

    `ports`, one for each broker, replaces the ports of the first listener.
    Raises: ConfigError.
    """
    first = load({})
    given = first.layers.static
    if "zookeeper.connect" in given:
        raise ConfigError(
            "several brokers of one process share its embedded store; with zookeeper.connect, "
            "start one process for each broker"
        )
    if len(first.data_dirs) > 1:
        raise ConfigError("several brokers of one process have one directory: name only one")
    internal = internal_topic_settings(count)
    shared = {name: value for name, value in internal.items() if name not in given}
    _check_ports(first, count, is_first_given=bool(ports))
    configs = []
    for index in range(count):
        broker_id = first.broker_id + index
        own = {
            "broker.id": str(broker_id),
            "log.dirs": os.path.join(directory, f"broker-{broker_id}"),
            "listeners": _counted_up(first.listener_endpoints, index, ports),
        }
        if first.advertised_listeners is not None:
            own["advertised.listeners"] = _counted_up(first.advertised_endpoints, index)
        configs.append({**shared, **own})
    return configs


def _check_ports(config: Config, count: int, *, is_first_given: bool) -> None:
    """Check that each broker gets its own ports.  Raises: ConfigError."""
    taken: set[int] = set()
    for endpoint in config.listener_endpoints[is_first_given:]:
        if endpoint.port == 0:
            continue
        ports = range(endpoint.port, endpoint.port + count)
        if ports[-1] > PORT_MAX:
            raise ConfigError(
                f"the ports of {count} brokers count up from that of {endpoint}, and end "
                f"at {PORT_MAX}: give a lower one"
            )
        if not taken.isdisjoint(ports):
            raise ConfigError(
                f"the ports of {count} brokers count up from those of {config.listeners}, and "
                "meet: leave room between them"
            )
        taken.update(ports)


def _counted_up(endpoints: Sequence[Endpoint], index: int, ports: Sequence[int] = ()) -> str:
    """The endpoints of the broker with this index; port 0 stays, for any free port."""
    counted = [end._replace(port=end.port + index if end.port else 0) for end in endpoints]
    if ports:
        counted[0] = counted[0]._replace(port=ports[index])
    return ",".join(map(str, counted))


class LocalCluster:
    """The brokers of one process; `start`, then `stop`. Single ones can be stopped or killed, and
    started again."""

    def __init__(
        self,
        directory: str,
        count: int,
        load: Load,
        runtime: Runtime,
        *,
        ports: Sequence[int] = (),
        portable: bool = IS_NOT_LINUX,
        recovery_bar: ProgressBar = no_bar,
    ) -> None:
        """`ports`: see `cluster_configs`.  Raises: ConfigError."""
        self.directory = directory
        self.brokers: dict[int, Broker] = {}
        """The running brokers by id."""
        self._load = load
        self._configs = {
            int(config["broker.id"]): config
            for config in cluster_configs(directory, count, load, ports)
        }
        for config in self._configs.values():
            load(config)  # checks all of them before any broker starts
        self._runtime = runtime
        self._process_password = f"{runtime.random_bits(PASSWORD_BITS):x}"
        self._portable = portable
        self._recovery_bar = recovery_bar
        self._stack = AsyncExitStack()
        self._store: EmbeddedStore | None = None
        self._watching: dict[int, asyncio.Task[None]] = {}
        self._failed: asyncio.Future[str] | None = None

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, running or not."""
        return list(self._configs)

    def data_dir(self, broker_id: int) -> str:
        """The directory of one broker, running or not.  Raises: KeyError."""
        return self._configs[broker_id]["log.dirs"]

    async def start(self) -> None:
        """Start all brokers; return once they serve.  Raises: StartupError."""
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._open_store()
            for broker_id in self._configs:
                await self._join(broker_id)
            for broker in self.brokers.values():
                await broker.begin()
        except (StorageError, StoreError) as error:
            await self.stop()
            raise StartupError(str(error)) from error
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all brokers.  Leadership does not move: the leaders stay the same at the next start.

        Raises: StorageError if not everything could be made durable.
        """
        failure = None
        for broker in self.brokers.values():
            await broker.retire()
        for broker_id in reversed(list(self.brokers)):
            try:
                await self.stop_broker(broker_id)
            except StorageError as error:
                failure = failure or error
        await self._stack.aclose()
        if failure is not None:
            raise failure

    async def start_broker(self, broker_id: int) -> Broker:
        """Start one broker, unless it runs, on the ports that it had before.

        Raises: StartupError, KeyError.
        """
        if broker_id in self.brokers:
            return self.brokers[broker_id]
        broker = await self._join(broker_id)
        try:
            await broker.begin()
        except BaseException:
            self._take(broker_id)
            raise
        return broker

    async def _join(self, broker_id: int) -> Broker:
        own = self._configs[broker_id]
        broker = Broker(
            self._load(own),
            self._runtime,
            store=self._store,
            process_password=self._process_password,
            portable=self._portable,
            recovery_bar=self._recovery_bar,
        )
        await broker.join()
        self._configs[broker_id] = {**own, "listeners": ",".join(map(str, broker.listening))}
        self.brokers[broker_id] = broker
        self._watching[broker_id] = asyncio.create_task(self._watch(broker))
        return broker

    async def stop_broker(self, broker_id: int) -> None:
        """Stop one broker cleanly.  Raises: StorageError, KeyError."""
        await self._take(broker_id).stop()

    async def kill_broker(self, broker_id: int, *, expire: bool = False) -> None:
        """End one broker as `kill -9` would; its session expires after its timeout, or at once."""
        await self._take(broker_id).crash(expire=expire)

    def note_rack(self, broker_id: int, rack: str | None) -> None:
        """Let a broker have this rack when it is started again."""
        self._configs[broker_id]["broker.rack"] = rack or ""

    async def failed(self) -> str:
        """Return once a broker can't continue, with the reason; the caller must stop all."""
        assert self._failed is not None
        return await asyncio.shield(self._failed)

    def _take(self, broker_id: int) -> Broker:
        broker = self.brokers.pop(broker_id)
        self._watching.pop(broker_id).cancel()
        return broker

    async def _watch(self, broker: Broker) -> None:
        reason = await broker.failed()
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(f"broker {broker.broker_id}: {reason}")

    async def _open_store(self) -> None:
        self._check_directory()
        lock = self._runtime.files.lock(os.path.join(self.directory, LOCK_FILE))
        self._stack.callback(lock.release)
        store = EmbeddedStore(os.path.join(self.directory, STORE_FILE), runtime=self._runtime)
        self._stack.push_async_callback(store.close)
        await store.start()
        self._store = store

    def _check_directory(self) -> None:
        try:
            os.makedirs(self.directory, exist_ok=True)
        except OSError as error:
            raise StartupError(f"no directory {self.directory}: {error.strerror}") from error
        if is_of_one_broker(self.directory):
            raise StartupError(
                f"{self.directory} is the directory of a single broker: give several brokers "
                "another one"
            )
        strangers = set(brokers_in(self.directory)) - self._configs.keys()
        if strangers:
            listed = ", ".join(map(str, sorted(strangers)))
            raise StartupError(
                f"{self.directory} also has files of broker {listed}, which would not run: start "
                "all its brokers"
            )
