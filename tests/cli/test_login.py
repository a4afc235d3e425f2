"""What is said of a broker that does not let a client log in; see test_secure_brokers."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest

from odradek.cli.errors import CommandError
from odradek.cli.reach import CORRELATION_ID, check_reachable, parse_bootstrap_servers

from .listening import listening

PROPERTIES = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hunter2",
}


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value)) + value.encode()


def broker(*answers: bytes) -> Callable[[socket.socket], None]:
    """A broker that answers ApiVersions, and then with these bodies; then it hangs up."""

    def talk(connection: socket.socket) -> None:
        api_versions = struct.pack(">ih", CORRELATION_ID, 0) + bytes(200)
        for body in (api_versions, *(struct.pack(">i", 0) + answer for answer in answers)):
            connection.recv(1000)
            with suppress(ConnectionError):  # the client has seen enough
                connection.sendall(struct.pack(">i", len(body)) + body)
        with suppress(ConnectionError):
            connection.recv(1000)

    return talk


ACCEPTED = struct.pack(">hi", 0, 1) + text("PLAIN")
LOGGED_IN = struct.pack(">h", 0) + text(None) + struct.pack(">i", 0)


def test_a_login_that_is_accepted() -> None:
    with listening(broker(ACCEPTED, LOGGED_IN)) as address:
        check_reachable(parse_bootstrap_servers(address), tls=None, timeout_s=10, login=PROPERTIES)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            [struct.pack(">hi", 33, 2) + text("GSSAPI") + text("SCRAM-SHA-512")],
            "has no login by PLAIN; it offers GSSAPI, SCRAM-SHA-512",
        ),
        ([struct.pack(">hi", 33, 0)], "has no login by PLAIN; it offers none"),
        ([struct.pack(">h", 33)], "gives an answer that is cut off"),
        ([bytes(1 << 19)], "gives an answer of 524292 bytes"),
        ([], "hangs up during the login"),
        ([ACCEPTED], "hangs up during the login"),
        (
            [ACCEPTED, struct.pack(">h", 58) + text("who are you?") + struct.pack(">i", 0)],
            "refuses the login: who are you?",
        ),
        (
            [ACCEPTED, struct.pack(">h", 58) + text(None) + struct.pack(">i", 0)],
            "refuses the login: SASL_AUTHENTICATION_FAILED",
        ),
        (
            [ACCEPTED, struct.pack(">h", 0) + text(None) + struct.pack(">i", 1) + b"x"],
            "goes on after the only token of PLAIN",
        ),
    ],
)
def test_why_it_is_not(answers: list[bytes], expected: str) -> None:
    with listening(broker(*answers)) as address, pytest.raises(CommandError) as refused:
        check_reachable(parse_bootstrap_servers(address), tls=None, timeout_s=10, login=PROPERTIES)
    assert refused.value.message == f"{address} {expected}"


def test_a_connection_that_is_reset() -> None:
    def talk(connection: socket.socket) -> None:
        broker(ACCEPTED)(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with listening(talk) as address, pytest.raises(CommandError) as refused:
        check_reachable(parse_bootstrap_servers(address), tls=None, timeout_s=10, login=PROPERTIES)
    assert refused.value.message == f"{address} hangs up during the login"
