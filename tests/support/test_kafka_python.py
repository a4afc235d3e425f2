"""What kafka-python leaves open is closed without a warning, and only that."""

import gc
import socket
import ssl
import warnings
from collections.abc import Callable

import pytest
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport

from .kafka_python import TlsLeftOpen


def warnings_of(make: Callable[[], socket.socket]) -> list[str]:
    """What is said of a connection that nobody closes; its server sees the end of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            left = make()
            left.connect(server.getsockname())
            peer, _ = server.accept()
            del left
            gc.collect()
        with peer:
            assert peer.recv(1) == b""
    return [str(warning.message) for warning in caught]


def test_a_socket_of_kafka_python_may_be_left_open() -> None:
    family = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    assert warnings_of(lambda: KafkaNetSocket().socket(*family)) == []


def test_another_socket_may_not() -> None:
    (said,) = warnings_of(socket.socket)
    assert said.startswith("unclosed <socket.socket")


@pytest.mark.parametrize("given", [True, False])
def test_tls_is_made_with_such_sockets(given: bool) -> None:
    config = {**KafkaSSLTransport.DEFAULT_CONFIG}
    if given:
        config["ssl_context"] = ssl.create_default_context()
    assert KafkaSSLTransport._build_ssl_context(config).sslsocket_class is TlsLeftOpen
