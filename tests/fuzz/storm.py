"""`python -m tests.fuzz.storm PORT RATE SECONDS`: connect so often a second, and close at once."""

import json
import socket
import struct
import sys
import time
from typing import Final

from .target import HOST

AT_A_TIME: Final = 25
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: end by a reset, so that no port waits for the last packets."""


def storm(port: int, rate: float, seconds: float) -> dict[str, float]:
    """Connect, a few times in a row and then not until it is time for more."""
    began_s = time.monotonic()
    count = 0
    while (now_s := time.monotonic()) < began_s + seconds:
        time.sleep(max(0.0, began_s + count / rate - now_s))
        for _ in range(AT_A_TIME):
            with socket.create_connection((HOST, port), timeout=30) as connected:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        count += AT_A_TIME
    seconds = time.monotonic() - began_s
    return {"connects": count, "seconds": seconds, "cpu_s": time.process_time()}


if __name__ == "__main__":
    print(json.dumps(storm(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))))
