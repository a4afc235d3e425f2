"""One-record Produce on one connection, with a fixed number of requests in flight.

Depth 1 is a request and its answer, so its latency is the broker's own; greater depths show the
rate when requests queue.  Every answer is checked for its size and its error code.
"""

import argparse
import gc
import json
import socket
import time
from typing import Final

from benchmarks import wire
from benchmarks.batches import batch
from benchmarks.connection import Address, connect, receive_exactly

VALUE_SIZE_BYTES: Final = 100
NO_ERROR: Final = b"\x00\x00"


class Produce:
    """The encoded request and the shape of its answer."""

    def __init__(self, topic: str, acks: int) -> None:
        self.frame = wire.produce_request(topic, 0, batch(1, bytes(VALUE_SIZE_BYTES)), acks=acks)
        self.answer_size_bytes = len(wire.produce_answer(topic))
        self.error_position = wire.produce_error_position(topic)


def run_one_by_one(connected: socket.socket, produce: Produce, seconds: float) -> list[int]:
    """Nanoseconds from each send to the end of its answer, for this long."""
    frame, expected, error_position = (
        produce.frame,
        produce.answer_size_bytes,
        produce.error_position,
    )
    answer = bytearray(expected)
    view = memoryview(answer)
    latencies_ns: list[int] = []
    append, clock, patch = latencies_ns.append, time.perf_counter_ns, wire.INT32.pack_into
    position, number = wire.CORRELATION_ID_POSITION, 0
    stop_ns = clock() + int(seconds * 1e9)
    ended_ns = 0
    while ended_ns < stop_ns:
        number += 1
        patch(frame, position, number)
        began_ns = clock()
        connected.sendall(frame)
        received = connected.recv_into(answer)
        if received != expected:
            receive_exactly(connected, view[received:])
        ended_ns = clock()
        append(ended_ns - began_ns)
        if answer[error_position : error_position + 2] != NO_ERROR:
            raise RuntimeError(f"request {number}: {answer.hex()}")
    return latencies_ns


def run_in_flight(
    connected: socket.socket, produce: Produce, seconds: float, depth: int
) -> tuple[int, float]:
    """Answers and seconds, `depth` requests always in flight until the time is up."""
    frame, expected = bytes(produce.frame), produce.answer_size_bytes
    answers = bytearray(expected * depth)
    error_position = produce.error_position
    began = now = time.perf_counter()
    in_flight = answered = partial = 0
    while now < began + seconds or in_flight:
        if now < began + seconds and in_flight < depth:
            # All that is missing in one send: what the client spends is not what is measured.
            connected.sendall(frame * (depth - in_flight))
            in_flight = depth
        received = connected.recv_into(memoryview(answers)[partial:])
        if received == 0:
            raise ConnectionError("the broker closed the connection")
        whole, partial = divmod(partial + received, expected)
        for start in range(0, whole * expected, expected):
            if answers[start + error_position : start + error_position + 2] != NO_ERROR:
                raise RuntimeError(answers[start : start + expected].hex())
        answers[:partial] = answers[whole * expected : whole * expected + partial]
        in_flight -= whole
        answered += whole
        now = time.perf_counter()
    return answered, now - began


def percentile(ordered: list[int], share: float) -> float:
    """The value below which this share of the ordered values lies."""
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])


def measure(
    address: Address, topic: str, seconds: float, depth: int, acks: int = 1
) -> dict[str, float]:
    """Warm up, run, and summarize."""
    produce = Produce(topic, acks)
    with connect(address) as connected:
        warmed, _ = run_in_flight(connected, produce, 0.2, 1)
        gc.disable()
        if depth > 1:
            answered, took_s = run_in_flight(connected, produce, seconds, depth)
            return {"rate": answered / took_s}
        latencies_ns = run_one_by_one(connected, produce, seconds)
    ordered = sorted(latencies_ns)
    shares = {"p50": 0.5, "p99": 0.99, "p99_9": 0.999}
    latencies_s = {key: percentile(ordered, share) / 1e9 for key, share in shares.items()}
    rate = len(ordered) / (sum(ordered) / 1e9)
    return {"rate": rate, "count": float(warmed + len(ordered)), **latencies_s}


def main() -> None:
    """Print the summary as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", type=Address.parse, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--acks", type=int, choices=(-1, 1), default=1)
    given = parser.parse_args()
    print(json.dumps(measure(given.address, given.topic, given.seconds, given.depth, given.acks)))


if __name__ == "__main__":
    main()
