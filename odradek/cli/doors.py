"""Where users and ACLs are kept: a running cluster, ZooKeeper, or a stopped broker's store.

Before the first broker runs, only the latter two are there: a broker whose listeners want a login,
its own included, does not start without a user.
"""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import CoordinationError, Session, Store
from odradek.broker.coordination.json_fields import MalformedZnode
from odradek.broker.coordination.zookeeper import zookeeper_store
from odradek.broker.runtime import Clock, Runtime
from odradek.broker.server import STORE_FILE
from odradek.protocol.errors import Refused
from odradek.storage.directory.meta_properties import META_PROPERTIES
from odradek.storage.errors import StorageError
from odradek.storage.files import RealFileSystem

from .clients import Cluster, cluster_options
from .errors import CommandError
from .layers import OPTION
from .zookeeper_config import TIMEOUT_MS, zookeeper_config_option, zookeeper_settings

T = TypeVar("T")


class Stored:
    """A session of a store, for callers that are not asynchronous."""

    def __init__(self, session: Session, runner: asyncio.Runner, clock: Clock) -> None:
        self.session = session
        self.clock = clock
        self._runner = runner

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call on the session.  Raises: CommandError for what it raises."""
        try:
            return self._runner.run(call)
        except (CoordinationError, MalformedZnode, Refused) as error:
            raise CommandError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Door:
    """One of the three places; without an address of a store it is the cluster."""

    cluster: Cluster
    zookeeper: str | None = None
    zookeeper_config: str | None = None
    data_dir: str | None = None

    @property
    def is_store(self) -> bool:
        """Whether it is ZooKeeper or an embedded store."""
        return self.zookeeper is not None or self.data_dir is not None

    @contextmanager
    def open(self, *, writes: bool) -> Iterator[Stored]:
        """A session of the store, which is created for who `writes`.  Raises: CommandError."""
        with ExitStack() as stack:
            try:
                runtime = Runtime.system()
                stack.callback(runtime.close)
                runner = stack.enter_context(asyncio.Runner())
                store, timeout_ms = self._store(stack, runtime, writes=writes)
                stack.callback(lambda: runner.run(store.close()))
                if isinstance(store, EmbeddedStore):
                    runner.run(store.start())
                session = runner.run(store.open_session(timeout_ms))
            except (CoordinationError, StorageError) as error:
                raise CommandError(str(error)) from error
            yield Stored(session, runner, runtime.clock)

    def _store(self, stack: ExitStack, runtime: Runtime, *, writes: bool) -> tuple[Store, int]:
        """The store, and the timeout of a session there in ms."""
        if self.zookeeper is not None:
            config = zookeeper_settings(self.zookeeper, self.zookeeper_config)
            return zookeeper_store(config), config.zookeeper_session_timeout_ms
        assert self.data_dir is not None
        path = Path(self.data_dir)
        file = path / STORE_FILE
        if not file.exists():
            _check_new(path, writes=writes)
            path.mkdir(parents=True, exist_ok=True)
        stack.callback(RealFileSystem().lock(f"{path}/.lock").release)
        return EmbeddedStore(file, runtime=runtime), TIMEOUT_MS


def door_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the three places to a command, which gets one argument `door`."""

    @click.option(
        "--data-dir",
        metavar="DIR",
        help="The embedded store in this data directory, whose broker must be stopped or not have"
        " run yet.",
    )
    @click.option(
        "--zookeeper",
        metavar="HOST:PORT/CHROOT",
        help="The cluster's nodes in ZooKeeper, as in zookeeper.connect; brokers may run or not.",
    )
    @zookeeper_config_option
    @cluster_options
    @functools.wraps(command)
    def with_door(
        data_dir: str | None,
        zookeeper: str | None,
        zookeeper_config: str | None,
        cluster: Cluster,
        **rest: object,
    ) -> None:
        asked = cluster.sources.get("bootstrap.servers") in ("-b", OPTION)
        names = [
            name
            for name, given in (
                ("--data-dir", data_dir is not None),
                ("--zookeeper", zookeeper is not None),
                ("--bootstrap-server", asked),
            )
            if given
        ]
        if len(names) > 1:
            raise click.UsageError(f"{' and '.join(names)} exclude each other")
        if zookeeper_config is not None and zookeeper is None:
            raise click.UsageError("--zookeeper-config goes with --zookeeper")
        command(door=Door(cluster, zookeeper, zookeeper_config, data_dir), **rest)

    return with_door


def _check_new(path: Path, *, writes: bool) -> None:
    """Check that a directory without a store may get one.  Raises: CommandError."""
    if (path / META_PROPERTIES).exists():
        raise CommandError(
            f"the broker of {path} has no store of its own: it is in ZooKeeper, see --zookeeper"
        )
    if not writes:
        raise CommandError(f"there is no store of Odradek in {path}: {STORE_FILE} is missing")
    try:
        is_other = path.exists() and any(name != ".lock" for name in os.listdir(path))
    except OSError as error:
        raise CommandError(f"{path} is no directory for a broker: {error.strerror}") from None
    if is_other:
        raise CommandError(f"{path} is neither empty nor the data directory of a broker")
