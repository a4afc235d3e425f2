"""`Broker`: an Odradek broker, or a cluster of them, for a test."""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, overload

from odradek.client_configs import (
    ClientConfig,
    ClientName,
    PropertiesConfig,
    PythonClientConfig,
    SparkConfig,
)

from . import isr
from .access import ClientAccess
from .admin import delete_all_topics
from .beside import beside_the_loop
from .child import ChildBroker
from .child_cluster import ChildCluster
from .clock import Clock
from .disks import Disks
from .door import AdminClient, AdminClients
from .errors import BrokerFailed, hides
from .faults import Faults
from .groups import Groups
from .journal import Journal
from .network import Network
from .ports import HeldPort
from .racks import Racks
from .ready import Address, Ready
from .records import Records
from .scratch import Scratch
from .security import Security
from .snapshots import Snapshot, Snapshots, copy_directory
from .texts import text_of
from .topics import Topics
from .waits import Waiting

if TYPE_CHECKING:
    from .aio import AsyncBroker
    from .in_process import InProcessBroker
    from .processes import ProcessCluster

    Runner = ChildBroker | ChildCluster | InProcessBroker | ProcessCluster

__tracebackhide__ = hides
START_TIMEOUT_S: Final = 15.0
RESET_TIMEOUT_S: Final = 10.0
ISR_TIMEOUT_S: Final = 60.0
# A test has few members, and does not wait for more of them to join; it has few transactions, and
# waits for one that times out.
QUICK_COORDINATORS: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "4",
}
# A follower that waits, in a fetch or after an error, does not fetch a topic created meanwhile; and
# retrying a controlled shutdown does not help partitions that no other broker can lead.
QUICK_CLUSTER: Final = {
    "controlled.shutdown.retry.backoff.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "100",
}
OWN_SETTINGS: Final = {
    "listeners": "the port is always a free one",
    "log.dirs": "give data_dir",
    "odradek.admin.listener": "it is always on, at admin_url",
    "zookeeper.connect": "give zookeeper",
}


