"""A ZooKeeper and N brokers, Odradek's or Apache Kafka's, and what may befall them.

Each is a process of its own. Everything that is done to them stands in a file (`history.py`).
"""

import json
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message
from tests.kafka.zookeeper import ZooKeeper
from tests.support.waiting import NotYet, until

from .asking import Address, ask_until_done
from .brokers import KINDS, BrokerProcess, Place, SlowBroker
from .history import History, new_path
from .network import BROKER, ZOOKEEPER, Network
from .tree import Tree, read_tree
from .waiting import TIMEOUT_S, settle

# ZooKeeper's; its sessions last up to twenty of them.
TICK_TIME_MS: Final = 500
SESSION_TIMEOUT_MS: Final = 4000
# Both kinds get the same: what the laboratory prescribes, and what keeps a small machine quiet.
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": "30000",  # else a session's time, and a start has failed
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "5000",
    "controller.socket.timeout.ms": "5000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
# For tests in which nobody may lose a place because something stood still for some seconds: the
# longest session that is granted, and as much patience with followers.
LONG_SESSIONS: Final = {"zookeeper.session.timeout.ms": str(20 * TICK_TIME_MS)}
PATIENT: Final = {**LONG_SESSIONS, "replica.lag.time.max.ms": "20000"}
# In a network of their own, where each has an address.
BROKER_PORT: Final = 9092
ZOOKEEPER_PORT: Final = 2181
# What clients in the laboratory are told.
REQUEST_TIMEOUT_MS: Final = 5000
DELIVERY_TIMEOUT_MS: Final = 120_000
LAB_SESSION_TIMEOUT_S: Final = 30.0
# A ZooKeeper that is just starting may take a connection and never answer there. kazoo gives each
# server that it is told of its share of the session to answer in.
HANDSHAKES: Final = 15
ASK_TIMEOUT_S: Final = 60.0
# After an outage of ZooKeeper the laboratory's own connection needs a moment, too, but no more.
OFTEN: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
PATIENTLY: Final = {**OFTEN, "deadline": ASK_TIMEOUT_S}


