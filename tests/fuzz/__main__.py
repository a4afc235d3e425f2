"""`python -m tests.fuzz PORT`: send hostile frames to a broker on this machine, and count."""

import argparse
import asyncio
import json
import os
import ssl
import time

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest

from .frames import Frames
from .listener import Listener
from .logins import LoginSender
from .messages import TOPICS
from .sender import Sender
from .tls_records import RecordSender

NICE = 10
PASSWORD = "ODRADEK_FUZZ_PASSWORD"
"""The variable with the password of alice, for a listener with SASL."""


async def main(given: argparse.Namespace) -> None:
    """Send what the command line says, and print what has become of it, as JSON."""
    began_s = time.monotonic()
    counts: dict[str, float] = {}
    tls = None if given.ca is None else ssl.create_default_context(cafile=given.ca)
    listener = Listener(given.port, tls, os.environ.get(PASSWORD))
    if given.logins:
        logins = LoginSender(given.seed, Frames(given.seed, [bytes(16)]), listener, given.logins)
        await logins.run()
        counts |= logins.counts
    else:
        counts |= await send_frames(listener, given.seed, given.count, given.per_second)
        if tls is not None and given.records:
            records = RecordSender(given.seed, given.port, given.records, tls)
            await records.run()
            counts |= {f"TLS {name}": value for name, value in records.counts.items()}
    print(json.dumps(counts | {"seconds": round(time.monotonic() - began_s, 1)}))


async def send_frames(
    listener: Listener, seed: int, count: int, per_second: float | None
) -> dict[str, float]:
    """Send frames; return what has become of them."""
    async with await listener.connect() as client:
        ids = [(await client.create_topic(name, 2)).topic_id for name in TOPICS]
        for key_type in (0, 1):  # the topics of the coordinators
            request = FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type)
            await client.ask(request, 4)
    sender = Sender(Frames(seed, ids), listener, count, per_second)
    await sender.run()
    return dict(sender.counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--per-second", type=float, help="frames; as many as are taken by default")
    parser.add_argument("--ca", help="for a listener with TLS: the authority's certificate")
    parser.add_argument("--records", type=int, default=1000, help="orders of records of TLS")
    parser.add_argument(
        "--logins", type=int, help="for a listener with SASL: orders of requests, instead of frames"
    )
    parser.add_argument("--idle", action="store_true", help="compute only when nobody else does")
    given = parser.parse_args()
    if given.idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(NICE)
    asyncio.run(main(given))
