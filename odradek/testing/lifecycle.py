"""The life of a `Broker` under test: what of it runs, and where it is."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .access import ClientAccess
from .beside import beside_the_loop
from .broker_settings import settings_of
from .door import AdminClient, AdminClients
from .entrance import Entrance
from .errors import BrokerFailed, hides
from .network import Network
from .ports import HeldPort
from .ready import Address, Ready, Start, check_broker
from .runners import Runner, new_runner
from .scratch import Scratch
from .security import Security

__tracebackhide__ = hides
START_TIMEOUT_S: Final = 60.0
GRANTS_TIMEOUT_S: Final = 10.0
ISR_TIMEOUT_S: Final = 60.0


class Lifecycle:
    """A `Broker` without what tests do with brokers that run: it starts, stops and kills them."""

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
        if not isinstance(brokers, int) or isinstance(brokers, bool):
            raise ValueError(f"brokers={brokers!r} is not a number")
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: there must be at least one")
        if zookeeper is not None and in_process:
            raise ValueError("with ZooKeeper every broker is a process of its own")
        keeps_files = data_dir is not None
        self._settings = settings_of(settings or {}, brokers=brokers, keeps_files=keeps_files)
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
        self._entrance = Entrance()
        self._down: set[int] = set()
        self._paused: set[int] = set()
        self._last_log = ""
        self._admins = AdminClients(self._admin_urls, self._settings.get("odradek.admin.token", ""))
        self._network = Network(lambda: self._admins, lambda: self.broker_ids)

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
            self._start_down(in_sync=in_sync)
            return
        if self._scratch is None:
            self._scratch = Scratch()
        if self._runner is None:
            self._runner = new_runner(
                self._scratch.path,
                brokers=self._count,
                zookeeper=self._zookeeper,
                in_process=self._in_process,
                before_brokers=self._security.add_first_user_to_zookeeper,
                start_timeout_s=self._start_timeout_s,
            )
        if not self._ports:
            self._ports = [HeldPort() for _ in range(self._count)]
            processes = 1 if self._zookeeper is None else self._count
            self._admin_ports = [HeldPort() for _ in range(processes)]
        is_first = self._ready is None
        try:
            self._start_all(self._scratch.path, self._runner)
        except BaseException:  # also Ctrl-C
            if is_first:  # a failed first start leaves nothing behind
                with contextlib.suppress(BrokerFailed):  # the cause is on its way already
                    self.close()
            raise

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

    # -- where it is

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

    # -- what the parts of `Broker` use

    @property
    def _told(self) -> Ready:
        if self._ready is None:
            raise RuntimeError("the broker is not started")
        return self._ready

    @property
    def _addresses(self) -> dict[int, Address]:
        """Where clients reach the brokers: at the test's entrance, if it has one."""
        return self._entrance.addresses(self._told.addresses)

    def _access_of(self, user: str | None) -> ClientAccess:
        return self._security.access_of(user)

    @property
    def _access(self) -> ClientAccess:
        return self._access_of(None)

    def _admin_urls(self) -> list[str]:
        """The URLs of the processes that run."""
        if not self.running:
            return []
        gone = self._down | self._paused if self._zookeeper is not None else ()
        pairs = zip(self._told.addresses, self._admin_ports, strict=False)
        return [f"http://127.0.0.1:{held.port}" for number, held in pairs if number not in gone]

    def _live_addresses(self) -> dict[int, Address]:
        addresses = self._told.addresses
        live = addresses.keys() - self._down - self._paused
        near = live - self._network.cut_off or live
        return {number: addresses[number] for number in addresses if number in near}

    def _check_broker(self, broker_id: int) -> None:
        check_broker(broker_id, self._told.addresses)

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

    def _entrance_ports(self) -> dict[str, int]:
        return self._entrance.ports(self._told.addresses.keys() - self._down)

    def _open_entrance(self) -> None:
        if self._entrance.is_open:
            self.admin.post("entrance", ports=self._entrance_ports())

    def _end_with_disk(self, broker_id: int) -> None:
        """Not to wait for a process that ends as the disk of its broker has failed."""
        if self._zookeeper is not None:
            self._command("kill", broker_id)
        elif self._in_process and self._runner is not None:
            with contextlib.suppress(BrokerFailed):  # it says which disk
                self._runner.stop()
        else:
            self.kill()

    def _wake(self) -> None:
        """Let a process go on that a test has stopped by its `pid`, before it is asked anything."""
        if self._in_process:
            return
        from .child import ChildBroker

        if isinstance(self._runner, ChildBroker):
            self._runner.wake()

    def _resume_paused(self) -> None:
        self._wake()
        self._look_at_brokers()
        for paused in sorted(self._paused):
            self.resume(paused)

    def _start_one(self, broker_id: int, *, in_sync: bool) -> None:
        self._command("start", broker_id)
        self._down.discard(broker_id)
        self._tell_network()
        self._open_entrance()
        if in_sync:
            self._wait_until_in_sync(broker_id)

    def _start_down(self, *, in_sync: bool) -> None:
        """Start all that are down: one may be in sync only once another one leads."""
        down = sorted(self._down)
        for broker_id in down:
            self._start_one(broker_id, in_sync=False)
        for broker_id in down if in_sync else ():
            self._wait_until_in_sync(broker_id)

    def _wait_until_in_sync(self, broker_id: int) -> None:
        from . import isr

        addresses = self._live_addresses()
        isr.wait_until_in_sync(addresses, self._access, broker_id, timeout_s=ISR_TIMEOUT_S)

    def _tell_network(self) -> None:
        """With a process for each broker, one that was away has not heard of all."""
        if self._zookeeper is not None:
            self._network.catch_up()

    def _look_at_brokers(self) -> None:
        """Take note of what others have done to single brokers through the admin API."""
        if self._zookeeper is None and self.running:
            states = {each["id"]: each["state"] for each in self.admin.get("brokers")["brokers"]}
            self._down = {number for number, state in states.items() if state == "down"}
            self._paused = {number for number, state in states.items() if state == "paused"}

    def _start_all(self, scratch: Path, runner: Runner) -> None:
        is_cluster = self._zookeeper is not None
        self._security.prepare(scratch, is_cluster=is_cluster)
        if not is_cluster:  # else before its first broker, once there is a ZooKeeper
            self._security.add_first_user(self.data_dir)
        start = Start(
            ports=[held.port for held in self._ports],
            admin_ports=[held.port for held in self._admin_ports],
            data_dir=self.data_dir,
            protocol=self._security.protocol,
            settings={**self._security.settings, **self._settings},
        )
        self._ready = runner.start(start)
        self._down.clear()
        self._paused.clear()
        self._network.forget()
        self._open_entrance()
        if self._security.has_grants_to_make:
            from . import isr

            controller = isr.controller(
                self._told.addresses, self._access, timeout_s=GRANTS_TIMEOUT_S
            )
            brokers = list(self._told.addresses.values())
            self._security.add_users_and_acls(controller, brokers, timeout_s=GRANTS_TIMEOUT_S)

    def _clean_up(self) -> None:
        if self._runner is not None:
            self._last_log = self._runner.log
            self._runner = None
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        self._entrance.close()
        for held in (*self._ports, *self._admin_ports):
            held.close()
        self._ports, self._admin_ports = [], []
        self._ready = None
