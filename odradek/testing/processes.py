"""A cluster with a process for each broker, coordinated through ZooKeeper."""

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from odradek.broker.administration.internal_topics import internal_topic_settings

from .child import ChildBroker
from .errors import BrokerFailed, hides
from .ready import Address, Ready, Start
from .zookeeper import ZooKeeper

__tracebackhide__ = hides
# As long as a test can wait; ZooKeeper grants no less than two of its ticks.
SESSION_TIMEOUT_MS: Final = 4_000


class ProcessCluster:
    """Brokers as children of this process; `zookeeper` is host:port, or None to start one.

    `before_brokers` is called with their settings once there is a ZooKeeper.
    """

    def __init__(
        self,
        scratch: Path,
        *,
        brokers: int,
        zookeeper: str | None,
        before_brokers: Callable[[Mapping[str, str]], None],
        start_timeout_s: float,
    ) -> None:
        self._scratch = scratch
        self._count = brokers
        self._connect = zookeeper
        self._own_zookeeper = ZooKeeper(scratch / "zookeeper") if zookeeper is None else None
        self._before_brokers = before_brokers
        self._start_timeout_s = start_timeout_s
        self._children: dict[int, ChildBroker] = {}
        self._ports: dict[int, int] = {}
        self._admin_ports: dict[int, int] = {}
        self._data_dir = scratch
        self._protocol = "PLAINTEXT"
        self._settings: dict[str, str] = {}

    @property
    def running(self) -> bool:
        """Whether any of them is running."""
        return any(child.running for child in self._children.values())

    @property
    def pid(self) -> int | None:
        """None: there is no single process."""
        return None

    @property
    def log(self) -> str:
        """The logs of all brokers, one after the other."""
        return "".join(child.log for child in self._children.values())

    def start(self, given: Start) -> Ready:
        """Start them, and return once all serve.

        Raises: BrokerFailed.
        """
        if self._own_zookeeper is not None:
            self._connect = self._own_zookeeper.start(timeout_s=self._start_timeout_s)
        self._data_dir = given.data_dir
        self._protocol = given.protocol
        self._settings = {
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "zookeeper.connection.timeout.ms": str(round(self._start_timeout_s * 1000)),
            **internal_topic_settings(self._count),
            **given.settings,
            "zookeeper.connect": self._connect or "",
        }
        try:
            self._before_brokers(self._settings)
            return self._start_all(given)
        except BaseException:  # also Ctrl-C
            self._end()
            raise

    def _start_all(self, given: Start) -> Ready:
        first = int(given.settings.get("broker.id", 0))
        ports, admin_ports = given.ports, given.admin_ports
        addresses: dict[int, Address] = {}
        startup_ms = 0
        for index in range(self._count):
            broker_id = first + index
            log_path = self._scratch / f"broker-{broker_id}.log"
            if broker_id not in self._children:
                child = ChildBroker(log_path, start_timeout_s=self._start_timeout_s)
                self._children[broker_id] = child
                self._ports[broker_id] = ports[index] if ports else 0
                self._admin_ports[broker_id] = admin_ports[index] if admin_ports else 0
            ready = self._start(broker_id)
            addresses |= ready.addresses
            startup_ms = max(startup_ms, ready.startup_ms)
        return Ready(addresses=addresses, startup_ms=startup_ms)

    def _end(self) -> None:
        """Leave nothing of a failed start running."""
        self.kill()
        if self._own_zookeeper is not None:
            self._own_zookeeper.stop()

    def stop(self) -> None:
        """Stop them one after the other, then ZooKeeper.  Raises: BrokerFailed."""
        failure = None
        for child in reversed(self._children.values()):
            try:
                child.stop()
            except BrokerFailed as error:
                failure = failure or error
        if self._own_zookeeper is not None:
            self._own_zookeeper.stop()
        if failure is not None:
            raise failure

    def kill(self) -> None:
        """Kill all brokers with SIGKILL."""
        for child in self._children.values():
            child.kill()

    def command(self, verb: str, broker_id: int, *, expire: bool = False) -> None:
        """Start, stop, kill, pause or resume one broker.  Raises: BrokerFailed, ValueError."""
        child = self._children[broker_id]
        if verb == "start":
            if not child.running:
                self._start(broker_id)
        elif verb == "stop":
            child.stop()
        elif verb == "kill":
            if expire:
                raise ValueError("the session of a process that was killed ends at its timeout")
            child.kill()
        else:
            child.signal(signal.SIGSTOP if verb == "pause" else signal.SIGCONT)

    def _start(self, broker_id: int) -> Ready:
        start = Start(
            ports=[self._ports[broker_id]],
            admin_ports=[self._admin_ports[broker_id]],
            data_dir=self._data_dir / f"broker-{broker_id}",
            protocol=self._protocol,
            settings={**self._settings, "broker.id": str(broker_id)},
        )
        ready = self._children[broker_id].start(start)
        self._ports[broker_id] = ready.addresses[broker_id][1]
        return ready
