"""`Broker`: an Odradek broker, or a cluster of them, for a test.

What few tests use is imported by the methods that need it, so that the first test waits less.
"""

import shutil
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, overload

from odradek.client_configs import (
    ClientConfig,
    ClientName,
    PropertiesConfig,
    PythonClientConfig,
    SparkConfig,
)

from .disks import Disks
from .errors import BrokerFailed, hides
from .faults import Faults
from .journal import Journal
from .lifecycle import Lifecycle
from .network import Network
from .racks import Racks
from .records import Records
from .scratch import Scratch
from .snapshots import Snapshot, Snapshots, copy_directory
from .topics import Topics
from .waits import Waiting

if TYPE_CHECKING:
    from .aio import AsyncBroker
    from .clock import Clock
    from .groups import Groups

__tracebackhide__ = hides
RESET_TIMEOUT_S: Final = 10.0


class Broker(Lifecycle, Records, Waiting, Disks, Racks):
    """A broker, or a cluster of them, on free ports of this machine; a context manager.

    One broker runs in a child process, or with `in_process=True` on a thread of its own. Several
    (`brokers=3`) run together in one child process or thread and share a store, or, with
    `zookeeper="host:port"`, in one process each; `zookeeper="auto"` starts a ZooKeeper for them.
    With `tls=True` clients speak TLS. With `sasl="SCRAM-SHA-512"` (or SCRAM-SHA-256, PLAIN,
    OAUTHBEARER) they log in. With `acls=["User:alice read topic:orders"]` they may do only what the
    ACLs allow (see `acls.py`). `client_config` has what a client needs for it, as the user `admin`,
    who may do everything, or as a user whom `acls` name.
    Without `data_dir`, their files are in a temporary directory that `close` removes; a given
    directory is kept. `settings` are Kafka's: `{"num.partitions": 3}`.
    """

    # -- its state, and the return to an earlier one

    def close(self) -> None:
        """Stop all brokers, and remove their files unless `data_dir` was given.

        Raises: BrokerFailed.
        """
        try:
            if self._disks_are_full:  # the brokers could not write what they write as they end
                with suppress(BrokerFailed):  # one has ended
                    self._resume_paused()
                    self._heal_disks()
        finally:
            super().close()

    def reset(self) -> None:
        """Start and resume what is down, heal network and disks, put all brokers into their racks,
        and delete every topic.

        Raises: BrokerFailed.
        """
        from .admin import delete_all_topics

        self._resume_paused()
        self._network.heal()
        self._heal_disks()
        self.start()
        self._put_back_racks()
        delete_all_topics(self.admin, timeout_s=RESET_TIMEOUT_S)

    def snapshot(self) -> Snapshot:
        """Remember the state: topics, records, groups, transactions, settings, users and ACLs.

        Raises: BrokerFailed, also with ZooKeeper.
        """
        return self._snapshots.take()

    def restore(self, snapshot: Snapshot) -> None:
        """Disconnect all clients, and return to a snapshot of this broker, on the same ports.

        If one is down, or if more has changed than topics, records, groups and transactions, all
        brokers are started again.  Raises: BrokerFailed, TypeError, ValueError.
        """
        self._snapshots.restore(snapshot)

    def fork(self) -> "Broker":
        """A broker with the same state and settings, on ports of its own, that runs; close it.

        Its security is this one's: close it first.  Raises: BrokerFailed.
        """
        twin = Broker(
            settings=self._settings,
            in_process=self._in_process,
            brokers=self._count,
            start_timeout_s=self._start_timeout_s / self._count,
        )
        twin._security = self._security
        twin._scratch = Scratch()
        self._snapshots.copy_now(twin.data_dir)
        twin.start()
        return twin

    @cached_property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self)

    def _enter(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, and have clients come in by other ports from now on.

        Whoever uses this broker between tests goes on with the listeners.
        """
        self._entrance.renew(self._told.addresses)
        self._snapshots.restore(snapshot, ports=self._entrance_ports(), forgets_requests=True)

    def _leave(self) -> None:
        """The end of what `_enter` began; the ports are closed when there are others."""
        self._entrance.close()

    def _put_back(self, directory: Path) -> None:
        """Start all brokers again, on a copy of these files."""
        if self._in_process:
            self._resume_paused()
            self.stop()
        else:
            self.kill()
        if self.data_dir.exists():
            shutil.rmtree(self.data_dir)
        copy_directory(directory, self.data_dir)
        self.start()

    def _clean_up(self) -> None:
        self._snapshots.close()
        super()._clean_up()

    # -- clients

    @overload
    def client_config(
        self, client: Literal["kafka-python", "aiokafka"], *, user: str | None = None
    ) -> PythonClientConfig: ...
    @overload
    def client_config(
        self, client: Literal["confluent", "java"], *, user: str | None = None
    ) -> PropertiesConfig: ...
    @overload
    def client_config(
        self, client: Literal["spark"], *, user: str | None = None
    ) -> SparkConfig: ...
    def client_config(self, client: ClientName, *, user: str | None = None) -> ClientConfig:
        """The configuration with which a client connects to this broker, under its own names.

        Keyword arguments for kafka-python and aiokafka, a dictionary for confluent-kafka,
        properties for Java, options for a Spark reader or writer. With `sasl`, for this user; by
        default for the one that may do everything.

        Raises: ValueError for an unknown client or user.
        """
        return self._access_of(user).config(client, self.bootstrap_servers)

    @property
    def aio(self) -> "AsyncBroker":
        """The blocking calls as coroutines: `await broker.aio.produce("t", b"v")`."""
        from .aio import AsyncBroker  # it imports this module

        return AsyncBroker(self)

    # -- topics, groups, and what tests can break

    prefix = ""
    """What names of topics and groups begin with, if others use these brokers at the same time."""

    def name(self, name: str) -> str:
        """The name of a topic or group as this test must use it: `prefix` and the name."""
        return self.prefix + name

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition; -1 if there is none.

        A partition that was made a moment ago is waited for, shortly.  Raises: BrokerFailed.
        """
        from . import isr

        return isr.leader(self._live_addresses(), self._access, topic, partition)

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics(lambda: self._admins.first)

    @property
    def groups(self) -> "Groups":
        """Its groups."""
        from .groups import Groups

        return Groups(self._admins)

    @property
    def clock(self) -> "Clock":
        """Its clock, which tests can move."""
        from .clock import Clock

        return Clock(self._admins)

    @property
    def network(self) -> Network:
        """The network between its brokers, which tests can break."""
        return self._network

    @property
    def faults(self) -> Faults:
        """The rules by which requests fail, wait or lose their answer."""
        return Faults(self._admins, in_process=self._in_process)

    @property
    def journal(self) -> Journal:
        """The requests of clients."""
        return Journal(self._admins)
