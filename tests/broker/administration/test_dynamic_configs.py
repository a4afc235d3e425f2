"""A changed config counts at once, and after a restart."""

import asyncio
import logging
from pathlib import Path

import pytest

from odradek.broker.config import BUILT
from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import ANY_VERSION, Create, Delete
from odradek.broker.coordination.notifications import AGE_MS_MAX
from odradek.broker.core.partition import Partition
from odradek.broker.groups.settings import group_settings
from odradek.broker.maintenance.producer_expiry import ProducerExpiry
from odradek.broker.settings.changes import FIXED
from odradek.broker.settings.known import DYNAMIC
from odradek.broker.settings.topic_config import TOPIC_SETTINGS
from odradek.protocol.errors import ErrorCode
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.connections import HungUp
from tests.support.messages import batch_of

from ..requests import alter_configs, change_configs, delete_topics, describe_configs, metadata
from ..running import RunningBroker, on_broker, running

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE = 0, 1


async def change(client: Client, kind: int, name: str, **configs: str) -> None:
    changes = [(key.replace("_", "."), SET, value) for key, value in configs.items()]
    (response,) = (await client.ask(change_configs(kind, name, *changes), 1)).responses
    assert response.error_code == 0, response.error_message


async def produced(client: Client, topic: str, size_bytes: int = 100) -> int:
    """The error code."""
    answer = await client.produce(topic, batch_of(b"x" * size_bytes))
    code: int = answer.error_code
    return code


def partition(broker: RunningBroker, topic: str) -> Partition:
    return broker.node.replicas.partitions[topic, 0]


@on_broker(both=False)
async def test_a_topic_s_settings_count_at_once(broker: RunningBroker) -> None:
    client = await broker.client()
    for topic in ("t", "u"):
        await client.create_topic(topic)
    await change(client, TOPIC, "t", max_message_bytes="500", segment_bytes="400")
    assert await produced(client, "t", 600) == ErrorCode.MESSAGE_TOO_LARGE
    assert await produced(client, "u", 600) == 0
    for _ in range(3):
        assert await produced(client, "t", 200) == 0
    assert len(partition(broker, "t").log.segments) == 3
    await change(client, TOPIC, "t", message_timestamp_type="LogAppendTime")
    answer = await client.produce("t", batch_of(b"x"))
    assert answer.log_append_time_ms > 0
    await client.ask(alter_configs(TOPIC, "t", {}), 2)
    assert await produced(client, "t", 600) == 0


@pytest.mark.parametrize("name", ["", "0"])
@on_broker(both=False)
async def test_a_broker_s_settings_count_at_once_for_its_topics(
    broker: RunningBroker, name: str
) -> None:
    client = await broker.client()
    await client.create_topic("plain")
    await client.create_topic("own", configs={"max.message.bytes": "2000"})
    await change(
        client,
        BROKER,
        name,
        message_max_bytes="500",
        log_segment_bytes="400",
        producer_id_expiration_ms="77",
    )
    await client.create_topic("later")
    for topic in ("plain", "later"):
        assert await produced(client, topic, 600) == ErrorCode.MESSAGE_TOO_LARGE
        for _ in range(3):
            assert await produced(client, topic, 200) == 0
        assert len(partition(broker, topic).log.segments) == 3
        assert partition(broker, topic).log.config.producer_id_expiration_ms == 77
    assert await produced(client, "own", 300) == 0
    assert broker.node.config.producer_id_expiration_ms == 77
    await client.ask(alter_configs(BROKER, name, {}), 2)
    assert await produced(client, "plain", 600) == 0


OTHER_VALUES = {
    "compression.gzip.level": "9",
    "compression.lz4.level": "17",
    "compression.type": "zstd",
    "compression.zstd.level": "-7",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "log.cleanup.policy": "compact",
    "log.message.downconversion.enable": None,
    "log.message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "true",
}
OF_TOPICS = {
    synonym: setting
    for setting in TOPIC_SETTINGS.values()
    for synonym, _ in setting.synonyms
    if synonym in BUILT and synonym in DYNAMIC
}


