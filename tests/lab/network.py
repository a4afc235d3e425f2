"""A network of our own: each server in a namespace, all on one bridge in another, clients outside.

    network = Network(note)
    network.add("zookeeper"); network.add("broker-0"); network.add("broker-1")
    network.build()
    with network.cut(0, 1): ...          # numbers are brokers

Clients stand where the tests run, with an address on the bridge.  All faults are rules of nftables
on the bridge: packets vanish, nobody is told.  A fault that has hit nothing raises when it ends: a
run with it counts for nothing.  Needs root, iproute2 and nftables (`missing()`).

Names carry the pid.  What a killed run has left is removed when the next network is built.
"""

import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

ZOOKEEPER: Final = "zookeeper"
CLIENTS: Final = "clients"
BROKER: Final = "broker-{}"
PREFIX: Final = "odradek-lab"
NAMESPACES: Final = Path("/run/netns")
HUB: Final = "hub"
# Of a private range that is seldom used; the third number is one that nobody here uses.
SUBNET: Final = "10.213.{}"
SUBNETS: Final = range(1, 255)
CLIENTS_NUMBER: Final = 1
FIRST_NUMBER: Final = 10
RELAY_PORT: Final = 19092
# What the relay itself sends is not sent through the relay.
RELAY_MARK: Final = 7
RELAY_READY_S: Final = 10.0
TOOLS: Final = ("ip", "nft", "nsenter", "tc")

Node = int | str
Nodes = Node | Collection[Node]
_built: set[str] = set()
_numbers = itertools.count()


class Note(Protocol):
    """Writes a line into the history."""

    def __call__(self, what: str, whom: str, **details: object) -> None: ...


class NoEffect(AssertionError):
    """A fault has hit no packet."""


