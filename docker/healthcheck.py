"""Exit code 0 if the broker on the given port answers ApiVersions: `healthcheck.py PORT`."""

import socket
import struct
import sys

CORRELATION_ID = 7
# ApiVersions (key 18) version 0, correlation id, client id: the oldest request there is.
BODY = struct.pack(">hhih6s", 18, 0, CORRELATION_ID, 6, b"health")


def main() -> None:
    """Ask; end with another exit code, or with the error, if the answer is not as it should be."""
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2) as connection:
        connection.sendall(struct.pack(">i", len(BODY)) + BODY)
        head = connection.recv(10, socket.MSG_WAITALL)
    _, correlation_id, error_code = struct.unpack(">iih", head)
    if (correlation_id, error_code) != (CORRELATION_ID, 0):
        raise SystemExit(f"unexpected answer {head.hex()}")


if __name__ == "__main__":
    main()