@pytest.mark.slow
@on_broker(both=False)
async def test_every_setting_of_topics_reaches_them(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    tried = 0
    for synonym, setting in OF_TOPICS.items():
        value = OTHER_VALUES.get(synonym, "12345")
        if value is None:
            continue
        request = change_configs(BROKER, "", (synonym, SET, value))
        assert (await client.ask(request, 1)).responses[0].error_code == 0
        assert getattr(partition(broker, "t").config, setting.attribute) == setting.parse(value)
        await client.ask(alter_configs(BROKER, "", {}), 2)  # one bound of time is another's default
        tried += 1
    assert tried == len(OF_TOPICS) - 1 >= 26


def test_every_other_setting_is_tried_here() -> None:
    assert (BUILT.keys() & DYNAMIC) - OF_TOPICS.keys() - FIXED == {
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "num.recovery.threads.per.data.dir",
        "max.connection.creation.rate",  # net/test_creation_rates.py
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "num.replica.fetchers",  # tests/broker/replication/test_following.py
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",  # handlers/test_verification.py
    }


RATES = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LISTS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


@on_broker(both=False)
async def test_throttles_come_and_go(broker: RunningBroker) -> None:
    """What Kafka's own tool sets, and takes away, in the order in which it does so."""
    client = await broker.client()
    await client.create_topic("t")
    await client.create_topic("u")
    assert await throttles_shown(client) == {}
    for name, value in (("", "500"), ("0", "1000")):
        request = change_configs(BROKER, name, *((rate, SET, value) for rate in RATES))
        assert (await client.ask(request, 1)).responses[0].error_code == 0
    assert await throttles_shown(client) == dict.fromkeys(RATES, ("1000", 2))
    request = change_configs(TOPIC, "t", *((name, SET, "0:0,1:1") for name in LISTS))
    assert (await client.ask(request, 1)).responses[0].error_code == 0
    config = partition(broker, "t").config
    for throttled in (config.throttled_leaders, config.throttled_followers):
        assert (0, 0) in throttled
        assert (0, 1) not in throttled
    assert (0, 0) not in partition(broker, "u").config.throttled_leaders
    assert broker.node.config.leader_replication_throttled_rate == 1000
    for name, left in (("0", 500), ("", None)):
        request = change_configs(BROKER, name, *((rate, DELETE, None) for rate in RATES))
        assert (await client.ask(request, 1)).responses[0].error_code == 0
        assert broker.node.config.follower_replication_throttled_rate == left
    request = change_configs(TOPIC, "t", *((name, DELETE, None) for name in LISTS))
    assert (await client.ask(request, 1)).responses[0].error_code == 0
    assert (0, 0) not in partition(broker, "t").config.throttled_leaders
    assert await throttles_shown(client) == {}


async def throttles_shown(client: Client) -> dict[str, tuple[str, int]]:
    """Those of this broker that DescribeConfigs shows: value and source."""
    (result,) = (await client.ask(describe_configs(BROKER, "0"), 4)).results
    shown = [config for config in result.configs if config.name in RATES]
    assert all(config.read_only for config in shown)  # as in Kafka, which changes them all the same
    return {config.name: (config.value, config.config_source) for config in shown}


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "", "9223372036854775808"])
@on_broker(both=False)
async def test_no_rate(broker: RunningBroker, value: str) -> None:
    client = await broker.client()
    request = change_configs(BROKER, "0", (RATES[0], SET, value))
    code = (await client.ask(request, 1)).responses[0].error_code
    assert code == ErrorCode.INVALID_REQUEST