@functools.cache
def missing() -> str | None:
    """What a network of our own needs and is not here, or None."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    if absent := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(absent)}: not installed (iproute2, nftables, util-linux)"
    probe = f"{PREFIX}-{os.getpid()}-probe"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        return "network namespaces can't be made here"
    run("ip", "netns", "delete", probe)
    return None


class Fault:
    """A fault while it lasts."""

    def __init__(self, hits: Callable[[], int]) -> None:
        self._hits = hits
        self.begin_s = time.monotonic()

    @property
    def hits(self) -> int:
        """The packets that were lost or sent another way so far."""
        return self._hits()

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.begin_s


class Network:
    """A bridge, the servers on it, and faults between them."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._subnet, self._claim = _claim_subnet()
        self._host = {CLIENTS: f"{self._subnet}.{CLIENTS_NUMBER}"}
        self._fault_numbers = itertools.count(1)
        self._is_built = False

    # Building.

    def add(self, node: str) -> str:
        """One more server, before anything is built; returns its address."""
        assert not self._is_built
        self._host[node] = f"{self._subnet}.{FIRST_NUMBER + len(self._host)}"
        return self._host[node]

    def host(self, node: str) -> str:
        """The address of a server, or of the clients."""
        return self._host[node]

    def enter(self, node: str) -> tuple[str, ...]:
        """What to put before a command that is to run there; the process stays the same."""
        return ("nsenter", f"--net={NAMESPACES / self._namespace(node)}")

    def build(self) -> None:
        """Make it all, if that has not been done.  Raises: CalledProcessError."""
        if self._is_built:
            return
        remove_leftovers()
        self._is_built = True
        for node in (HUB, *self._servers()):
            namespace = self._namespace(node)
            _built.add(namespace)
            run("ip", "netns", "add", namespace)
            self._ip(node, "link set lo up")
        self._ip(HUB, "link add name bridge0 type bridge")
        self._ip(HUB, "link set bridge0 up")
        for node in self._servers():
            peer = f"peer name eth0 netns {self._namespace(node)}"
            self._ip(HUB, f"link add name {node} type veth {peer}")
            self._ip(node, f"addr add {self._host[node]}/24 dev eth0")
            self._ip(node, "link set eth0 up")
            self._ip(HUB, f"link set {node} master bridge0 up")
        link = f"odr{self._name.removeprefix(PREFIX + '-')}"
        run("ip", "link", "add", "name", link, "type", "veth", *self._peer_in_hub())
        run("ip", "addr", "add", f"{self._host[CLIENTS]}/24", "dev", link)
        run("ip", "link", "set", link, "up")
        self._ip(HUB, f"link set {CLIENTS} master bridge0 up")

    def close(self) -> None:
        """Remove it all; servers on it should have ended.  A second call does nothing."""
        if self._is_built:
            self._is_built = False
            for node in (*self._servers(), HUB):
                _remove(self._namespace(node))
                _built.discard(self._namespace(node))
        self._claim.close()

    # Faults.  `here` and `there` are nodes or several of them.

    @contextmanager
    def cut(
        self,
        here: Nodes,
        there: Nodes,
        *,
        one_way: bool = False,
    ) -> Iterator[Fault]:
        """Nothing passes between them; `one_way`: only what is sent from here to there is lost.

        Raises: NoEffect.
        """
        with self._dropping("cut", here, there, "", one_way=one_way) as fault:
            yield fault

    @contextmanager
    def loss(self, here: Nodes, there: Nodes, *, percent: int) -> Iterator[Fault]:
        """So many of a hundred packets between them vanish, by chance.  Raises: NoEffect."""
        chance = f"numgen random mod 100 < {percent}"
        with self._dropping(f"loss of {percent} %", here, there, chance) as fault:
            yield fault

    @contextmanager
    def rate(self, node: Node, *, kilobits: int) -> Iterator[Fault]:
        """What `node` is sent comes no faster than so many kilobits a second.  Raises: NoEffect."""
        (name,) = _names(node)
        limit = ["rate", f"{kilobits}kbit", "burst", "16kb", "latency", "500ms"]
        run(*self._in_hub("tc", "qdisc", "add", "dev", name, "root", "tbf", *limit))

        def hits() -> int:
            shown = run(*self._in_hub("tc", "-s", "-j", "qdisc", "show", "dev", name))
            return int(json.loads(shown)[0]["overlimits"])

        with self._noted(f"{kilobits} kbit/s", name, Fault(hits)) as fault, ExitStack() as stack:
            stack.callback(run, *self._in_hub("tc", "qdisc", "del", "dev", name, "root"))
            yield fault
            self._prove(fault, "rate")

    @contextmanager
    def delay(self, here: Node, there: Node, *, port: int, delay_ms: int) -> Iterator[Fault]:
        """Connections that `here` opens to a port of `there` are late by so much in both ways.

        Those that are open are reset at the begin and at the end.  Raises: NoEffect.
        """
        (source,), (target,) = _names(here), _names(there)
        own, other = self._host[source], self._host[target]
        relay = [sys.executable, "-m", "tests.lab.relay", "--listen", f"{own}:{RELAY_PORT}"]
        relay += ["--to", f"{other}:{port}", "--delay-ms", str(delay_ms), "--mark", str(RELAY_MARK)]
        with ExitStack() as stack:
            process = subprocess.Popen([*self.enter(source), *relay], stdout=subprocess.PIPE)
            stack.callback(_end, process)
            assert process.stdout is not None
            assert process.stdout.readline().strip() == b"ready", "the relay does not start"
            others = f"meta mark != {RELAY_MARK} ip daddr {other} tcp dport {port}"
            table = f"table ip relay_{next(self._fault_numbers)}"
            rules = f"""{table} {{
                counter hit {{ }}
                chain nat_out {{ type nat hook output priority -100
                    {others} counter name hit dnat to {own}:{RELAY_PORT}
                }}
                chain out {{ type filter hook output priority 0
                    {others} reject with tcp reset
                }}
            }}
            """
            run(*self.enter(source), "nft", "-f", "-", stdin=rules)
            stack.callback(run, *self.enter(source), "nft", "delete", *table.split())
            hits = _counter([*self.enter(source), "nft", "-j", "list", *table.split()])
            whom = f"{source} -> {target}"
            with self._noted(f"delay of {delay_ms} ms", whom, Fault(hits)) as fault:
                yield fault
                self._prove(fault, whom)

    @contextmanager
    def _dropping(
        self,
        what: str,
        here: Nodes,
        there: Nodes,
        chance: str,
        *,
        one_way: bool = False,
    ) -> Iterator[Fault]:
        ways = [(_names(here), _names(there))]
        if not one_way:
            ways.append((ways[0][1], ways[0][0]))
        lines = [
            f"ip saddr {self._set(source)} ip daddr {self._set(target)} {chance} "
            "counter name hit drop"
            for source, target in ways
        ]
        table = f"table bridge fault_{next(self._fault_numbers)}"
        head = "type filter hook forward priority 0"
        chain = "\n".join((f"chain forward {{ {head}", *lines, "}"))
        rules = f"{table} {{\ncounter hit {{ }}\n{chain}\n}}\n"
        run(*self._in_hub("nft", "-f", "-"), stdin=rules)
        arrow = "->" if one_way else "<->"
        whom = f"{', '.join(_names(here))} {arrow} {', '.join(_names(there))}"
        hits = _counter(self._in_hub("nft", "-j", "list", *table.split()))
        with ExitStack() as stack:
            stack.callback(run, *self._in_hub("nft", "delete", *table.split()))
            with self._noted(what, whom, Fault(hits)) as fault:
                yield fault
                self._prove(fault, whom)

    @contextmanager
    def _noted(self, what: str, whom: str, fault: Fault) -> Iterator[Fault]:
        self._note(what, whom)
        try:
            yield fault
        finally:
            self._note(f"end of {what}", whom, hits=fault.hits, lasted_s=round(fault.age_s, 3))

    def _prove(self, fault: Fault, what: str) -> None:
        if not fault.hits:
            raise NoEffect(f"{what}: not one packet was hit")

    # Inside.

    def _servers(self) -> list[str]:
        return [node for node in self._host if node != CLIENTS]

    def _namespace(self, node: str) -> str:
        return f"{self._name}-{node}"

    def _peer_in_hub(self) -> tuple[str, ...]:
        return ("peer", "name", CLIENTS, "netns", self._namespace(HUB))

    def _ip(self, node: str, command: str) -> None:
        run("ip", "-n", self._namespace(node), *command.split())

    def _in_hub(self, *command: str) -> list[str]:
        return [*self.enter(HUB), *command]

    def _set(self, names: Collection[str]) -> str:
        return "{ " + ", ".join(self._host[name] for name in names) + " }"


