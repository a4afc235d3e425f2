"""Whether a Kafka broker answers at an address, and a sentence that says what is there instead.

The client libraries wait for a broker until their time is up, whatever stands in the way.  One
ApiVersions request, which every broker answers before a client has authenticated, tells at once.
"""

import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from odradek.broker.sasl.client import ServerRefused
from odradek.host_port import parse_host_port

from .errors import CommandError
from .login import can_try, log_in, receive

# Size, API key 18 version 0, correlation id, no client id.
CORRELATION_ID: Final = 0x0D4ADE4
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, CORRELATION_ID, -1)
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")
Address = tuple[str, int]


class _Silent(Exception):
    """Something accepts connections and says nothing."""


class _NotKafka(Exception):
    """Something answers, or hangs up, as no broker does."""


def parse_bootstrap_servers(text: str) -> list[Address]:
    """HOST:PORT,… as addresses.  Raises: CommandError."""
    return [_parse_address(part.strip()) for part in text.split(",")]


def _parse_address(text: str) -> Address:
    if "://" in text:
        raise CommandError(
            f"bootstrap server {text!r}: give HOST:PORT alone, and -X security.protocol=…"
        )
    try:
        return parse_host_port(text)
    except ValueError as error:
        raise CommandError(f"bootstrap server {error}") from None


def check_reachable(
    servers: Sequence[Address],
    *,
    tls: ssl.SSLContext | None,
    timeout_s: float,
    login: Mapping[str, str] | None = None,
) -> None:
    """Return once a broker has answered at one of the addresses, which share the time.

    With the properties for a `login`, once a broker has accepted it.  Raises: CommandError.
    """
    reasons = []
    for server in servers:
        reason = _what_is_wrong(server, tls, timeout_s / len(servers), login or {})
        if reason is None:
            return
        reasons.append(reason)
    raise CommandError("; ".join(dict.fromkeys(reasons)))


def _what_is_wrong(
    server: Address, tls: ssl.SSLContext | None, timeout_s: float, login: Mapping[str, str]
) -> str | None:
    """A sentence, or None if a broker answers."""
    where = f"{server[0]}:{server[1]}"
    nobody = f"no Kafka broker answered at {where} within {timeout_s:g} s"
    try:
        _ask(server, tls, timeout_s, login)
    except ServerRefused as error:
        return f"{where} {error}"
    except (socket.gaierror, UnicodeError):  # the latter for a label that is no label
        return f"the name {server[0]!r} does not resolve"
    except ConnectionRefusedError:
        return f"{where} refuses the connection: nothing listens there"
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of {where} is not trusted: {error.verify_message}"
    except (_Silent, TimeoutError):
        return f"{nobody}, though something listens there" if _connects(server) else nobody
    except (_NotKafka, ssl.SSLError, ConnectionError):
        return _other_protocol(server, tls, where)
    except OSError as error:
        return f"{where} cannot be reached: {error.strerror or error}"
    return None


def _other_protocol(server: Address, tls: ssl.SSLContext | None, where: str) -> str | None:
    """What is wrong where neither plain text nor TLS, whichever was tried, got an answer."""
    other = None if tls else _trusting_context()
    try:
        _ask(server, other, 1.0, {})
    except (_NotKafka, _Silent, OSError):
        if other is None:
            return f"what listens at {where} is no Kafka broker, or wants a client certificate"
        return f"what listens at {where} is no Kafka broker"
    spoken, prefix = ("plain text", "PLAINTEXT") if other is None else ("TLS", "SSL")
    return f"{where} speaks {spoken}: set security.protocol to {prefix} or SASL_{prefix}"


def _ask(
    server: Address, tls: ssl.SSLContext | None, timeout_s: float, login: Mapping[str, str]
) -> None:
    deadline = time.monotonic() + timeout_s
    with ExitStack() as open_sockets:
        connection = open_sockets.enter_context(socket.create_connection(server, timeout_s))
        if tls is not None:
            over_tls = tls.wrap_socket(connection, server_hostname=server[0])
            connection = open_sockets.enter_context(over_tls)
        connection.sendall(_API_VERSIONS)
        head = b""
        while len(head) < 8:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise _Silent
            connection.settimeout(left_s)
            part = connection.recv(8 - len(head))
            if not part:
                raise _NotKafka
            head += part
            if head.startswith(_TLS_RECORDS):
                raise _NotKafka
        size, correlation_id = struct.unpack(">ii", head)
        if correlation_id != CORRELATION_ID or size < 6:
            raise _NotKafka
        if can_try(login):
            receive(connection, size - 4, deadline)
            log_in(connection, login, deadline)


def _connects(server: Address) -> bool:
    try:
        socket.create_connection(server, 0.5).close()
    except OSError:
        return False
    return True


def _trusting_context() -> ssl.SSLContext:
    """Finds out whether TLS is spoken; no data goes over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