class Broker(Records, Waiting, Disks, Racks):
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

    def __init__(
        self,
        *,
        settings: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
        in_process: bool = False,
        brokers: int = 1,
        zookeeper: str | None = None,
        tls: bool = False,
        sasl: str | None = None,
        acls: Sequence[str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Raises: ValueError."""
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: there must be at least one")
        if zookeeper is not None and in_process:
            raise ValueError("with ZooKeeper every broker is a process of its own")
        given = {name: text_of(value) for name, value in (settings or {}).items()}
        self._settings = {**QUICK_COORDINATORS, **(QUICK_CLUSTER if brokers > 1 else {}), **given}
        for name, hint in OWN_SETTINGS.items():
            if name in self._settings:
                raise ValueError(f"odradek.testing.Broker sets {name} itself: {hint}")
        if data_dir is None:
            self._settings.setdefault("odradek.fsync", "false")  # nobody needs the files later
        self._given_data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._in_process = in_process
        self._count = brokers
        self._zookeeper = zookeeper
        self._start_timeout_s = start_timeout_s * brokers
        self._security = Security(tls=tls, sasl=sasl, acls=acls)
        self._scratch: Scratch | None = None
        self._runner: Runner | None = None
        self._ready: Ready | None = None
        self._ports: list[HeldPort] = []
        self._admin_ports: list[HeldPort] = []
        self._entrance: dict[int, HeldPort] = {}
        self._down: set[int] = set()
        self._paused: set[int] = set()
        self._last_log = ""
        self._admins = AdminClients(self._admin_urls, self._settings.get("odradek.admin.token", ""))
        self._network = Network(lambda: self._admins, lambda: self.broker_ids)
        self._snapshots = Snapshots(self)

    def __repr__(self) -> str:
        return f"<Broker {self.bootstrap_servers if self.running else 'not running'}>"

    # -- starting and stopping

    def start(self, broker_id: int | None = None, *, in_sync: bool = True) -> None:
        """Start all that do not run, on the ports of the first start; return once they serve.

        Given a `broker_id`, start only that one of several. If others run, return once a started
        broker is in sync wherever it has a replica, unless `in_sync` is false.
        Raises: BrokerFailed.
        """
        if broker_id is not None:
            self._start_one(broker_id, in_sync=in_sync)
            return
        if self.running:
            for down in sorted(self._down):
                self._start_one(down, in_sync=in_sync)
            return
        if self._scratch is None:
            self._scratch = Scratch()
        if self._runner is None:
            self._runner = self._new_runner(self._scratch.path)
        if not self._ports:
            self._ports = [HeldPort() for _ in range(self._count)]
            processes = 1 if self._zookeeper is None else self._count
            self._admin_ports = [HeldPort() for _ in range(processes)]
        try:
            is_cluster = self._zookeeper is not None
            self._security.prepare(self._scratch.path, is_cluster=is_cluster)
            if not is_cluster:  # else before its first broker, once there is a ZooKeeper
                self._security.add_first_user(self.data_dir)
            self._ready = self._runner.start(
                ports=[held.port for held in self._ports],
                admin_ports=[held.port for held in self._admin_ports],
                data_dir=self.data_dir,
                protocol=self._security.protocol,
                settings={**self._security.settings, **self._settings},
            )
        except BrokerFailed:
            if self._ready is None:  # a failed first start leaves nothing behind
                self._clean_up()
            raise
        self._down.clear()
        self._paused.clear()
        self._network.forget()
        self._open_entrance()
        if self._security.has_grants_to_make:
            controller = isr.controller(
                self._told.addresses, self._access, timeout_s=RESET_TIMEOUT_S
            )
            brokers = list(self._told.addresses.values())
            self._security.add_users_and_acls(controller, brokers, timeout_s=RESET_TIMEOUT_S)

    def stop(self, broker_id: int | None = None) -> None:
        """Stop all brokers, or one, cleanly; the files are kept.  Raises: BrokerFailed."""
        if broker_id is not None:
            self._command("stop", broker_id)
            self._down.add(broker_id)
            self._paused.discard(broker_id)
        elif self._runner is not None:
            self._admins.close()
            self._runner.stop()

    def kill(self, broker_id: int | None = None, *, expire: bool = False) -> None:
        """Kill all brokers, or one, as SIGKILL would; `start` starts them again.

        A broker that shares its process with others dies alone: its connections are reset, nothing
        is flushed. Its session with the store ends at its timeout, or at once with `expire`; until
        then the other brokers consider it alive.

        Raises: RuntimeError for a broker that is alone in this process, BrokerFailed.
        """
        if broker_id is not None:
            self._command("kill", broker_id, expire=expire)
            self._down.add(broker_id)
            self._paused.discard(broker_id)
        elif self._runner is not None:
            self._admins.close()
            self._runner.kill()

    def pause(self, broker_id: int) -> None:
        """Pause a broker: until `resume` it reads nothing, and its session with the store expires
        at its timeout.

        A broker with a process of its own is stopped by SIGSTOP.  Raises: BrokerFailed.
        """
        self._command("pause", broker_id)
        self._paused.add(broker_id)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on.  Raises: BrokerFailed."""
        self._command("resume", broker_id)
        self._paused.discard(broker_id)
        self._tell_network()

    def restart(self) -> None:
        """Stop all brokers that run, and start them again with the same ports and files.

        Raises: BrokerFailed.
        """
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop all brokers, and remove their files unless `data_dir` was given.

        Raises: BrokerFailed.
        """
        try:
            self.stop()
        finally:
            self._clean_up()

    def reset(self) -> None:
        """Start and resume what is down, heal network and disks, and delete every topic.

        Raises: BrokerFailed.
        """
        self._resume_paused()
        self._network.heal()
        self._heal_disks()
        self.start()
        delete_all_topics(self.admin, timeout_s=RESET_TIMEOUT_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await beside_the_loop(self.start, undo=self.close)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await beside_the_loop(self.close)

    # -- snapshots

    def snapshot(self) -> Snapshot:
        """Remember the state: topics, records, groups, transactions, settings, users and ACLs.

        Raises: BrokerFailed, also with ZooKeeper.
        """
        return self._snapshots.take()

    def restore(self, snapshot: Snapshot) -> None:
        """Disconnect all clients, and return to a snapshot of this broker, on the same ports.

        If one is down, or if more has changed than topics, records, groups and transactions, all
        brokers are started again.  Raises: BrokerFailed, ValueError.
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

    # -- state

    @property
    def running(self) -> bool:
        """Whether it is running; it may have ended on its own."""
        return self._runner is not None and self._runner.running

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, separated by commas for several brokers."""
        return ",".join(f"{host}:{port}" for host, port in self._addresses.values())

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, running or not."""
        return list(self._told.addresses)

    def address(self, broker_id: int) -> Address:
        """Host and port of one broker.  Raises: KeyError."""
        return self._addresses[broker_id]

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition; -1 if there is none.

        A partition that was made a moment ago is waited for, shortly.  Raises: BrokerFailed.
        """
        return isr.leader(self._live_addresses(), self._access, topic, partition)

    @property
    def host(self) -> str:
        """The address that the first broker listens on."""
        return next(iter(self._addresses.values()))[0]

    @property
    def port(self) -> int:
        """The port that the first broker listens on, the same after restarts."""
        return next(iter(self._addresses.values()))[1]

    @property
    def broker_id(self) -> int:
        """The broker.id of the first broker."""
        return next(iter(self._told.addresses))

    @property
    def admin_url(self) -> str:
        """Where its admin API is: `http://127.0.0.1:PORT`, the same after restarts.

        Of brokers with a process each, it is that of the first one that runs.
        """
        self._told  # noqa: B018  # raises if it is not started
        return next(iter(self._admin_urls()), "")

    @property
    def admin(self) -> AdminClient:
        """A client of its admin API, for what has no method here.  Raises: BrokerFailed."""
        return self._admins.first

    @property
    def faults(self) -> Faults:
        """The rules by which requests fail, wait or lose their answer."""
        return Faults(self._admins, in_process=self._in_process)

    @property
    def journal(self) -> Journal:
        """The requests of clients."""
        return Journal(self._admins)

    @property
    def startup_ms(self) -> int:
        """Milliseconds from the start of its process until it served, at the last start."""
        return self._told.startup_ms

    @property
    def pid(self) -> int | None:
        """The child's process id; None if there is no single child, or if it does not run."""
        return None if self._runner is None else self._runner.pid

    @property
    def data_dir(self) -> Path:
        """Where its files are.  Raises: RuntimeError if it is temporary and not yet created."""
        if self._given_data_dir is not None:
            return self._given_data_dir
        if self._scratch is None:
            raise RuntimeError("the broker has no directory: it is not started")
        return self._scratch.path / "data"

    @property
    def log(self) -> str:
        """What the child logged; empty for a broker in this process, which uses `logging`."""
        return self._last_log if self._runner is None else self._runner.log

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

    # -- topics, records, groups, time

    prefix = ""
    """What names of topics and groups begin with, if others use these brokers at the same time."""

    def name(self, name: str) -> str:
        """The name of a topic or group as this test must use it: `prefix` and the name."""
        return self.prefix + name

    @property
    def aio(self) -> "AsyncBroker":
        """The blocking calls as coroutines: `await broker.aio.produce("t", b"v")`."""
        from .aio import AsyncBroker  # it imports this module

        return AsyncBroker(self)

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics(lambda: self._admins.first)

    @property
    def groups(self) -> Groups:
        """Its groups."""
        return Groups(self._admins)

    @property
    def clock(self) -> Clock:
        """Its clock, which tests can move."""
        return Clock(self._admins)

    @property
    def network(self) -> Network:
        """The network between its brokers, which tests can break."""
        return self._network

    def _tell_network(self) -> None:
        """With a process for each broker, one that was away has not heard of all."""
        if self._zookeeper is not None:
            self._network.catch_up()

    def _check_broker(self, broker_id: int) -> None:
        if broker_id not in self._told.addresses:
            raise ValueError(f"there is no broker {broker_id}")

    def _admin_urls(self) -> list[str]:
        """The URLs of the processes that run."""
        if not self.running:
            return []
        gone = self._down | self._paused if self._zookeeper is not None else ()
        pairs = zip(self._told.addresses, self._admin_ports, strict=False)
        return [f"http://127.0.0.1:{held.port}" for number, held in pairs if number not in gone]

    def _access_of(self, user: str | None) -> ClientAccess:
        return self._security.access_of(user)

    @property
    def _access(self) -> ClientAccess:
        return self._access_of(None)

    @property
    def _addresses(self) -> dict[int, Address]:
        """Where clients reach the brokers: at the test's entrance, if it has one."""
        told = self._told.addresses
        return {
            number: (host, self._entrance[number].port if self._entrance else port)
            for number, (host, port) in told.items()
        }

    @property
    def _told(self) -> Ready:
        if self._ready is None:
            raise RuntimeError("the broker is not started")
        return self._ready

    def _enter(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, and have clients come in by other ports from now on.

        Those that an earlier test has left running know only the ports of then. Whoever uses this
        broker between tests goes on with the listeners.
        """
        self._leave()
        self._entrance = {number: HeldPort() for number in self._told.addresses}
        self._snapshots.restore(snapshot, ports=self._entrance_ports(), forgets_requests=True)

    def _leave(self) -> None:
        """The end of what `_enter` began; the ports are closed when there are others."""
        for held in self._entrance.values():
            held.close()
        self._entrance = {}

    def _entrance_ports(self) -> dict[str, int]:
        live = self._told.addresses.keys() - self._down
        return {str(number): self._entrance[number].port for number in sorted(live)}

    def _open_entrance(self) -> None:
        if self._entrance:
            self.admin.post("entrance", ports=self._entrance_ports())

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

    def _new_runner(self, scratch: Path) -> "Runner":
        log_path, start_timeout_s = scratch / "broker.log", self._start_timeout_s
        if self._zookeeper is not None:
            from .processes import ProcessCluster

            return ProcessCluster(
                scratch,
                brokers=self._count,
                zookeeper=None if self._zookeeper == "auto" else self._zookeeper,
                before_brokers=self._security.add_first_user_to_zookeeper,
                start_timeout_s=start_timeout_s,
            )
        if self._in_process:
            from .in_process import InProcessBroker

            return InProcessBroker(start_timeout_s=start_timeout_s, brokers=self._count)
        if self._count > 1:
            return ChildCluster(log_path, brokers=self._count, start_timeout_s=start_timeout_s)
        return ChildBroker(log_path, start_timeout_s=start_timeout_s)

    def _start_one(self, broker_id: int, *, in_sync: bool) -> None:
        self._command("start", broker_id)
        self._down.discard(broker_id)
        self._tell_network()
        self._open_entrance()
        if in_sync:
            isr.wait_until_in_sync(
                self._live_addresses(), self._access, broker_id, timeout_s=ISR_TIMEOUT_S
            )

    def _command(self, verb: str, broker_id: int, **fields: bool) -> None:
        """Do something to one of several brokers.  Raises: RuntimeError, BrokerFailed."""
        from .processes import ProcessCluster

        self._check_broker(broker_id)
        if isinstance(self._runner, ProcessCluster):
            self._runner.command(verb, broker_id, **fields)
            return
        if self._runner is None:
            raise BrokerFailed("the brokers do not run")
        if self._count == 1 and verb not in ("pause", "resume"):
            raise RuntimeError(f"broker {broker_id} is the only one: {verb} it without a number")
        self.admin.post("brokers", broker_id, verb, **fields)

    def _end_with_disk(self, broker_id: int) -> None:
        """Not to wait for a process that ends as the disk of its broker has failed."""
        if self._zookeeper is not None:
            self._command("kill", broker_id)
        elif self._in_process and self._runner is not None:
            with contextlib.suppress(BrokerFailed):  # it says which disk
                self._runner.stop()
        else:
            self.kill()

    def _resume_paused(self) -> None:
        self._look_at_brokers()
        for paused in sorted(self._paused):
            self.resume(paused)

    def _look_at_brokers(self) -> None:
        """Take note of what others have done to single brokers through the admin API."""
        if self._zookeeper is None and self.running:
            states = {each["id"]: each["state"] for each in self.admin.get("brokers")["brokers"]}
            self._down = {number for number, state in states.items() if state == "down"}
            self._paused = {number for number, state in states.items() if state == "paused"}

    def _live_addresses(self) -> dict[int, Address]:
        addresses = self._told.addresses
        live = addresses.keys() - self._down - self._paused
        near = live - self._network.cut_off or live
        return {number: addresses[number] for number in addresses if number in near}

    def _clean_up(self) -> None:
        self._snapshots.close()
        if self._runner is not None:
            self._last_log = self._runner.log
            self._runner = None
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        self._leave()
        for held in (*self._ports, *self._admin_ports):
            held.close()
        self._ports, self._admin_ports = [], []
        self._ready = None
