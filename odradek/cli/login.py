"""Tries a client's login over a connection of its own, to say at once why a broker refuses it.

kafka-python goes on trying until its time is up, and then says that no broker answers.
"""

import secrets
import socket
import struct
import time
from collections.abc import Mapping
from typing import Final

from odradek.broker.sasl.client import ClientMechanism, ServerRefused
from odradek.broker.sasl.client_login import HANDSHAKE_VERSION, ClientLogin, check_handshake
from odradek.broker.sasl.client_mechanisms import logins_of

from .client_sasl import OAUTHBEARER, PASSWORD_MECHANISMS, has_own_tokens

_HANDSHAKE: Final = (17, HANDSHAKE_VERSION)
_AUTHENTICATE: Final = (36, 0)
ANSWER_BYTES_MAX: Final = 1 << 19


def can_try(properties: Mapping[str, str]) -> bool:
    """Whether a client with these properties logs in, and in a way that can be tried here."""
    is_sasl = properties.get("security.protocol", "").startswith("SASL")
    by_password = properties.get("sasl.mechanism") in PASSWORD_MECHANISMS
    return is_sasl and (by_password or has_own_tokens(properties))


def log_in(connection: socket.socket, properties: Mapping[str, str], deadline: float) -> None:
    """Log in until a time of `time.monotonic`.  Raises: ServerRefused, OSError."""
    mechanism = properties["sasl.mechanism"]
    name = mechanism.encode()
    chosen = _ask(connection, _HANDSHAKE, struct.pack(">h", len(name)) + name, deadline)
    check_handshake(mechanism, chosen.int16(), chosen.texts())
    try:
        login = ClientLogin(begin(mechanism, properties))
        while not login.is_complete:
            body = struct.pack(">i", len(login.token)) + login.token
            answer = _ask(connection, _AUTHENTICATE, body, deadline)
            login.take(answer.int16(), answer.text(), answer.binary())
    except ConnectionError:
        raise ServerRefused("hangs up during the login") from None


def begin(mechanism: str, properties: Mapping[str, str]) -> ClientMechanism:
    """Begin a login with properties for which `can_try` is true.  Raises: ServerRefused."""
    if mechanism == OAUTHBEARER:
        from .client_tokens import known_source

        return known_source(properties).begin()
    user, password = properties["sasl.username"], properties["sasl.password"]
    return logins_of(mechanism, user, password, secrets.token_urlsafe)()


def receive(connection: socket.socket, size_bytes: int, deadline: float) -> bytes:
    """So many bytes, at most 512 KiB.  Raises: ServerRefused, OSError."""
    if not 4 <= size_bytes <= ANSWER_BYTES_MAX:
        raise ServerRefused(f"gives an answer of {size_bytes} bytes")
    found = b""
    while len(found) < size_bytes:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(size_bytes - len(found))
        if not part:
            raise ServerRefused("hangs up during the login")
        found += part
    return found


class _Answer:
    """The body of a response, read from its beginning."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    def _take(self, size_bytes: int) -> bytes:
        end = self._position + size_bytes
        if end > len(self._body):
            raise ServerRefused("gives an answer that is cut off")
        part = self._body[self._position : end]
        self._position = end
        return part

    def int16(self) -> int:
        number: int = struct.unpack(">h", self._take(2))[0]
        return number

    def int32(self) -> int:
        number: int = struct.unpack(">i", self._take(4))[0]
        return number

    def text(self) -> str | None:
        size_bytes = self.int16()
        return None if size_bytes < 0 else self._take(size_bytes).decode(errors="replace")

    def texts(self) -> list[str]:
        return [self.text() or "" for _ in range(self.int32())]

    def binary(self) -> bytes:
        return self._take(max(0, self.int32()))


def _ask(connection: socket.socket, api: tuple[int, int], body: bytes, deadline: float) -> _Answer:
    """Send a request without a client id, and read the answer.  Raises: ServerRefused, OSError."""
    frame = struct.pack(">hhih", *api, 0, -1) + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size_bytes,) = struct.unpack(">i", receive(connection, 4, deadline))
    return _Answer(receive(connection, size_bytes, deadline)[4:])
