"""`python -m tests.fuzz PORT`: send hostile frames to a broker on this machine, and count."""

import argparse
import asyncio
import json
import os
import ssl
import time

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.client import Client

from .frames import Frames
from .messages import TOPICS
from .sender import Sender

NICE = 10


async def main(port: int, seed: int, count: int, ca: str | None) -> None:
    """Send `count` frames and print what has become of them, as JSON."""
    tls = None
    if ca is not None:
        tls = ssl.create_default_context(cafile=ca)
        tls.check_hostname = False
    async with await Client.connect(port, ssl=tls) as client:
        ids = [(await client.create_topic(name, 2)).topic_id for name in TOPICS]
        for key_type in (0, 1):  # the topics of the coordinators
            request = FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type)
            await client.ask(request, 4)
    began_s = time.monotonic()
    sender = Sender(Frames(seed, ids), port, count, tls)
    await sender.run()
    print(json.dumps(sender.counts | {"seconds": round(time.monotonic() - began_s, 1)}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--ca", help="for a listener with TLS: the authority's certificate")
    given = parser.parse_args()
    os.nice(NICE)
    asyncio.run(main(given.port, given.seed, given.count, given.ca))
