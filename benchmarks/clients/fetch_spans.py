"""Raw Fetch of one partition, span after span, one request in flight.

The topic is filled with equal batches, so the next offset follows from the size of the records;
nothing is parsed.  At the end of the partition it starts again.
"""

import argparse
import json
import time
from typing import Final

from benchmarks import wire
from benchmarks.connection import Address, connect, receive_exactly

HEAD_SIZE_BYTES_MAX: Final = 128
"""No answer's bytes around its records are more than this."""


def measure(given: argparse.Namespace) -> dict[str, float]:
    """Bytes of whole batches a second, and the median time of a request."""
    spans_batches = max(1, given.span_bytes // given.batch_bytes)
    # A whole number of batches: Kafka fills up to the limit with a torn batch, Odradek does not.
    bytes_max = spans_batches * given.batch_bytes
    request = wire.fetch_request(bytes.fromhex(given.topic_id), 0, offset=0, bytes_max=bytes_max)
    answer = bytearray(bytes_max + HEAD_SIZE_BYTES_MAX)
    view = memoryview(answer)
    clock, patch = time.perf_counter_ns, wire.INT64.pack_into
    offset = received_batches = 0
    times_ns: list[int] = []
    with connect(given.address, given.authority) as connected:
        began_ns = ended_ns = clock()
        while ended_ns < began_ns + given.seconds * 1e9:
            patch(request.data, request.offset_position, offset)
            sent_ns = clock()
            connected.sendall(request.data)
            got = connected.recv_into(view)
            if got < 4:
                receive_exactly(connected, view[got:4])
                got = 4
            end = 4 + wire.INT32.unpack_from(answer)[0]
            receive_exactly(connected, view[got:end])
            ended_ns = clock()
            times_ns.append(ended_ns - sent_ns)
            if wire.fetch_error(answer[4 : wire.FETCH_RECORDS_POSITION]):
                raise RuntimeError(f"Fetch at {offset}: {answer[:80].hex()}")
            batches = (end - wire.FETCH_RECORDS_POSITION) // given.batch_bytes
            received_batches += batches
            offset = (offset + batches * given.batch_records) % given.records
    times_ns.sort()
    return {
        "rate": received_batches * given.batch_bytes / ((ended_ns - began_ns) / 1e9),
        "p50": times_ns[len(times_ns) // 2] / 1e9,
        "seconds": (ended_ns - began_ns) / 1e9,
    }


def main() -> None:
    """Print the summary as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", type=Address.parse, required=True)
    parser.add_argument("--topic-id", required=True, help="in hexadecimal")
    parser.add_argument("--span-bytes", type=int, required=True)
    parser.add_argument("--batch-bytes", type=int, required=True)
    parser.add_argument("--batch-records", type=int, required=True)
    parser.add_argument("--records", type=int, required=True, help="records in the partition")
    parser.add_argument("--authority", help="the file of whom to trust; without it, no TLS")
    parser.add_argument("--seconds", type=float, default=3.0)
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
