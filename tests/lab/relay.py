"""A TCP relay that is late: `python -m tests.lab.relay --listen A:P --to B:P --delay-ms 50`.

Prints "ready" when it accepts.  What comes in is sent on after the delay, in order, in both ways;
so is a connection's end.  `--mark` is put on the packets of its own connections.
"""

import argparse
import asyncio
import contextlib
import socket
from typing import Final

CHUNK_BYTES: Final = 65536
# A peer that does not read holds up the one that writes, as on a real link.
CHUNKS_MAX: Final = 1024


class Relay:
    """One address that stands for another."""

    def __init__(self, to: tuple[str, int], *, delay_ms: int, mark: int) -> None:
        self._to = to
        self._delay_s = delay_ms / 1000
        self._mark = mark

    async def accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        with contextlib.suppress(OSError):
            onward = socket.socket()
            onward.setblocking(False)
            if self._mark:
                onward.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, self._mark)
            await asyncio.get_running_loop().sock_connect(onward, self._to)
            other_reader, other_writer = await asyncio.open_connection(sock=onward)
            await asyncio.gather(
                self._carry(reader, other_writer), self._carry(other_reader, writer)
            )
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_MAX)
        loop = asyncio.get_running_loop()

        async def take() -> None:
            data = b"-"
            while data:
                try:
                    data = await reader.read(CHUNK_BYTES)
                except OSError:
                    data = b""
                await waiting.put((loop.time() + self._delay_s, data))

        taking = asyncio.ensure_future(take())
        try:
            while True:
                due_s, data = await waiting.get()
                await asyncio.sleep(due_s - loop.time())
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        finally:
            taking.cancel()
            writer.close()


async def serve(listen: tuple[str, int], relay: Relay) -> None:
    """Relay until cancelled."""
    server = await asyncio.start_server(relay.accepted, *listen)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


def address(text: str) -> tuple[str, int]:
    """`host:port`."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.relay", description=__doc__)
    parser.add_argument("--listen", type=address, required=True)
    parser.add_argument("--to", type=address, required=True)
    parser.add_argument("--delay-ms", type=int, required=True)
    parser.add_argument("--mark", type=int, default=0)
    arguments = parser.parse_args()
    relay = Relay(arguments.to, delay_ms=arguments.delay_ms, mark=arguments.mark)
    asyncio.run(serve(arguments.listen, relay))


if __name__ == "__main__":
    main()
