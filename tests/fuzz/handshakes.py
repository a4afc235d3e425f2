"""`python -m tests.fuzz.handshakes PORT COUNT`: do whole handshakes of TLS, many at a time."""

import asyncio
import ssl
import sys
from typing import Final

from .target import HOST

TOGETHER: Final = 32


async def shake_hands(port: int, count: int) -> None:
    """Connect so often, with a whole handshake each, many at a time; and hang up."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    left = iter(range(count))

    async def some() -> None:
        for _ in left:
            _, writer = await asyncio.open_connection(HOST, port, ssl=context)
            writer.transport.abort()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(TOGETHER):
            tasks.create_task(some())


if __name__ == "__main__":
    asyncio.run(shake_hands(int(sys.argv[1]), int(sys.argv[2])))
