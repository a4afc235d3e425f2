"""The floor: the same bytes through a bare socket loop and bare file calls, in Python too.

No protocol, no log, no checks: what is received goes to one `write`, what is sent comes from one
`sendfile`, and the answer was encoded beforehand.  The same clients that measure the brokers run
against it, so the distance to it is what a broker spends on being one.
"""

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from . import wire
from .connection import Address, receive_exactly

BUFFER_SIZE_BYTES: Final = 4 << 20


def serve_produce(connected: socket.socket, file: int, topic: str) -> None:
    """Write every frame to the file and answer it, until the client closes."""
    answer = bytearray(wire.produce_answer(topic))
    buffer = bytearray(BUFFER_SIZE_BYTES)
    view = memoryview(buffer)
    filled = 0
    while received := connected.recv_into(view[filled:]):
        filled += received
        start, answers = 0, b""
        while filled - start >= 4:
            end = start + 4 + wire.INT32.unpack_from(buffer, start)[0]
            if end > filled:
                break
            os.write(file, view[start:end])
            answer[4:8] = view[start + 8 : start + 12]
            answers += answer
            start = end
        if answers:
            connected.sendall(answers)
        buffer[: filled - start] = buffer[start:filled]
        filled -= start


def serve_fetch(connected: socket.socket, file: int, span_size_bytes: int) -> None:
    """Answer every frame with the next span of the file, until the client closes."""
    head = bytearray(wire.fetch_answer_head(bytes(16), span_size_bytes))
    file_size_bytes = os.fstat(file).st_size
    request = memoryview(bytearray(65536))
    position = 0
    while received := connected.recv_into(request):
        end = 4 + wire.INT32.unpack_from(request)[0] if received >= 4 else 4
        receive_exactly(connected, request[received:end])
        head[4:8] = request[8:12]
        connected.sendall(head, socket.MSG_MORE)
        sent = 0
        while sent < span_size_bytes:
            sent += os.sendfile(connected.fileno(), file, position + sent, span_size_bytes - sent)
        connected.sendall(wire.FETCH_ANSWER_TAIL)
        position += span_size_bytes
        if position + span_size_bytes > file_size_bytes:
            position = 0


@contextmanager
def floor_server(directory: Path, *arguments: str) -> Iterator[Address]:
    """A bare server for one connection after another, with these arguments of `main`."""
    command = [sys.executable, "-m", "benchmarks.floor", "--file", str(directory / "floor")]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Address.parse(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    """Print the address, then serve one connection after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--topic", default="floor", help="in the answers to Produce")
    parser.add_argument("--span-bytes", type=int, default=0, help="serve Fetch with such spans")
    parser.add_argument("--file-bytes", type=int, default=0, help="what Fetch reads from")
    parser.add_argument("--append-bytes", type=int, default=4096, help="how it was written")
    given = parser.parse_args()
    file = os.open(given.file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    # Written in pieces as small as a broker's appends: a large write makes larger cache pages.
    for _ in range(given.file_bytes // given.append_bytes):
        os.write(file, bytes(given.append_bytes))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        print(Address(host, port), flush=True)
        while True:
            connected, _ = listener.accept()
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connected:
                if given.span_bytes:
                    serve_fetch(connected, file, given.span_bytes)
                else:
                    serve_produce(connected, file, given.topic)


if __name__ == "__main__":
    main()
