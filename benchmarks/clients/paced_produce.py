"""One-record Produce at a fixed pace on one connection: how late each answer is.

A request is due at its moment whether the one before was answered or not, and its latency counts
from there: a broker that stands still for a second is late for every request of that second.
"""

import argparse
import json
import time
from typing import Final

from benchmarks import wire
from benchmarks.batches import batch
from benchmarks.connection import Address, call, connect

VALUE_SIZE_BYTES: Final = 100
NO_ERROR: Final = b"\x00\x00"


def measure(address: Address, topic: str, per_second: float, seconds: float) -> list[float]:
    """Seconds from the moment at which each request was due to its answer.

    Raises: RuntimeError (an answer with an error).
    """
    frame = bytes(wire.produce_request(topic, 0, batch(1, bytes(VALUE_SIZE_BYTES))))
    error_position = wire.produce_error_position(topic) - 4  # behind the size
    latencies = []
    with connect(address) as connected:
        began = time.perf_counter()
        for number in range(int(per_second * seconds)):
            due = began + number / per_second
            early = due - time.perf_counter()
            if early > 0:
                time.sleep(early)
                due = time.perf_counter()  # that the sleep was too long is not the broker's fault
            answer = call(connected, frame)
            if answer[error_position : error_position + 2] != NO_ERROR:
                raise RuntimeError(answer.hex())
            latencies.append(time.perf_counter() - due)
    return latencies


def main() -> None:
    """Print percentiles as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", type=Address.parse, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--per-second", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    latencies = sorted(measure(given.address, given.topic, given.per_second, given.seconds))
    print(
        json.dumps(
            {
                "p50": latencies[len(latencies) // 2],
                "p99": latencies[int(len(latencies) * 0.99)],
                "p99_9": latencies[int(len(latencies) * 0.999)],
                "max": latencies[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
