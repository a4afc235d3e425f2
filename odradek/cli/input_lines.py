"""Lines of standard input as they come, so that a slow writer holds nothing up."""

import os
import select
from collections.abc import Iterator
from typing import BinaryIO, Final

from odradek.pipeline.stop_signals import Stop

CHUNK_BYTES: Final = 1 << 20
IDLE_S: Final = 0.1


def lines_of(file: BinaryIO, stop: Stop, *, line_bytes_max: int) -> Iterator[bytes | None]:
    """Lines without their newlines, and None wherever the next one may take time to come.

    It ends with the file, with a signal, or with the first part of a line that is too long.
    """
    try:
        descriptor = file.fileno()
    except OSError:  # a file in memory
        yield from (line.removesuffix(b"\n") for line in file)
        return
    begun: list[bytes] = []  # the parts of a line whose end has not come
    begun_bytes = 0
    while not stop.is_set() and begun_bytes <= line_bytes_max:
        if select.select([descriptor], [], [], IDLE_S)[0]:
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                break
            first, *others = chunk.split(b"\n")
            begun.append(first)
            begun_bytes += len(first)
            if others:
                yield b"".join(begun)
                yield from others[:-1]
                begun, begun_bytes = [others[-1]], len(others[-1])
        yield None
    if begun_bytes and not stop.is_set():
        yield b"".join(begun)
