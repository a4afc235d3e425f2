"""A follower's Fetch is answered with all that is new, though the leader looks at little of it.

Here the leader never looks at all partitions of a session, and a waiting Fetch never ends by
itself: whatever nobody notes is not answered.
"""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.broker.core import fetch_session_slots
from tests.seeds import seeds
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, delete_records

from .cluster import TOPIC, Cluster, Replicating, replicating, state_of

PARTITIONS = range(5)
NEVER_MS = 1 << 40
SETTINGS = {
    "replica.fetch.wait.max.ms": "25000",
    "replica.fetch.response.max.bytes": "3000",
    "replica.socket.timeout.ms": "60000",
}
pytestmark = [pytest.mark.wire, pytest.mark.timeout(60)]


async def write(clients: Sequence[Client], rng: random.Random) -> None:
    """A record to each of some partitions, one after another or all at once; all replicas ack."""
    kept = [
        clients[partition].produce(
            TOPIC, batch_of(bytes(rng.choice((1, 1000, 4000)))), partition=partition, acks=-1
        )
        for partition in rng.sample(PARTITIONS, rng.randint(1, len(PARTITIONS)))
    ]
    if rng.random() < 0.5:
        results = await asyncio.gather(*kept)
    else:
        results = [await one for one in kept]
    assert not any(result.error_code for result in results)


async def delete(client: Client, leader: Replicating, partition: int) -> None:
    """All records, in all replicas: the follower says so with its next Fetch."""
    offset = leader.partition((TOPIC, partition)).log.high_watermark
    request = delete_records((TOPIC, partition, offset))
    request.timeout_ms = 100
    await client.ask(request, 2)


async def lead_anew(cluster: Cluster, partition: int) -> None:
    """The same broker, in another epoch."""
    epoch = cluster[1].partition((TOPIC, partition)).state.leader_epoch + 1
    both = [1, 2]
    state = state_of(1, epoch, both, both, partition=partition, partition_epoch=epoch)
    await cluster.take(state)


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_all_that_is_new_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fetch_session_slots, "LOOK_MS", NEVER_MS)
    rng = random.Random(seed)

    async def main() -> None:
        async with replicating(tmp_path, 2, SETTINGS) as cluster:
            both = [1, 2]
            await cluster.take(*(state_of(1, 0, both, both, partition=n) for n in PARTITIONS))
            clients = [await cluster[1].client() for _ in PARTITIONS]
            for _ in range(20):
                await write(clients, rng)
                kind, partition = rng.random(), rng.choice(PARTITIONS)
                if kind < 0.2:
                    await delete(clients[0], cluster[1], partition)
                elif kind < 0.4:
                    await lead_anew(cluster, partition)
            await write(clients, rng)
            for partition in PARTITIONS:
                logs = [cluster[n].partition((TOPIC, partition)).log for n in both]
                await until(lambda logs=logs: logs[0].log_end_offset == logs[1].log_end_offset)  # type: ignore[misc]

    asyncio.run(main())
