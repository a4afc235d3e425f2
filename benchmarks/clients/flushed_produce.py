"""One-record Produce on many connections, each with one request in flight: answers per second."""

import argparse
import json
import selectors
import socket
import time

from benchmarks import wire
from benchmarks.batches import batch
from benchmarks.connection import Address, connect

VALUE_SIZE_BYTES = 100
NO_ERROR = b"\x00\x00"


def measure(address: Address, topic: str, connections: int, seconds: float) -> dict[str, float]:
    """Requests and answers for this long.  Raises: RuntimeError (an answer with an error)."""
    frame = bytes(wire.produce_request(topic, 0, batch(1, bytes(VALUE_SIZE_BYTES)), acks=-1))
    size_bytes = len(wire.produce_answer(topic))
    error_position = wire.produce_error_position(topic)
    answered = 0
    with selectors.DefaultSelector() as selector:
        sockets = [connect(address) for _ in range(connections)]
        for connected in sockets:
            selector.register(connected, selectors.EVENT_READ, bytearray())
            connected.sendall(frame)
        began = now = time.perf_counter()
        in_flight = connections
        while in_flight:
            for key, _ in selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                key.data.extend(ready.recv(size_bytes))
                if len(key.data) < size_bytes:
                    continue
                if key.data[error_position : error_position + 2] != NO_ERROR:
                    raise RuntimeError(key.data.hex())
                key.data.clear()
                answered += 1
                if now < began + seconds:
                    ready.sendall(frame)
                else:
                    in_flight -= 1
            now = time.perf_counter()
        for connected in sockets:
            connected.close()
    return {"rate": answered / (now - began)}


def main() -> None:
    """Print the rate as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", type=Address.parse, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    print(json.dumps(measure(given.address, given.topic, given.connections, given.seconds)))


if __name__ == "__main__":
    main()
