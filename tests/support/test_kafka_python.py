"""What kafka-python leaves open is closed without a warning, and only that."""

import gc
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport

from odradek.testing.ports import HOST, HeldPort

from .kafka_python import QuietSocket


def warnings_after(forget: Callable[[], object]) -> list[str]:
    """What is said of the sockets that it leaves to the collector."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forget()
        gc.collect()
    return [str(each.message) for each in caught if each.category is ResourceWarning]


@pytest.fixture
def connected() -> Iterator[list[socket.socket]]:
    """A client's socket, in a list from which it can be taken."""
    with socket.create_server((HOST, 0)) as server:
        client = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        with peer:
            found = [client]
            del client
            yield found
            assert peer.recv(1) == b""  # it is closed


def test_a_client_that_does_not_reach_its_broker() -> None:
    port = HeldPort()

    def fail() -> None:
        with pytest.raises(KafkaError):
            KafkaProducer(bootstrap_servers=f"{HOST}:{port.port}", bootstrap_timeout_ms=100)

    assert warnings_after(fail) == []


def test_a_connection_with_tls(connected: list[socket.socket]) -> None:
    context = ssl.create_default_context()

    def forget() -> None:
        KafkaSSLTransport(NetworkSelector(), connected.pop(), host=HOST, ssl_context=context)

    assert warnings_after(forget) == []
    assert context.sslsocket_class is ssl.SSLSocket  # others may use it, too


def test_a_socket_that_is_not_made() -> None:
    with pytest.raises(OSError):
        QuietSocket(9999)


def test_a_socket_of_ours(connected: list[socket.socket]) -> None:
    (said,) = warnings_after(connected.pop)
    assert said.startswith("unclosed <socket.socket")