class Cluster:
    """Nothing runs until it is started; a context manager that ends and removes everything.

    `kind` is odradek, kafka, or slow: Odradek with disks that `slow_disk` delays.
    `settings` go to all brokers, `own_settings` to one each.  With `network` each server stands in
    a namespace of its own, and its `network` cuts them off from one another.  The directory is
    removed at the end if none is given; the history file never is.
    """

    def __init__(
        self,
        kind: str,
        brokers: Sequence[int] = (0, 1, 2),
        *,
        directory: Path | None = None,
        history: Path | None = None,
        settings: Mapping[str, str] | None = None,
        own_settings: Mapping[int, Mapping[str, str]] | None = None,
        network: bool = False,
        tick_time_ms: int = TICK_TIME_MS,
    ) -> None:
        self.kind = kind
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"lab-{kind}-"))
        self.history = History(history or new_path(kind))
        self._network = Network(self.history.note) if network else None
        self.zookeeper = self._place_zookeeper(tick_time_ms)
        connect = {"zookeeper.connect": self.zookeeper.address}
        self.brokers: dict[int, BrokerProcess] = {
            broker: KINDS[kind](
                broker,
                self.directory / f"broker-{broker}",
                {**SETTINGS, **connect, **(settings or {}), **(own_settings or {}).get(broker, {})},
                self._place(broker),
            )
            for broker in brokers
        }
        self._paused: set[int] = set()
        self._client: KazooClient | None = None
        self.zookeeper_login: dict[str, str] | None = None
        """kazoo's `sasl_options` of the laboratory itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.history.note("close", "everything", error=repr(error[1]) if error[1] else None)
        self.close()

    def close(self) -> None:
        """Kill what runs and remove the directory, unless it was given."""
        if self._client is not None:
            self._client.stop()
            self._client.close()
            self._client = None
        for broker in self.brokers.values():
            broker.kill()
        self.zookeeper.kill()
        if self._network is not None:
            self._network.close()
        self.history.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def network(self) -> Network:
        """What the servers are on; only of a cluster that was made with one."""
        assert self._network is not None, "Cluster(..., network=True)"
        return self._network

    # Brokers.

    def start(self, *brokers: int) -> None:
        """Start brokers (all, if none is named) in order; return once each is registered."""
        for broker in brokers or self.brokers:
            begin_s = time.monotonic()
            self.brokers[broker].start()
            self._wait_until_live(broker)
            took_s = round(time.monotonic() - begin_s, 3)
            self._note("start", broker, pid=self.brokers[broker].pid, took_s=took_s)

    def stop(self, broker: int) -> None:
        """SIGTERM, and wait for its end."""
        self._note("stop", broker)
        code = self.brokers[broker].stop()
        self._note("stopped", broker, exit_code=code)

    def kill(self, broker: int, *, expire: bool = False, successor: int | None = None) -> None:
        """SIGKILL.  With `expire` its session's nodes go at once, not when the session ends.

        If it was the controller `successor` becomes it, or whoever is first.
        """
        self._note("kill -9", broker)
        self._paused.discard(broker)
        self.brokers[broker].kill()
        if expire:
            with self._only(successor):
                self._note("end the session of", broker)
                self._delete_nodes_of(broker)
                if successor is not None:
                    self._wait_for_controller(successor)

    def pause(self, broker: int) -> None:
        """SIGSTOP."""
        self._note("SIGSTOP", broker)
        self._paused.add(broker)
        self.brokers[broker].pause()

    def resume(self, broker: int) -> None:
        """SIGCONT."""
        self._note("SIGCONT", broker)
        self._paused.discard(broker)
        self.brokers[broker].resume()

    @contextmanager
    def slow_disk(self, broker: int, **delays: float) -> Iterator[None]:
        """Each `read`, `write` or `fsync` of its disk takes so many seconds longer inside."""
        slow = self.brokers[broker]
        assert isinstance(slow, SlowBroker), "Cluster('slow')"
        self._note("slow disk", broker, **delays)
        slow.delay_disk(**delays)
        try:
            yield
        finally:
            slow.delay_disk()
            self._note("end of slow disk", broker)

    def expire_session(self, broker: int) -> None:
        """Stop it with SIGSTOP until ZooKeeper has ended its session, then let it go on.

        If it was the controller, not before another is: else it may run for it again, and win.
        """
        was_controller = self.controller() == broker
        self.pause(broker)
        try:
            until(lambda: broker not in self.live(), f"the session of broker {broker} ends")
            if was_controller:
                until(lambda: self.controller() not in (None, broker), "another controls")
            self._note("session expired", broker)
        finally:
            self.resume(broker)

    def make_controller(self, broker: int) -> None:
        """Take the controllership away from whoever has it, and let only `broker` run for it."""
        with self._only(broker):
            self._note("make the controller", broker)
            with suppress(NoNodeError):  # its session has just ended
                self.client.delete("/controller")
            self._wait_for_controller(broker)

    # ZooKeeper.

    def start_zookeeper(self) -> None:
        """Start it; before that the network, if there is to be one."""
        if self._network is not None:
            self._network.build()
        self.zookeeper.start()
        self.history.note("start", "zookeeper", address=self.zookeeper.address)

    def kill_zookeeper(self) -> None:
        """SIGKILL; `start_zookeeper` brings it back with all it held."""
        self.history.note("kill -9", "zookeeper")
        self.zookeeper.kill()

    def stop_zookeeper(self) -> None:
        self.history.note("stop", "zookeeper")
        self.zookeeper.stop()

    @contextmanager
    def zookeeper_outage(self, *, frozen: bool = False) -> Iterator[None]:
        """No ZooKeeper inside the `with`: killed, or `frozen` with its connections open."""
        if not frozen:
            self.kill_zookeeper()
            yield
            self.start_zookeeper()
            return
        self.history.note("SIGSTOP", "zookeeper")
        self.zookeeper.pause()
        try:
            yield
        finally:
            self.zookeeper.resume()
            self.history.note("SIGCONT", "zookeeper")

    @property
    def client(self) -> KazooClient:
        """The laboratory's own session, opened when it is first used."""
        if self._client is None:
            self._client = KazooClient(
                ",".join([self.zookeeper.address] * HANDSHAKES),
                timeout=LAB_SESSION_TIMEOUT_S,
                connection_retry=OFTEN,
                command_retry=PATIENTLY,
                sasl_options=self.zookeeper_login,
            )
            self._client.start()
        return self._client

    def tree(self) -> Tree:
        """Everything in ZooKeeper now; waits while there is none.  Raises: RetryFailedError."""
        tree: Tree = self.client.retry(read_tree, self.client)
        return tree

    def settle(self, *, quiet_s: float = 0.0, timeout_s: float = TIMEOUT_S) -> Tree:
        """Wait until all that run are registered, ISRs are full, Metadata agrees, and all is quiet.

        Raises: NotYet, naming what is missing.
        """
        tree, missing = self.rest(quiet_s=quiet_s, timeout_s=timeout_s)
        if missing:
            raise NotYet(f"not after {timeout_s:.0f} s: {missing}")
        return tree

    def rest(self, *, quiet_s: float, timeout_s: float) -> tuple[Tree, list[str]]:
        """As `settle`, but what is missing in the end is returned."""
        running = [b.id for b in self.brokers.values() if b.alive and b.id not in self._paused]
        return settle(self.tree, self.addresses(), running, quiet_s=quiet_s, timeout_s=timeout_s)

    def write_node(self, path: str, data: bytes | None) -> None:
        """Create a node, or replace its data, as a tool would that knows only ZooKeeper."""
        self.history.note("write", path, data=None if data is None else data.decode())
        try:
            self.client.create(path, data)
        except NodeExistsError:
            self.client.set(path, data)

    # What it is at the moment.

    def live(self) -> list[int]:
        """The ids of the brokers that are registered."""
        return sorted(int(broker) for broker in self.children("/brokers/ids"))

    def controller(self) -> int | None:
        """The id in `/controller`."""
        node = self._read_json("/controller")
        return None if node is None else int(node["brokerid"])

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """What stands in a partition's state node; empty if it is not there."""
        return self._read_json(f"/brokers/topics/{topic}/partitions/{partition}/state") or {}

    def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads a partition; -1 if nobody does."""
        return int(self.state(topic, partition).get("leader", -1))

    def children(self, path: str) -> list[str]:
        """The names of a node's children; none if it is not there."""
        try:
            children: list[str] = self.client.retry(self.client.get_children, path)
        except NoNodeError:
            return []
        return children

    def addresses(self) -> dict[int, Address]:
        """Where each broker listens, whether it runs or not."""
        return {broker: process.address for broker, process in self.brokers.items()}

    @property
    def bootstrap_servers(self) -> str:
        """Of all brokers whose process lives."""
        return ",".join(b.bootstrap_servers for b in self.brokers.values() if b.alive)

    # Requests.

    def ask(
        self,
        request: Message,
        version: int,
        *,
        broker: int | None = None,
        accepted: Collection[ErrorCode] = (),
    ) -> Any:
        """Ask a broker, or the controller, until it does what it is asked.

        `accepted` errors are as good as none.  Raises: Refused.
        """
        whom = "controller" if broker is None else f"broker {broker}"
        self.history.note("ask", whom, request=repr(request))

        def addresses() -> list[Address]:
            asked = self.controller() if broker is None else broker
            return [] if asked is None else [self.brokers[asked].address]

        return ask_until_done(
            addresses, request, version, timeout_s=ASK_TIMEOUT_S, accepted=accepted
        )

    # Inside.

    def _place_zookeeper(self, tick_time_ms: int) -> ZooKeeper:
        directory = self.directory / "zookeeper"
        if self._network is None:
            return ZooKeeper(directory, tick_time_ms=tick_time_ms)
        return ZooKeeper(
            directory,
            host=self._network.add(ZOOKEEPER),
            port=ZOOKEEPER_PORT,
            tick_time_ms=tick_time_ms,
            enter=self._network.enter(ZOOKEEPER),
        )

    def _place(self, broker: int) -> Place | None:
        if self._network is None:
            return None
        name = BROKER.format(broker)
        return Place(self._network.add(name), BROKER_PORT, self._network.enter(name))

    def _note(self, what: str, broker: int, **details: object) -> None:
        self.history.note(what, f"broker {broker}", **details)

    def _read_json(self, path: str) -> Any:
        try:
            data, _ = self.client.retry(self.client.get, path)
        except NoNodeError:
            return None
        return json.loads(data)

    def _delete_nodes_of(self, broker: int) -> None:
        """Its ephemeral nodes in one transaction, as the end of its session would.

        That may come first, if this process or the machine stands still for as long.
        """

        def are_gone() -> bool:
            paths = [f"/brokers/ids/{broker}"] if broker in self.live() else []
            paths += ["/controller"] if self.controller() == broker else []
            transaction = self.client.transaction()
            for path in paths:
                transaction.delete(path)
            return not paths or all(result is True for result in transaction.commit())

        until(are_gone, f"the nodes of broker {broker} are gone")

    def _wait_until_live(self, broker: int) -> None:
        until(lambda: broker in self.live(), f"broker {broker} is registered")

    def _wait_for_controller(self, broker: int) -> None:
        try:
            until(lambda: self.controller() == broker, f"broker {broker} is the controller")
        except NotYet as error:
            raise NotYet(f"{error}\n{self.brokers[broker].output}") from error

    @contextmanager
    def _only(self, broker: int | None) -> Iterator[None]:
        """All other brokers stand still inside: but for a slow machine, for less than a session."""
        with ExitStack() as stack:
            for other in self.brokers.values():
                if broker is not None and other.id != broker and other.alive:
                    other.pause()
                    stack.callback(other.resume)
            yield
