"""Exit code 0 if the broker on the given port answers: `healthcheck.py PORT [CLIENT.PROPERTIES]`.

It asks for ApiVersions, which every broker answers before a login. The file, or the one that
$ODRADEK_HEALTH_CONFIG names, has a client's properties: for a listener with TLS, or to check the
login as well. Its bootstrap.servers go before the port.
"""

import os
import socket
import struct
import sys

CORRELATION_ID = 7
# ApiVersions (key 18) version 0, correlation id, client id: the oldest request there is.
BODY = struct.pack(">hhih6s", 18, 0, CORRELATION_ID, 6, b"health")
TIMEOUT_S = 2


def main() -> None:
    """Ask; end with another exit code, or with the error, if the answer is not as it should be."""
    port = int(sys.argv[1])
    file = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("ODRADEK_HEALTH_CONFIG")
    if file:
        ask_as_client(f"127.0.0.1:{port}", file)
    else:
        ask(port)


def ask(port: int) -> None:
    """Ask in plain text, without importing anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(BODY)) + BODY)
        head = connection.recv(10, socket.MSG_WAITALL)
    _, correlation_id, error_code = struct.unpack(">iih", head)
    if (correlation_id, error_code) != (CORRELATION_ID, 0):
        raise SystemExit(f"unexpected answer {head.hex()}")


def ask_as_client(address: str, file: str) -> None:
    """Ask, and log in, as a client with the properties of a file would."""
    from odradek.cli.clients import CONNECT_TIMEOUT, cluster_of
    from odradek.cli.errors import CommandError
    from odradek.cli.layers import Layer, read_layer

    defaults = {"bootstrap.servers": address, CONNECT_TIMEOUT: str(TIMEOUT_S * 1000)}
    try:
        cluster_of([Layer("", defaults), read_layer(file)]).check_reachable()
    except CommandError as error:
        raise SystemExit(error.format_message()) from None


if __name__ == "__main__":
    main()
