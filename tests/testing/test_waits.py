"""Waiting for clients: what a wait sees, what it says in vain, and that it does not poll."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import Broker, WaitTimeout, waits

pytestmark = [pytest.mark.wire, pytest.mark.slow]


@pytest.fixture(scope="module", params=[False, True], ids=["child", "in process"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(in_process=request.param) as started:
        yield started


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """`act` in a thread, a moment later."""
    timer = threading.Timer(0.1, act)
    timer.start()
    yield
    timer.join()


class Polling:
    """A consumer that polls in a thread of its own."""

    def __init__(self, broker: Broker, group: str, topic: str, **settings: Any) -> None:
        self.consumer = Consumer(
            {
                **broker.client_config("confluent"),
                "group.id": group,
                "client.id": "app",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 50,
                "heartbeat.interval.ms": 100,
                **settings,
            }
        )
        self.consumer.subscribe([topic])
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._ends.is_set():
            self.consumer.poll(0.05)

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        self.consumer.close()


def test_a_topic_that_is_created_meanwhile(broker: Broker) -> None:
    with meanwhile(lambda: broker.topics.create("soon", partitions=3)):
        topic = broker.wait_for_topic("soon")
    assert [each.leader for each in topic.partitions] == [broker.broker_id] * 3
    with pytest.raises(
        WaitTimeout, match=r"^after 0\.05 s there is no topic 'sooon': did you mean soon\?$"
    ):
        broker.wait_for_topic("sooon", timeout="50ms")


def test_records_that_are_written_meanwhile(broker: Broker) -> None:
    def write() -> None:
        producer = Producer(broker.client_config("confluent"))
        for number in range(3):
            producer.produce("written", str(number), partition=number % 2)
        producer.flush()

    with pytest.raises(WaitTimeout, match="there is no topic 'written'"):
        broker.wait_for_records("written", 1, timeout=0.01)
    broker.topics.create("written", partitions=2)
    with meanwhile(write):
        found = broker.wait_for_records("written", 3)
    assert [record.value for record in found] == [b"0", b"2", b"1"]
    with pytest.raises(
        WaitTimeout,
        match=r"topic written has 3 records, not 4: 2 in partition 0, 1 in partition 1",
    ):
        broker.wait_for_records("written", 4, timeout="10ms")


def test_committed_records(broker: Broker) -> None:
    broker.topics.create("bought")
    producer = Producer({**broker.client_config("confluent"), "transactional.id": "shop"})
    producer.init_transactions()
    for commits in (False, True):
        producer.begin_transaction()
        producer.produce("bought", b"committed" if commits else b"aborted")
        producer.flush()
        if not commits:
            producer.abort_transaction()
    assert len(broker.wait_for_records("bought", 2)) == 2
    with pytest.raises(WaitTimeout, match="has 0 records, not 1"):
        broker.wait_for_records("bought", 1, isolation="read_committed", timeout="10ms")
    with meanwhile(producer.commit_transaction):
        found = broker.wait_for_records("bought", 1, isolation="read_committed")
    assert [record.value for record in found] == [b"committed"]


def test_a_group_that_forms_and_catches_up(broker: Broker) -> None:
    broker.topics.create("consumed", partitions=2)
    with pytest.raises(WaitTimeout, match="there is no group 'forms'"):
        broker.wait_for_group("forms", timeout="10ms")
    with closing(Polling(broker, "forms", "consumed")):
        broker.wait_for_group("forms", assigned=2)
        with closing(Polling(broker, "forms", "consumed")):
            broker.wait_for_group("forms", members=2, assigned=2)
            for number in range(10):
                broker.produce("consumed", str(number), partition=number % 2)
            broker.wait_for_lag("forms", 0, topic="consumed")
            broker.wait_for_lag("forms", 0)
            assert sum(broker.groups["forms"].offsets.values()) == 10
        broker.wait_for_group("forms", members=1, assigned=2)


def test_a_group_that_lags(broker: Broker) -> None:
    broker.topics.create("ahead", partitions=2)
    for number in range(5):
        broker.produce("ahead", str(number), partition=number % 2)
    settings = {**broker.client_config("confluent"), "group.id": "lags"}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition("ahead", 1, 1)], asynchronous=False)
        broker.wait_for_lag("lags", 4)
        with pytest.raises(WaitTimeout) as caught:
            broker.wait_for_lag("lags", 3, timeout="10ms")
        assert str(caught.value).startswith(
            "after 0.01 s group lags lags by 4 records, and may lag by 3\n"
            "  ahead-0: 3 behind, nothing committed\n"
            "  ahead-1: 1 behind, offset 1 committed\n"
            "group lags is Empty with 0 members\n"
        )
        with meanwhile(lambda: consumer.commit(offsets=[TopicPartition("ahead", 0, 3)])):
            broker.wait_for_lag("lags", 1)
        broker.topics.create("other")
        broker.wait_for_lag("lags", 0, topic="other")
        broker.produce("other", b"v")
        with pytest.raises(WaitTimeout, match="other-0: 1 behind, nothing committed"):
            broker.wait_for_lag("lags", 0, topic="other", timeout="10ms")


def test_a_timeout_is_told_as_it_was_given(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 0.02)
    monkeypatch.setattr(waits, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(WaitTimeout, match=r"^after 0\.05 s there is no topic"):
        broker.wait_for_topic("nosuch", timeout="50ms")  # 30 ms were left


def test_why_a_group_rebalances_is_told(broker: Broker) -> None:
    broker.topics.create("shared")
    with closing(Polling(broker, "explained", "shared")):
        broker.wait_for_group("explained")
        with pytest.raises(WaitTimeout) as caught:
            broker.wait_for_group("explained", members=2, assigned=1, timeout="20ms")
    told, _, why = str(caught.value).partition("\nWhat has happened in it:\n")
    assert told == (
        "after 0.02 s group explained is Stable with 1 member, not Stable with 2 members and 1 "
        "partition\n"
        "  app at 127.0.0.1: shared [0]"
    )
    assert "joined" in why
    assert "rebalance" in why
    assert " s ago: " in why


def test_a_next_generation_group(broker: Broker) -> None:
    broker.topics.create("next", partitions=2)
    settings = {"group.protocol": "consumer"}
    consumer = Consumer(
        {**broker.client_config("confluent"), "group.id": "next generation", **settings}
    )
    consumer.subscribe(["next"])
    with closing(consumer), meanwhile(lambda: consumer.poll(1)):
        broker.wait_for_group("next generation", assigned=2)


def test_a_quiet_group_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.broker.admin_api import groups

    looks: list[float] = []
    find = groups.find

    async def counted(*arguments: Any) -> Any:
        looks.append(time.monotonic())
        return await find(*arguments)

    monkeypatch.setattr(groups, "find", counted)
    with Broker(in_process=True) as broker:
        broker.topics.create("quiet")
        with closing(Polling(broker, "quiet", "quiet", **{"heartbeat.interval.ms": 3000})):
            broker.wait_for_group("quiet")
            broker.wait_for_lag("quiet", 0, topic="quiet")
        assert looks
        looks.clear()
        with pytest.raises(WaitTimeout):
            broker.wait_for_group("quiet", timeout="500ms")
        assert len(looks) <= 3


def test_waits_of_several_threads_do_not_wait_for_each_other(broker: Broker) -> None:
    thread = threading.Thread(target=lambda: broker.wait_for_topic("late", timeout="60s"))
    thread.start()
    broker.topics.create("parallel")
    broker.wait_for_topic("parallel")
    broker.clock.advance("1s")
    assert thread.is_alive()
    broker.topics.create("late")
    thread.join()


def test_brokers_of_a_cluster_hear_of_each_other() -> None:
    with Broker(brokers=3, in_process=True) as cluster:
        with meanwhile(lambda: cluster.topics.create("t", partitions=6, replication_factor=3)):
            cluster.wait_for_topic("t")
        with closing(Polling(cluster, "g", "t")):
            cluster.wait_for_group("g", assigned=6)
            for partition in range(6):
                cluster.produce("t", b"v", partition=partition)
            assert len(cluster.wait_for_records("t", 6)) == 6
            cluster.wait_for_lag("g", 0, topic="t")
            cluster.stop(cluster.coordinator("g"))
            cluster.wait_for_group("g", assigned=6)


@pytest.mark.parametrize(
    ("timeout", "complaint"),
    [("-1s", "from 0 to ten years"), ("soon", "is not a duration"), ("11m", "at most 600 s")],
)
def test_bad_timeouts(broker: Broker, timeout: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        broker.wait_for_topic("t", timeout=timeout)