@on_broker()
async def test_limits_of_connections_count_at_once(broker: RunningBroker) -> None:
    client = await broker.client()
    await change(client, BROKER, "0", max_connections_per_ip="1")
    with pytest.raises((HungUp, ConnectionResetError)):
        await (await broker.client()).ask(metadata(), 12)
    await change(client, BROKER, "0", max_connections_per_ip_overrides="127.0.0.1:2")
    second = await broker.client()
    assert (await second.ask(metadata(), 12)).cluster_id
    await client.ask(alter_configs(BROKER, "0", {}), 2)
    assert (await (await broker.client()).ask(metadata(), 12)).cluster_id


@on_broker(both=False)
async def test_who_waits_for_a_connection_is_let_in(broker: RunningBroker) -> None:
    client = await broker.client()
    await change(client, BROKER, "0", max_connections="1")
    waiting = await broker.client()
    asked = asyncio.ensure_future(waiting.ask(metadata(), 12))
    for _ in range(5):
        await client.ask(metadata(), 12)
    assert len(broker.connections) == 1
    assert not asked.done()
    await change(client, BROKER, "0", max_connections="2")
    assert (await asked).cluster_id


@on_broker(both=False)
async def test_producers_expire_by_the_new_time(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    now_ms = broker.clock.wall_ms()
    batch = batch_of(b"x", timestamp=now_ms, producer_id=1, producer_epoch=0, base_sequence=0)
    assert (await client.produce("t", batch)).error_code == 0
    broker.clock.moved_ms = 60_000
    expiry = ProducerExpiry(broker.node.replicas, broker.config, broker._runtime)
    assert expiry.expire() == 0
    await change(client, BROKER, "", producer_id_expiration_ms="1000")
    assert expiry.expire() == 1


def test_settings_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, {"log.roll.ms": "5"}) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await change(client, TOPIC, "t", max_message_bytes="500")
            await change(client, BROKER, "0", log_roll_ms="7")
            await change(client, BROKER, "", log_roll_ms="6", log_index_interval_bytes="99")
            await change(client, GROUP, "g", consumer_session_timeout_ms="50000")
        async with running(tmp_path, {"log.roll.ms": "5"}) as broker:
            client = await broker.client()
            assert await produced(client, "t", 600) == ErrorCode.MESSAGE_TOO_LARGE
            config = partition(broker, "t").config
            assert (config.segment_ms, config.index_interval_bytes) == (7, 99)
            groups = broker.node.dynamic_configs.group_overrides("g")
            assert groups == {"consumer.session.timeout.ms": "50000"}
            await change(client, TOPIC, "t", max_message_bytes="5000")  # it still hears of changes
            assert await produced(client, "t", 600) == 0

    asyncio.run(main())


