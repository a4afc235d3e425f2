"""Makes the golden data directories of this version, by hand, at each release.

`python -m tests.vectors.odradek.record`: a broker of its own is filled through the wire and then
stopped cleanly (`odradek-VERSION-stopped.tar.xz`) or killed (`odradek-VERSION-killed.tar.xz`). What
clients saw of it just before lies beside each as JSON, which is to be read before it is committed.
tests/broker/test_golden_directories.py opens them.
"""

import asyncio
import json
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.records import Codec, Record, build_batch
from tests.broker.golden import BROKER_RESOURCE, TOPIC_RESOURCE, batches_in, picture_of
from tests.broker.group_requests import commit, consumer_heartbeat, join, sync
from tests.broker.requests import (
    change_configs,
    create_partitions,
    delete_topics,
)
from tests.support.client import Client
from tests.support.messages import delete_records
from tests.wire.servers import OdradekServer

HERE: Final = Path(__file__).parent
LOG_DIRS: Final = ("data-1", "data-2")
DEADLINE_S: Final = 60
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "100",
    "offsets.topic.num.partitions": "2",
}
SMALL: Final = {"segment.bytes": "600", "index.interval.bytes": "100"}
TOPICS: Final = {
    "codecs": {},
    "compacted": {
        **SMALL,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
    },
    "gone": {},
    "retained": {**SMALL, "retention.bytes": "1500"},
    "sequences": SMALL,
    "settings": {"retention.ms": "86400000", "min.insync.replicas": "1"},
    "synced": {"flush.messages": "1"},
    "trimmed": SMALL,
}
SET: Final = 0
DELETE: Final = 1


