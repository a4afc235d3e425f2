"""The clock that tests move, with real clients in front of real brokers."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k03_metadata import MetadataResponse
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.testing import Broker
from odradek.testing.clock import Clock
from tests.broker.group_requests import join, sync
from tests.broker.requests import metadata
from tests.support.awaiting import until as until_true
from tests.support.client import Client
from tests.support.messages import batch_of, fetch_request, produce_request
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.slow]

LONG_MS = 600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One for all tests of this file, in a child: each has topics and groups of its own."""
    with Broker(settings={"log.cleaner.enable": "false"}) as running:
        yield running


@pytest.fixture
def clock(broker: Broker) -> Iterator[Clock]:
    yield broker.clock
    broker.clock.resume()


class Member:
    """A consumer of a group, and what it was told."""

    def __init__(self, broker: Broker, group: str, topic: str, **options: Any) -> None:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        self.consumer = Consumer(
            {
                **broker.client_config("confluent"),
                "group.id": group,
                "heartbeat.interval.ms": 50,
                "statistics.interval.ms": 20,
                "stats_cb": self._note_statistics,
                **settings,
            }
        )
        self.heartbeats = 0
        """How many it has sent."""
        self.assigned: set[int] = set()
        self.lost: list[set[int]] = []
        self.consumer.subscribe(
            [topic], on_assign=self._take, on_revoke=self._give, on_lost=self._lose
        )

    def _take(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = {each.partition for each in partitions}

    def _give(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = set()

    def _lose(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost.append({each.partition for each in partitions})
        self.assigned = set()

    def _note_statistics(self, text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        self.heartbeats = sum(broker["req"].get("Heartbeat", 0) for broker in brokers)

    def polled(self) -> set[int]:
        """What it is assigned after another poll."""
        self.consumer.poll(0.02)
        return self.assigned

    def close(self) -> None:
        self.consumer.close()


def test_a_member_that_is_gone_expires_and_one_that_lives_stays(
    broker: Broker, clock: Clock
) -> None:
    broker.topics.create("shared", partitions=2)
    live = Member(broker, "with a dead one", "shared", session_timeout_ms=45_000)
    gone = Member(
        broker, "with a dead one", "shared", session_timeout_ms=45_000, group_instance_id="gone"
    )
    until(lambda: (len(live.polled()), len(gone.polled())) == (1, 1))
    gone.close()  # a static member does not leave
    clock.freeze()
    clock.advance("44s")
    sent = live.heartbeats
    until(lambda: live.polled() and live.heartbeats > sent + 2)  # one is answered before the next
    assert live.assigned != {0, 1}
    clock.advance("44s")
    until(lambda: live.polled() == {0, 1})
    assert not live.lost, "its session never expired"
    live.close()


def test_live_members_expire_too_and_join_again(broker: Broker, clock: Clock) -> None:
    broker.topics.create("lost", partitions=2)
    with closing(Member(broker, "that expires", "lost", session_timeout_ms=45_000)) as member:
        until(lambda: member.polled() == {0, 1})
        clock.advance("46s")
        until(lambda: member.polled() is not None and member.lost == [{0, 1}])
        until(lambda: member.polled() == {0, 1})


def test_no_heartbeat_saves_a_member_whose_session_has_ended(broker: Broker, clock: Clock) -> None:
    """However many arrive at the moment when the clock is moved."""

    async def last_code(group: str) -> ErrorCode:
        async with AsyncExitStack() as stack:
            joining, *beating = [
                await stack.enter_async_context(await Client.connect(broker.port))
                for _ in range(11)
            ]
            await until_true(partial(is_coordinated, joining, group))
            member_id = (await joining.ask(join(group), 5)).member_id
            generation = (await joining.ask(join(group, member_id), 5)).generation_id
            await joining.ask(sync(group, generation, member_id, {member_id: b"all"}), 3)
            heartbeat = HeartbeatRequest(
                group_id=group, generation_id=generation, member_id=member_id
            )
            codes = [asyncio.create_task(refused(client, heartbeat)) for client in beating]
            await asyncio.to_thread(clock.advance, "1h")
            async with asyncio.timeout(30):
                return (await asyncio.gather(*codes))[0]

    async def refused(client: Client, heartbeat: HeartbeatRequest) -> ErrorCode:
        while not (code := (await client.ask(heartbeat, 3)).error_code):
            pass
        return ErrorCode(code)

    async def main() -> None:
        for group in ("beating", "beating too", "still beating", "beating at last"):
            assert await last_code(group) == ErrorCode.UNKNOWN_MEMBER_ID

    asyncio.run(main())


async def is_coordinated(client: Client, group: str) -> bool:
    return bool((await client.ask(FindCoordinatorRequest(key=group), 3)).error_code == 0)


def test_an_aiokafka_member_joins_again_when_its_session_expires(
    broker: Broker, clock: Clock
) -> None:
    broker.topics.create("of-aiokafka")

    def joins() -> int:
        return len(broker.journal.requests(api="JoinGroup", client_id="joins again"))

    async def main() -> None:
        async with AIOKafkaConsumer(
            "of-aiokafka",
            client_id="joins again",
            group_id="that aiokafka joins",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=100,
            **broker.client_config("aiokafka"),
        ):
            await broker.aio.wait_for_group("that aiokafka joins", members=1, assigned=1)
            joined = joins()
            await broker.aio.clock.advance("7s")
            await asyncio.to_thread(until, lambda: joins() > joined)
            await broker.aio.wait_for_group("that aiokafka joins", members=1, assigned=1)

    asyncio.run(main())


def test_the_first_member_waits_for_others() -> None:
    delayed = {"group.initial.rebalance.delay.ms": 60_000}
    with Broker(in_process=True, settings=delayed) as broker:
        broker.topics.create("waiting", partitions=2)
        with closing(Member(broker, "g", "waiting")) as member:
            # The first request only gets a member id.
            until(
                lambda: not member.polled() and len(broker.journal.requests(api="JoinGroup")) == 2
            )
            assert broker.groups["g"].state == "PreparingRebalance"
            broker.clock.advance("61s")
            until(lambda: member.polled() == {0, 1})


def test_a_transaction_times_out(broker: Broker, clock: Clock) -> None:
    broker.topics.create("transacted")
    reader = Consumer(
        {
            **broker.client_config("confluent"),
            "group.id": "none",
            "isolation.level": "read_committed",
        }
    )
    reader.assign([TopicPartition("transacted", 0, 0)])
    producer = Producer(
        {
            **broker.client_config("confluent"),
            "transactional.id": "left open",
            "transaction.timeout.ms": LONG_MS,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("transacted", b"aborted", partition=0)
    assert producer.flush(60) == 0
    broker.produce("transacted", b"behind it")
    assert reader.consume(1, timeout=0.3) == []
    clock.advance(timedelta(milliseconds=LONG_MS))
    assert [message.value() for message in reader.consume(1, timeout=60)] == [b"behind it"]
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(60)
    assert caught.value.args[0].code() in (
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_TXN_STATE,
    )
    reader.close()


def test_old_segments_are_deleted_when_advance_returns(broker: Broker, clock: Clock) -> None:
    broker.topics.create("kept-for-a-week")
    with closing(Consumer({**broker.client_config("confluent"), "group.id": "none"})) as consumer:
        where = TopicPartition("kept-for-a-week", 0)
        broker.produce("kept-for-a-week", b"old")
        broker.produce("kept-for-a-week", b"older")
        clock.advance("6d")
        assert consumer.get_watermark_offsets(where, timeout=60) == (0, 2)
        clock.advance("2d")
        assert consumer.get_watermark_offsets(where, timeout=60) == (2, 2)
    assert abs(clock.now - datetime.now(UTC)) >= timedelta(days=8)


def test_offsets_of_a_group_without_members_expire(broker: Broker, clock: Clock) -> None:
    broker.topics.create("consumed", configs={"retention.ms": -1})
    broker.produce("consumed", b"a record")
    settings = {**broker.client_config("confluent"), "group.id": "was here"}
    where = TopicPartition("consumed", 0)
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition("consumed", 0, 1)], asynchronous=False)
        (known,) = consumer.committed([where], timeout=60)
        assert known.offset == 1
        clock.advance("8d")
        (known,) = consumer.committed([where], timeout=60)
        assert known.offset < 0


def test_a_fetch_that_waits_is_answered(broker: Broker, clock: Clock) -> None:
    broker.topics.create("empty")

    async def main() -> None:
        async with await Client.connect(broker.port) as client:
            request = fetch_request("empty", wait_ms=LONG_MS)
            fetched = asyncio.ensure_future(client.ask(request, 11))
            await asyncio.to_thread(clock.advance, timedelta(milliseconds=LONG_MS - 1))
            while not fetched.done():  # it may have come after that
                await asyncio.to_thread(clock.advance, timedelta(milliseconds=LONG_MS))
            answer: FetchResponse = await fetched
            assert not answer.responses[0].partitions[0].records

    asyncio.run(main())


def test_a_fetch_ends_although_time_stands_still(broker: Broker, clock: Clock) -> None:
    broker.topics.create("standing")
    clock.freeze()

    async def main() -> None:
        async with await Client.connect(broker.port) as client:
            await client.ask(fetch_request("standing", wait_ms=50), 11)

    asyncio.run(main())
    assert clock.is_frozen


def test_a_throttled_client_is_served_again(broker: Broker, clock: Clock) -> None:
    broker.topics.create("limited")

    async def main() -> None:
        async with await Client.connect(broker.port) as client:
            await client.ask(quota_of("test", producer_byte_rate=1000.0), 1)
            first: ProduceResponse = await client.ask(
                produce_request("limited", {0: batch_of(bytes(100_000))}), 11
            )
            assert first.throttle_time_ms > 60_000
            asked = asyncio.ensure_future(client.ask(metadata("limited"), 9))
            done, _ = await asyncio.wait([asked], timeout=0.2)
            assert not done
            await asyncio.to_thread(clock.advance, first.throttle_time_ms / 1000)
            answer: MetadataResponse = await asked
            assert answer.topics[0].error_code == 0

    asyncio.run(main())


def quota_of(client_id: str, **quotas: float) -> AlterClientQuotasRequest:
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[OpData(key=key, value=value) for key, value in quotas.items()],
    )
    return AlterClientQuotasRequest(entries=[entry])


@pytest.mark.parametrize("in_process", [False, True], ids=["child", "in process"])
def test_no_broker_of_three_is_given_up(in_process: bool) -> None:
    with Broker(brokers=3, in_process=in_process) as cluster:
        cluster.topics.create("t", partitions=3, replication_factor=3)
        before = cluster.topics["t"]
        assert all(set(each.isr) == {0, 1, 2} for each in before.partitions)
        for by in ("60s", "1h", "30d"):
            cluster.clock.advance(by)
            cluster.produce("t", by)  # acks=all: the followers follow
        assert cluster.topics["t"] == before


@pytest.mark.parametrize("by", [-1, "-60s", timedelta(seconds=-1)])
def test_time_does_not_go_back(clock: Clock, by: Any) -> None:
    with pytest.raises(ValueError, match="is not a duration from 0 to ten years"):
        clock.advance(by)
