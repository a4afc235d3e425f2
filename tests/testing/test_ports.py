"""A port that is held goes to the server that knows it, and to nobody by chance."""

import errno
import gc
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from odradek.testing import Broker
from odradek.testing.entrance import PAST_PORTS_MAX, Entrance
from odradek.testing.ports import HOST, HeldPort

IP_LOCAL_PORT_RANGE: Final = 51
TAKEN: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
OLD_KERNEL: Final = "Linux before 6.3 can't choose a port for a connection out of one"


def only_of(sock: socket.socket, port: int) -> None:
    """Have the system choose the socket's port out of this one."""
    try:
        sock.setsockopt(
            socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("=I", port << 16 | port)
        )
    except OSError:
        pytest.skip(OLD_KERNEL)


def connect(port: int) -> None:
    with socket.create_server((HOST, 0)) as server, socket.socket() as client:
        only_of(client, port)
        client.connect(server.getsockname())


def bind_any(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        only_of(server, port)
        server.bind((HOST, 0))


@pytest.mark.parametrize("take", [connect, bind_any])
def test_the_system_gives_it_to_nobody(take: Callable[[int], None]) -> None:
    held = HeldPort()
    with socket.create_server((HOST, held.port)):
        pass  # a server has listened on it, and is down
    with pytest.raises(OSError) as refused:
        take(held.port)
    assert refused.value.errno in TAKEN
    held.close()
    take(held.port)


@pytest.mark.slow
def test_it_is_given_back_when_it_is_forgotten() -> None:
    def forgotten() -> int:
        port = HeldPort().port
        gc.collect()
        return port

    # Not each of them: another process may take one before we look.
    assert any(is_free(forgotten()) for _ in range(5))


def is_free(port: int) -> bool:
    with suppress(OSError), socket.socket() as mine:
        mine.bind((HOST, port))
        return True
    return False


@pytest.mark.parametrize("take", [connect, bind_any])
def test_the_ports_of_past_tests_are_given_to_nobody(take: Callable[[int], None]) -> None:
    entrance = Entrance()

    def next_port() -> int:
        entrance.renew([0])
        return entrance.ports([0])["0"]

    ports = [next_port() for _ in range(PAST_PORTS_MAX)]
    entrance.close()
    for port in ports:
        with pytest.raises(OSError) as refused:
            take(port)
        assert refused.value.errno in TAKEN
    next_port()
    entrance.close()
    take(ports[0])


@pytest.mark.slow
@pytest.mark.parametrize("in_process", [False, True])
def test_a_broker_keeps_its_port_until_it_is_closed(in_process: bool) -> None:
    with Broker(in_process=in_process) as broker:
        broker.stop()
        assert not is_free(broker.port)
        broker.start()
        port = broker.port
    assert is_free(port)


def test_a_broker_that_does_not_start_keeps_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broker = Broker(data_dir=tmp_path / "file", in_process=True)
    with pytest.raises(Exception, match="did not start"):
        broker.start()
    assert not broker._ports