class Filling:
    """The work of a few clients; times of records count up from `start_ms`."""

    def __init__(self, client: Client, start_ms: int) -> None:
        self._client = client
        self._start_ms = start_ms

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request, which must not be refused as a whole."""
        answer = await self._client.ask(request, version)
        assert getattr(answer, "error_code", 0) == 0, answer
        return answer

    async def append(
        self, topic: str, pairs: Sequence[tuple[str | None, str | None]], at_ms: int, **more: Any
    ) -> int:
        """Produce one batch of these keys and values; its base offset."""
        records = [
            Record(
                index,
                self._start_ms + at_ms + index,
                None if key is None else key.encode(),
                None if value is None else value.encode(),
                [("from", b"record.py"), ("none", None)] if topic == "codecs" else [],
            )
            for index, (key, value) in enumerate(pairs)
        ]
        return await self._client.append(topic, build_batch(records, **more))

    async def first_life(self) -> None:
        """What the broker has seen when it is restarted."""
        for topic, configs in TOPICS.items():
            await self._client.create_topic(topic, configs=configs)
        await self.ask(create_partitions("settings", 3), 3)
        for codec in Codec:
            await self.append(
                "codecs",
                [("same", codec.name), (None, codec.name * 20), ("empty", None)],
                100 * codec,
                codec=codec,
            )
        for n in range(40):
            pairs = [(f"k{n % 7}", f"v{n}"), (f"k{n % 3}", None if n % 5 == 2 else f"w{n}")]
            await self.append("compacted", pairs, 10 * n)
            await self.append("retained", [(None, f"r{n}" * 10)], 10 * n)
            await self.append("trimmed", [(None, f"t{n}")] * 2, 10 * n)
        deleted = await self.ask(delete_records(("trimmed", 0, 25)), 2)
        assert deleted.topics[0].partitions[0].error_code == 0
        await self.until("retained", lambda batches: len(batches) < 20)
        await self.until("compacted", lambda batches: len(batches) < 15)
        await self.sequences(10)
        await self.ask(delete_topics(6, "gone"), 6)

    async def second_life(self) -> None:
        """What came after the restart; some of it in another leader epoch."""
        await self.raise_epoch("codecs")
        await self.raise_epoch("sequences")
        for topic in ("codecs", "synced", "trimmed", "retained", "settings"):
            await self.append(topic, [("second", "life")], 5000)
        await self.sequences(3)
        changed = await self.ask(
            change_configs(
                TOPIC_RESOURCE,
                "settings",
                ("retention.ms", SET, "-1"),
                ("min.insync.replicas", DELETE, None),
                ("max.message.bytes", SET, "54321"),
            ),
            1,
        )
        assert changed.responses[0].error_code == 0
        changed = await self.ask(
            change_configs(BROKER_RESOURCE, "", ("log.cleaner.threads", SET, "2")), 1
        )
        assert changed.responses[0].error_code == 0
        quota = EntryData(
            entity=[EntityData(entity_type="client-id", entity_name="greedy")],
            ops=[OpData(key="producer_byte_rate", value=1e6)],
        )
        await self.ask(AlterClientQuotasRequest(entries=[quota]), 1)
        await self.groups()

    async def raise_epoch(self, topic: str) -> None:
        """Reassign the partition to the broker that has it: this begins a leader epoch."""
        partition = ReassignablePartition(partition_index=0, replicas=[0])
        moved = ReassignableTopic(name=topic, partitions=[partition])
        await self.ask(AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=10_000), 0)

    async def sequences(self, count: int) -> None:
        """Batches of two new producers; the first one's epoch is not its first."""
        for epoch in (1, 0):
            answer = await self.ask(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4
            )
            for n in range(count):
                await self.append(
                    "sequences",
                    [(None, f"p{answer.producer_id} {n}"), (None, "second")],
                    6000 + 10 * n,
                    producer_id=answer.producer_id,
                    producer_epoch=epoch,
                    base_sequence=2 * n,
                )

    async def groups(self) -> None:
        """A classic group and one of KIP-848, each with a member and offsets; offsets of nobody."""
        for group in ("classic", "consumer", "nobody"):
            await self.ask(FindCoordinatorRequest(key=group), 3)
        member_id = (await self._client.ask(join("classic", topics=["codecs"]), 5)).member_id
        joined = await self.ask(join("classic", member_id, topics=["codecs"]), 5)
        shares = {member_id: b"codecs-0"}
        await self.ask(sync("classic", joined.generation_id, member_id, shares), 3)
        beat = await self.ask(consumer_heartbeat("consumer", "c" * 22, topics=["settings"]), 1)
        for group, topic, offsets, epoch, member in (
            ("classic", "codecs", {0: 3}, joined.generation_id, member_id),
            ("classic", "codecs", {0: 7}, joined.generation_id, member_id),
            ("consumer", "settings", {0: 1, 2: 0}, beat.member_epoch, "c" * 22),
            ("nobody", "trimmed", {0: 30}, -1, ""),
        ):
            request = commit(
                group, topic, offsets, generation_id=epoch, member_id=member, metadata="so far"
            )
            answer = await self.ask(request, 9)
            codes = [it.error_code for it in answer.topics[0].partitions]
            assert not any(codes), (group, codes)

    async def until(self, topic: str, holds: Callable[[Sequence[bytes]], bool]) -> None:
        """Return once it holds of the topic's batches, and they don't change any more."""
        async with asyncio.timeout(DEADLINE_S):
            seen: list[bytes] = []
            while not holds(seen) or seen != await batches_in(self._client, topic):
                seen = await batches_in(self._client, topic)
                await asyncio.sleep(1)


async def fill(server: OdradekServer) -> tuple[int, Any]:
    """Let a broker live twice; the beginning of time, and what clients see at the end."""
    start_ms = time.time_ns() // 1_000_000
    async with await Client.connect(server.port) as client:
        await Filling(client, start_ms).first_life()
    server.stop()
    server.start()
    async with await Client.connect(server.port) as client:
        await Filling(client, start_ms).second_life()
        picture = await picture_of(client, start_ms)
    (codecs,) = picture["topics"]["codecs"]["partitions"]
    assert list(codecs["ends of epochs"]) == ["0", "1"]
    return start_ms, picture


def record(end: str) -> None:
    """Make one archive and the JSON beside it."""
    name = f"odradek-{version('odradek')}-{end}"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        server = OdradekServer(home, SETTINGS)
        server.data_dir = Path(",".join(str(home / log_dir) for log_dir in LOG_DIRS))
        server.start()
        try:
            start_ms, picture = asyncio.run(fill(server))
            if end == "stopped":
                server.stop()
        finally:
            server.kill()
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            for log_dir in LOG_DIRS:
                archive.add(home / log_dir, log_dir, filter=_of_nobody)
    told = {"start ms": start_ms, "log dirs": LOG_DIRS, **picture}
    (HERE / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who recorded it is nobody's business."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    for ending in ("stopped", "killed"):
        record(ending)