def remove_leftovers() -> None:
    """End what still runs in the namespaces of runs that have died, and remove them."""
    if not NAMESPACES.exists():
        return
    for path in NAMESPACES.glob(f"{PREFIX}-*"):
        pid = path.name.removeprefix(PREFIX + "-").partition("-")[0]
        is_own = pid == str(os.getpid())  # of an earlier process of that number, if not built here
        if path.name in _built or (not is_own and Path("/proc", pid).exists()):
            continue
        _remove(path.name)


def run(*command: str, stdin: str = "") -> str:
    """Run a command to its end; return what it printed.  Raises: CalledProcessError."""
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if ended.returncode != 0:
        raise subprocess.CalledProcessError(
            ended.returncode, command, ended.stdout, f"{' '.join(command)}: {ended.stderr}"
        )
    return ended.stdout


def _names(nodes: Nodes) -> tuple[str, ...]:
    if isinstance(nodes, int):
        return (BROKER.format(nodes),)
    if isinstance(nodes, str):
        return (nodes,)
    return tuple(name for node in nodes for name in _names(node))


def _counter(command: list[str]) -> Callable[[], int]:
    def hits() -> int:
        listed = json.loads(run(*command))["nftables"]
        return sum(int(part["counter"]["packets"]) for part in listed if "counter" in part)

    return hits


def _claim_subnet() -> tuple[str, socket.socket]:
    """One that no route here leads to, and a socket that keeps others off while it is open."""
    routes = run("ip", "-4", "route", "show", "table", "all") if shutil.which("ip") else ""
    for number in SUBNETS:
        subnet = SUBNET.format(number)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0{PREFIX}-{subnet}")
        except OSError:
            claim.close()
            continue
        if f"{subnet}." not in routes:
            return subnet, claim
        claim.close()
    raise AssertionError("no subnet is free")


def _remove(namespace: str) -> None:
    """Also what runs in it: nobody else puts processes there."""
    with contextlib.suppress(subprocess.CalledProcessError):
        for pid in run("ip", "netns", "pids", namespace).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        run("ip", "netns", "delete", namespace)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
