"""The network itself: who hears whom, and that a fault is what it says."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.lab import network as networks
from tests.lab.network import CLIENTS, Network, NoEffect
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.network]

PORT = 9092
SILENT = 2
SOON_S = 0.5  # where an answer can't come
PATIENTLY_S = 30.0  # where it must: the machine may have others to serve
ECHO = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
def serve(peer):
    while data := peer.recv(65536):
        peer.sendall(data)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
ASK = """
import socket, sys, time
begin = time.monotonic()
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as s:
        size = int(sys.argv[4])
        s.sendall(b"x" * size)
        while size:
            size -= len(s.recv(65536))
    print(time.monotonic() - begin)
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Two servers that send back what they get, and one host on which nothing runs."""
    notes: list[str] = []
    made = Network(lambda what, whom, **details: notes.append(f"{what} {whom} {details}"))
    servers = []
    try:
        hosts = {number: made.add(f"broker-{number}") for number in (0, 1)}
        made.add(f"broker-{SILENT}")
        made.build()
        for number, host in hosts.items():
            command = [*made.enter(f"broker-{number}"), sys.executable, "-c", ECHO, host, str(PORT)]
            servers.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        for server in servers:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
        yield made
    finally:
        for server in servers:
            server.kill()
            server.communicate()
        made.close()


def ask(
    network: Network, whom: int, *, of: int | None, size: int = 10, timeout_s: float = PATIENTLY_S
) -> float | str:
    """What an echo took, or the name of the error."""
    host = network.host(f"broker-{whom}")
    enter = () if of is None else network.enter(f"broker-{of}")
    command = [*enter, sys.executable, "-c", ASK, host, str(PORT), str(timeout_s), str(size)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return answer if answer[0].isalpha() else float(answer)


def is_echoed(network: Network, whom: int, *, of: int, size: int = 10, within_s: float) -> bool:
    """Whether an echo comes in time."""
    took_s = ask(network, whom, of=of, size=size)
    return isinstance(took_s, float) and took_s < within_s


def test_all_reach_each_other(network: Network) -> None:
    assert isinstance(ask(network, 1, of=0), float)
    assert isinstance(ask(network, 0, of=None), float)


def test_a_cut_cuts_only_what_it_says(network: Network) -> None:
    with network.cut(0, 1) as cut:
        assert ask(network, 1, of=0, timeout_s=SOON_S) == "TimeoutError"
        assert isinstance(ask(network, 1, of=None), float)
        assert cut.hits
    assert isinstance(ask(network, 1, of=0), float)


def test_packets_vanish_on_open_connections_too(network: Network) -> None:
    """No reset: what was sent arrives when the cut has healed."""
    with socket.create_connection((network.host("broker-0"), PORT), timeout=10) as connection:
        connection.sendall(b"one")
        assert connection.recv(3) == b"one"
        with network.cut(CLIENTS, 0):
            connection.sendall(b"two")
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(3)
        connection.settimeout(PATIENTLY_S)
        assert connection.recv(3) == b"two"


def test_one_way_loses_what_is_sent_that_way(network: Network) -> None:
    with (
        socket.create_connection((network.host("broker-0"), PORT), timeout=10) as connection,
        network.cut(0, CLIENTS, one_way=True),
    ):
        connection.settimeout(0.3)
        connection.sendall(b"heard")  # and the answer is not
        with pytest.raises(TimeoutError):
            connection.recv(5)


def test_a_fault_that_hits_nothing_raises(network: Network) -> None:
    with pytest.raises(NoEffect), network.cut(0, SILENT):
        pass


def test_delay_and_rate_and_loss(network: Network) -> None:
    with network.delay(0, 1, port=PORT, delay_ms=50):
        took_s = ask(network, 1, of=0)
        assert isinstance(took_s, float)
        assert took_s >= 0.1
        until(lambda: is_echoed(network, 1, of=0, within_s=0.4), "it is late by no more")
        assert isinstance(ask(network, 1, of=None), float)
    with network.rate(1, kilobits=2000):  # 16 KiB at once, 48 KiB in 0.2 s
        took_s = ask(network, 1, of=0, size=65536)
        assert isinstance(took_s, float)
        assert took_s > 0.1
    with network.loss(0, 1, percent=50) as loss:
        for _ in range(3):
            ask(network, 1, of=0, size=20_000, timeout_s=SOON_S)
        assert loss.hits
    until(lambda: is_echoed(network, 1, of=0, size=65536, within_s=0.1), "all is as before")


def test_what_a_killed_run_has_left_is_removed() -> None:
    program = """
import os, signal, subprocess
from tests.lab.network import Network
network = Network(lambda *_, **__: None)
network.add("broker-0")
network.build()
closed = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
subprocess.Popen([*network.enter("broker-0"), "sleep", "1000"], **closed)
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    pid = ended.stdout.strip()
    assert pid, ended.stderr
    left = [path.name for path in networks.NAMESPACES.glob(f"{networks.PREFIX}-{pid}-*")]
    assert len(left) == 2
    inside = f"{networks.PREFIX}-{pid}-0-broker-0"
    # It was begun a moment before the end of who began it, and may still be on its way.
    (sleeper,) = until(lambda: networks.run("ip", "netns", "pids", inside).split(), "it is inside")
    networks.remove_leftovers()
    assert not [*networks.NAMESPACES.glob(f"{networks.PREFIX}-{pid}-*")]
    until(lambda: not os.path.exists(f"/proc/{sleeper}/exe"), "the process has ended")
    until(lambda: f"odr{pid}-" not in networks.run("ip", "link"), "the link is gone")
