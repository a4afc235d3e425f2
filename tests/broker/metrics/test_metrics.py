"""What is read of a running broker's metrics."""

import asyncio
from pathlib import Path

import pytest

from odradek.broker.metrics.metrics import Metrics
from odradek.storage.errors import LogDirFailed
from tests.support.awaiting import until
from tests.support.messages import batch_of

from ..running import RunningBroker, on_broker, running


def gauges(broker: RunningBroker) -> dict[str, int]:
    return {
        sample.name: sample.value
        for sample in broker.node.metrics.read()
        if not sample.is_count and sample.value
    }


@on_broker(both=False)
async def test_requests_and_replicas(broker: RunningBroker) -> None:
    assert gauges(broker) == {"active_controller_count": 1}
    client = await broker.client()
    await client.create_topic("t", partitions=2)
    for _ in range(3):
        await client.append("t", batch_of(b"v" * 1000))
    found = await client.fetch("t")
    assert found.records is not None
    sent_bytes = len(found.records)
    assert gauges(broker) == {
        "active_controller_count": 1,
        "connection_count": 1,
        "partition_count": 2,
        "leader_count": 2,
    }
    read = {
        (sample.name, sample.labels["api"]): sample.value
        for sample in broker.node.metrics.read()
        if sample.labels
    }
    assert read["requests", "Produce"] == 3
    assert 3000 < read["request_bytes", "Produce"] < 4000
    assert sent_bytes < read["response_bytes", "Fetch"] < sent_bytes + 200, "with its file spans"
    names = [sample.name for sample in broker.node.metrics.read() if sample.is_count]
    assert "committed_records_lost" in names


def test_replicas_that_are_offline(tmp_path: Path) -> None:
    async def main() -> None:
        settings = {"log.dirs": f"{tmp_path}/first,{tmp_path}/second"}
        async with running(tmp_path, settings) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=4)
            replicas = broker.node.replicas
            replicas.take_offline(LogDirFailed("broken", replicas.log_dirs.paths[1]))
            await until(lambda: gauges(broker).get("leader_count") == 2)
            seen = gauges(broker)
            assert seen["partition_count"] == seen["offline_replica_count"] == 2
            assert seen["offline_log_directory_count"] == 1

    asyncio.run(main())


def test_a_gauge_has_one_owner() -> None:
    metrics = Metrics()
    metrics.add_gauges({"a": lambda: 1})
    with pytest.raises(AssertionError, match="'a'"):
        metrics.add_gauges({"a": lambda: 2})
