"""Brokers that serve no more than a release of Kafka did."""

import asyncio
import struct
from pathlib import Path

import pytest

from odradek.broker.config import ConfigError, load_config
from odradek.broker.handlers import APIS, Need
from odradek.broker.handlers.releases import apis_like, versions_in
from odradek.broker.settings.releases import RELEASES
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from tests.broker.running import RunningBroker, running
from tests.kafka import releases
from tests.kafka.apache import Kafka43
from tests.support.api_versions import kafkas_ranges
from tests.support.connections import AsyncConnection, HungUp
from tests.support.messages import batch_of

CLIENTS = [api for api in APIS.values() if api.is_advertised and api.need is not Need.BROKER]


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_versions_that_are_served(release: str) -> None:
    limited = apis_like(release)
    assert {api.key for api in APIS.values()} - {api.key for api in CLIENTS} <= limited.keys()
    for api in CLIENTS:
        versions = versions_in(release, api.key)
        if versions is None:
            assert api.key not in limited
            continue
        like = limited[api.key]
        assert (like.first, like.last) == (versions[0], min(versions[1], api.last))
        assert like.first <= like.last <= like.last_of_v2 <= versions[1]
        assert (like.name, like.module, like.flexible) == (api.name, api.module, api.flexible)


def test_like_3_9_is_what_a_broker_of_3_9_lists() -> None:
    """With ZooKeeper; one with KRaft also lists DescribeTopicPartitions."""
    kafkas = kafkas_ranges()
    like = {key: (api.first, api.last) for key, api in apis_like("3.9").items() if key in kafkas}
    assert like == {key: kafkas[key] for key in like}
    later = {key for key in apis_like("3.9") if key < 20_000} - kafkas.keys()
    assert later == {75}


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES)
def test_the_table_is_that_of_the_release(release: str) -> None:
    told = releases.ranges_of(release)
    assert {api.key: versions_in(release, api.key) for api in CLIENTS} == {
        api.key: told.get(api.key) for api in CLIENTS
    }


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"odradek.compatibility": "2.9"},
            "odradek.compatibility=2.9 is not allowed: it must be one of 0.11, .*, 4.3",
        ),
        (
            {"odradek.compatibility": "2.8", "zookeeper.connect": "h:1"},
            "give brokers a listener of their own by inter.broker.listener.name",
        ),
        (
            {"odradek.compatibility": "3.9", "odradek.transaction.version": "2"},
            "odradek.transaction.version=2 does not go with odradek.compatibility=3.9",
        ),
    ],
)
def test_what_does_not_go_together(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_config(overrides=settings)


async def raw(
    broker: RunningBroker | Kafka43, api_key: int, version: int, body: bytes = b""
) -> bytes:
    """The answer to a request with header 1; empty if the connection closes."""
    async with await AsyncConnection.connect(broker.port) as connection:
        connection.send_frame(struct.pack(">hhih", api_key, version, 7, -1) + body)
        try:
            return await connection.read_frame()
        except HungUp:
            return b""


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        settings = {"odradek.compatibility": "1.1"}
        async with running(tmp_path, settings) as broker:
            client = await broker.client()
            told = (await client.ask(ApiVersionsRequest(), 1)).api_keys
            ranges = {api.api_key: (api.min_version, api.max_version) for api in told}
            assert (ranges[0], ranges[18], 60 in ranges) == ((0, 5), (0, 1), False)
            # Brokers before KIP-511 don't say which versions they have, but only "error 35".
            assert await raw(broker, 18, 3) == struct.pack(">ihi", 7, 35, 0)
            assert await raw(broker, 3, 6) == b""
            assert await raw(broker, 60, 0) == b""
            assert (await raw(broker, 3, 5, struct.pack(">iB", 0, 0)))[:4] == struct.pack(">i", 7)

    asyncio.run(main())


@pytest.mark.soak
@pytest.mark.java
def test_like_4_3_is_what_a_broker_of_4_3_lists(tmp_path: Path) -> None:
    kafka = Kafka43(tmp_path)
    try:
        kafka.start()
        answer = asyncio.run(raw(kafka, 18, 0))
        rows = {key: (first, last) for key, first, last in struct.iter_unpack(">hhh", answer[10:])}
        wanted = {api.key: versions_in("4.3", api.key) for api in CLIENTS}
        assert rows[0] == (0, 13)  # but it closes the connection after Produce 2
        assert asyncio.run(raw(kafka, 0, 2, struct.pack(">hii", 1, 1000, 0))) == b""
        assert {api.key: rows.get(api.key) for api in CLIENTS} == {**wanted, 0: (0, 13)}
    finally:
        kafka.close()


def test_kafka_4_shows_versions_of_produce_that_it_refuses(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, {"odradek.compatibility": "4.0"}) as broker:
            client = await broker.client()
            told = (
                await client.ask(
                    ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4
                )
            ).api_keys
            ranges = {api.api_key: (api.min_version, api.max_version) for api in told}
            assert (ranges[0], ranges[1]) == ((0, 11), (4, 17))
            assert await raw(broker, 0, 2) == b""
            await client.create_topic("t")
            assert await client.append("t", batch_of(b"v")) == 0

    asyncio.run(main())