@on_broker(both=False)
async def test_the_answer_waits_until_the_change_counts(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await broker.client(), await broker.client()
    await client.create_topic("t")
    configs, may_go_on = broker.node.dynamic_configs, asyncio.Event()
    handle = configs._handle_notification

    async def handle_later(path: str, applied: set[str]) -> None:
        await may_go_on.wait()
        await handle(path, applied)

    monkeypatch.setattr(configs, "_handle_notification", handle_later)
    asked = asyncio.ensure_future(change(client, TOPIC, "t", max_message_bytes="500"))
    while not await broker.node.topics.overrides("t"):
        await other.ask(metadata(), 12)
    for _ in range(5):
        await other.ask(metadata(), 12)
    assert not asked.done()
    may_go_on.set()
    await asked
    assert partition(broker, "t").config.max_message_bytes == 500


def test_unclean_elections_that_are_allowed_unnoticed_are_held(tmp_path: Path) -> None:
    """The change is read with a new session, maybe by who is the controller already."""
    path = znodes.partition_state_path("t", 0)

    async def main() -> None:
        async with running(tmp_path) as broker:
            await (await broker.client()).create_topic("t")
            lost = znodes.PartitionStateNode(-1, 5, isr=(9,), controller_epoch=1)
            await broker.session.set(path, lost.encode())
        async with running(tmp_path) as broker:
            state = broker.node.metadata.partition("t", 0)
            assert state is not None
            assert state.leader == -1
            allowed = znodes.encode_config({"unclean.leader.election.enable": "true"})
            await broker.session.create(znodes.broker_config_path(None), allowed)
            await broker.node.dynamic_configs.renew()
            served = broker.node.replicas.partitions
            await until(lambda: ("t", 0) in served and served["t", 0].is_leader)

    asyncio.run(main())


@on_broker(both=False)
async def test_changes_at_the_same_time_lose_nothing(broker: RunningBroker) -> None:
    clients = [await broker.client() for _ in range(4)]
    await clients[0].create_topic("t")
    keys = ["segment.ms", "segment.bytes", "max.message.bytes", "index.interval.bytes"]
    for round_ in range(5):
        value = str(1000 + round_)
        requests = [change_configs(TOPIC, "t", (key, SET, value)) for key in keys]
        await asyncio.gather(*(c.ask(r, 1) for c, r in zip(clients, requests, strict=True)))
        assert await broker.node.topics.overrides("t") == dict.fromkeys(keys, value)


# The store, which others write to as well.


async def notify(broker: RunningBroker, data: bytes) -> None:
    """Leave a notification, and wait until it has been looked at."""
    path = await broker.session.create(znodes.CONFIG_CHANGE_PREFIX, data, sequential=True)
    number = znodes.sequence_number(path)
    await until(lambda: broker.node.dynamic_configs._handled >= number)


@on_broker(both=False)
async def test_what_another_broker_changes_counts_here(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    texts = znodes.encode_config({"max.message.bytes": "500", "remote.storage.enable": "true"})
    await broker.session.set(znodes.topic_config_path("t"), texts)
    await notify(broker, znodes.encode_config_change("topics/t"))
    assert await produced(client, "t", 600) == ErrorCode.MESSAGE_TOO_LARGE
    texts = znodes.encode_config({"log.roll.ms": "9", "my.own": "1", "log.segment.bytes": "x"})
    await broker.session.create(znodes.broker_config_path(None), texts)
    old = b'{"version":1,"entity_type":"brokers","entity_name":"<default>"}'
    await notify(broker, old)
    assert partition(broker, "t").config.segment_ms == 9
    await change(client, BROKER, "", log_segment_bytes="400")  # what is not understood stays
    data, _ = await broker.session.get(znodes.broker_config_path(None))
    assert znodes.decode_config(data)["my.own"] == "1"


@on_broker(both=False)
async def test_a_group_s_settings_are_brought_within_bounds(broker: RunningBroker) -> None:
    texts = {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "x", "my": "1"}
    path = znodes.group_config_path("g")
    await broker.session.create(znodes.CONFIG_GROUPS)
    await broker.session.create(path, znodes.encode_config(texts))
    await notify(broker, znodes.encode_config_change("groups/g"))
    overrides = broker.node.dynamic_configs.group_overrides("g")
    assert overrides == {"consumer.session.timeout.ms": "45000"}
    settings = group_settings(broker.config, overrides).consumer
    assert settings == broker.config.group_settings.consumer  # which is at its bound


MEANINGLESS = [
    b"",
    b"no json",
    b'{"version":2}',
    b'{"version":2,"entity_path":"topics/absent"}',
    b'{"version":2,"entity_path":"topics/"}',
    b'{"version":2,"entity_path":"topics"}',
    b'{"version":2,"entity_path":"../.."}',
    b'{"version":2,"entity_path":"users/u"}',
    b'{"version":2,"entity_path":"brokers/17"}',
    b'{"version":2,"entity_path":"topics/\\u0000"}',
]


@pytest.mark.slow
@on_broker(both=False)
async def test_notifications_that_mean_nothing(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await broker.session.create(f"{znodes.CONFIG_CHANGES}/something else")
    for data in MEANINGLESS:
        await notify(broker, data)
    await change(client, TOPIC, "t", max_message_bytes="500")
    assert await produced(client, "t", 600) == ErrorCode.MESSAGE_TOO_LARGE


@on_broker(both=False)
async def test_settings_that_cannot_be_used_together_are_left_out(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    texts = znodes.encode_config({"max.connections.per.ip": "0", "log.roll.ms": "9"})
    await broker.session.create(znodes.broker_config_path(0), texts)
    with caplog.at_level(logging.ERROR):
        await notify(broker, znodes.encode_config_change("brokers/0"))
    assert "lets nobody in" in caplog.text
    assert broker.node.config.log_roll_ms is None


@on_broker(both=False)
async def test_changes_are_followed_although_somebody_deletes_their_parent(
    broker: RunningBroker,
) -> None:
    client, session = await broker.client(), broker.session
    await client.create_topic("t")
    for size in ("500", "600"):
        await change(client, TOPIC, "t", max_message_bytes=size)
    for name in await session.children(znodes.CONFIG_CHANGES):
        await session.delete(f"{znodes.CONFIG_CHANGES}/{name}")
    await session.delete(znodes.CONFIG_CHANGES)
    await change(client, TOPIC, "t", max_message_bytes="700")
    assert await produced(client, "t", 600) == 0
    await change(client, TOPIC, "t", max_message_bytes="500")
    assert await produced(client, "t", 600) == ErrorCode.MESSAGE_TOO_LARGE


@on_broker(both=False)
async def test_old_notifications_are_purged(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for value in ("1", "2"):
        await change(client, TOPIC, "t", segment_ms=value)
    changes = znodes.CONFIG_CHANGES
    await until_children(broker, changes, 2)
    broker.clock.moved_ms = AGE_MS_MAX + 1000
    await change(client, TOPIC, "t", segment_ms="3")
    await until_children(broker, changes, 1)


@on_broker(both=False)
async def test_young_notifications_are_not_looked_at_one_by_one(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for value in ("1", "2", "3", "4"):
        await change(client, TOPIC, "t", segment_ms=value)
    await until_children(broker, znodes.CONFIG_CHANGES, 4)
    looked_at: list[str] = []
    exists = broker.session.exists

    async def watched(path: str) -> object:
        looked_at.append(path)
        return await exists(path)

    broker.session.exists = watched  # type: ignore[assignment,method-assign]
    await change(client, TOPIC, "t", segment_ms="5")
    await until(lambda: looked_at)
    await client.ask(metadata(), 8)
    assert len([path for path in looked_at if path.startswith(znodes.CONFIG_CHANGES)]) == 1


@on_broker(both=False)
async def test_notifications_that_are_counted_anew_are_handled(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for size in ("500", "501", "502"):
        await change(client, TOPIC, "t", max_message_bytes=size)
    names = await broker.session.children(znodes.CONFIG_CHANGES)
    paths = [*(f"{znodes.CONFIG_CHANGES}/{name}" for name in names), znodes.CONFIG_CHANGES]
    deleted = [Delete(path, ANY_VERSION) for path in paths]
    await broker.session.multi([*deleted, Create(znodes.CONFIG_CHANGES, b"")])
    await change(client, TOPIC, "t", max_message_bytes="700")
    await until(lambda: partition(broker, "t").config.max_message_bytes == 700)


async def until_children(broker: RunningBroker, path: str, count: int) -> None:
    async def there_are() -> bool:
        return len(await broker.session.children(path)) == count

    await until(there_are, f"{path} has {count} children")


@on_broker(both=False)
async def test_a_topic_that_goes_leaves_no_config(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await change(client, TOPIC, "t", max_message_bytes="500")
    await client.ask(delete_topics(6, "t"), 6)
    assert await broker.session.exists(znodes.topic_config_path("t")) is None
    await client.create_topic("t")
    assert await produced(client, "t", 600) == 0
