"""Fixtures over brokers that already run: Odradek's with and without its admin API, and Kafka's."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.testing import Broker, BrokerFailed, WaitTimeout
from odradek.testing.cluster_client import Passing, addresses_of, check
from odradek.testing.door import AdminError, NotFound
from odradek.testing.external import ExternalBroker
from odradek.testing.external_servers import ExternalServers, external_broker
from odradek.testing.marker import Refused, Wanted
from odradek.testing.topics import NoSuchTopic
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.group_requests import commit
from tests.broker.running import running as running_here
from tests.kafka.apache import apache_kafka
from tests.support.awaiting import until as asynchronously
from tests.support.waiting import until

from .test_fixtures import pytest_run

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(in_process=True, brokers=2) as broker:
        yield broker


@pytest.fixture
def foreign(running: Broker) -> Iterator[ExternalBroker]:
    broker = ExternalBroker(running.bootstrap_servers)
    broker.start()
    yield broker
    broker.clean()
    broker.close()


@pytest.fixture
def friendly(running: Broker) -> Iterator[ExternalBroker]:
    broker = ExternalBroker(running.bootstrap_servers, admin_url=running.admin_url)
    broker.start()
    yield broker
    broker.clean()
    broker.close()


def exercise(broker: ExternalBroker) -> None:
    """Everything that works with any broker."""
    broker.clean()
    for _ in range(3):  # Kafka refuses the name a while longer than it shows the topic
        broker.topics.create("again")
        broker.topics.delete("again")
    topic = broker.topics.create("ext", partitions=2, configs={"retention.ms": 3_600_000})
    assert [each.partition for each in topic.partitions] == [0, 1]
    assert "ext" in broker.topics and broker.topics["ext"] == broker.wait_for_topic("ext")
    with pytest.raises(AdminError, match="EXISTS"):
        broker.topics.create("ext")
    with pytest.raises(KeyError, match=r"^there is no topic .ex.: did you mean ext"):
        broker.topics["ex"]
    with pytest.raises(NoSuchTopic, match=r"no topic .other.; there is .*ext"):
        broker.topics["other"]
    assert broker.leader("ext", 1) in broker.broker_ids

    place = broker.produce("ext", b"one", key=b"k", headers=[("h", b"\xff")], timestamp=1000)
    assert place == broker.produce("ext", None, key="k")._replace(offset=0)
    broker.produce("ext", "two", partition=1 - place.partition)
    assert len(broker.wait_for_records("ext", 3)) == 3
    first, last = broker.records("ext", partition=place.partition)
    part = broker.admin.get("topics", "ext", "records", limit=2, encoding="base64")
    assert len(part["records"]) == 2
    assert sum(each["high_watermark"] for each in part["partitions"]) == 3
    assert sum(each["next_offset"] for each in part["partitions"]) == 2
    with pytest.raises(BrokerFailed):
        broker.records("ext", partition=7)
    assert (first.key, first.value, first.headers) == (b"k", b"one", (("h", b"\xff"),))
    assert (first.timestamp, last.offset, last.value) == (1000, 1, None)

    transactional = Producer({**broker.client_config("confluent"), "transactional.id": "ext"})
    transactional.init_transactions(30)
    for end in (transactional.abort_transaction, transactional.commit_transaction):
        transactional.begin_transaction()
        transactional.produce("ext", end.__name__.encode(), partition=1 - place.partition)
        transactional.flush(30)
        end()
    seen = broker.wait_for_records("ext", 4, isolation="read_committed")
    assert {record.value for record in seen} == {b"one", None, b"two", b"commit_transaction"}
    assert len(broker.records("ext")) == 5

    consumer = Consumer(
        {
            **broker.client_config("confluent"),
            "group.id": "ext-g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["ext"])
    until(lambda: consumer.poll(0.1) is not None)
    broker.wait_for_group("ext-g", members=1, assigned=2)
    assert "ext-g" in broker.groups
    (member,) = broker.groups["ext-g"].members
    assert member.assignment == {"ext": [0, 1]}
    with pytest.raises(WaitTimeout, match=r"after 0.1 s group ext-g .*Stable with 2 members"):
        broker.wait_for_group("ext-g", members=2, timeout="100ms")
    consumer.commit(asynchronous=False)
    lag = sum(broker.groups["ext-g"].lag.values())
    assert 0 < lag < 7
    with pytest.raises(WaitTimeout, match="ext-g lags by"):
        broker.wait_for_lag("ext-g", 0, timeout="100ms")
    broker.wait_for_lag("ext-g", lag + 7, topic="ext")
    consumer.close()
    assert broker.coordinator("ext-g") in broker.broker_ids

    with pytest.raises(WaitTimeout, match="has 5 records, not 6"):
        broker.wait_for_records("ext", 6, timeout="100ms")
    with pytest.raises(WaitTimeout, match="there is no topic 'nosuch'"):
        broker.wait_for_topic("nosuch", timeout="100ms")
    broker.clean()
    assert "ext" not in broker.topics
    with pytest.raises(NotFound):
        broker.topics.delete("ext")


@pytest.mark.slow
def test_what_works_with_any_broker(foreign: ExternalBroker) -> None:
    exercise(foreign)


@pytest.mark.slow
def test_the_same_through_an_admin_api(friendly: ExternalBroker) -> None:
    exercise(friendly)


@pytest.mark.slow
@pytest.mark.soak
def test_the_same_with_apache_kafka_in_kraft_mode() -> None:  # 3.9.2: test_external_access.py
    with apache_kafka("4.3.1", heap_mb=384) as kafka:
        broker = ExternalBroker(f"{kafka.host}:{kafka.port}")
        broker.start()
        exercise(broker)


def test_what_needs_an_admin_api_says_so(foreign: ExternalBroker) -> None:
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: foreign.faults.add(api="Produce", close=True), "no faults by rule"),
        (lambda: foreign.network.isolate(1), "links that nobody cuts"),
        (lambda: foreign.clock.advance("1s"), "a clock that nobody moves"),
        (foreign.journal.requests, "no journal"),
        (foreign.snapshot, "no snapshots"),
        (lambda: foreign.kill(1), "killed, paused and started by it"),
    ]
    for ask, why in refusals:
        with pytest.raises(BrokerFailed, match=f"odradek_external_admin tells: .*{why}"):
            ask()
    for refused in (foreign.stop, foreign.kill, foreign.restart, foreign.fork):
        with pytest.raises(RuntimeError, match="the fixture has not started these brokers"):
            refused()


@pytest.mark.slow
def test_what_an_admin_api_can_do(friendly: ExternalBroker) -> None:
    fault = friendly.faults.add(api="Metadata", optional=True, delay="1ms")
    assert fault.hits == 0
    friendly.clock.advance("1s")
    state = friendly.snapshot()
    friendly.topics.create("restored")
    friendly.restore(state)
    assert "restored" not in friendly.topics
    friendly.network.isolate(1)
    friendly.network.heal()
    friendly.pause(1)
    friendly.resume(1)
    friendly.begin()
    assert friendly.journal.requests() == []


@pytest.mark.slow
def test_a_prefix_is_what_a_worker_deletes(running: Broker) -> None:
    running.topics.create("theirs")
    broker = external_broker(
        running.bootstrap_servers,
        admin_url=running.admin_url,
        admin_token="",
        prefix="ci.",
        worker="gw1",
    )
    servers = ExternalServers(Wanted(), (("seed", 2),), [], broker)
    server = servers.get(Wanted())
    for _ in range(2):
        server.clean((("mine", 1),))
        assert set(broker.topics) == {"theirs", "ci.gw1.seed", "ci.gw1.mine"}
        running.produce("theirs", b"x")
        producer = Producer(broker.client_config("confluent"))
        producer.produce(broker.name("by-use"), b"v")
        assert producer.flush(30) == 0
        assert "ci.gw1.by-use" in broker.topics
        assert {"Produce"} <= {each.api for each in broker.journal.requests()}
    with pytest.raises(BrokerFailed, match=r"those of all workers.*without -n"):
        broker.faults.add(api="Produce", close=True)
    assert server.end() == []
    assert set(broker.topics) == {"theirs"}
    with pytest.raises(Refused, match=r"already run can't be given brokers=3"):
        servers.get(Wanted(brokers=3))
    servers.close()
    running.topics.delete("theirs")


@asynchronous
async def test_coroutines_touch_no_topic_of_others() -> None:
    with Broker(in_process=True) as running:
        running.topics.create("theirs")
        broker = ExternalBroker(running.bootstrap_servers)
        aio = broker.aio
        await aio.start()
        await aio.topics.create("ours")
        assert (await aio.topics.get("ours")).name == "ours"
        assert await aio.topics.names() == ["ours", "theirs"]
        await aio.reset()
        assert await aio.topics.names() == ["theirs"]
        await aio.close()


def test_a_topic_of_others_is_not_touched(running: Broker) -> None:
    running.topics.create("theirs")
    broker = ExternalBroker(running.bootstrap_servers)
    server = ExternalServers(Wanted(), (("theirs", 1),), [], broker).get(Wanted())
    with pytest.raises(BrokerFailed, match=r"EXISTS.*odradek_prefix"):
        server.clean(())
    server.end()
    assert "theirs" in running.topics
    running.topics.delete("theirs")


@pytest.mark.parametrize("servers", ["", "host", "host:port", ":1", "h:0", "a:1,", "h:65536"])
def test_addresses_that_make_no_sense(servers: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT|a port is between"):
        addresses_of(servers)


def test_nobody_there() -> None:
    with pytest.raises(BrokerFailed, match=r"127\.0\.0\.1:1 does not answer"):
        ExternalBroker("127.0.0.1:1").start()


USER_TESTS = """
import pytest


@pytest.mark.odradek(topics={"seeded": 3})
def test_one(odradek):
    assert len(odradek.topics["seeded"].partitions) == 3
    odradek.produce("seeded", b"v")


@pytest.mark.odradek(topics={"seeded": 1})
def test_two(odradek):
    assert odradek.records("seeded") == []


@pytest.mark.odradek(tls=True)
def test_three(odradek):
    pass
"""


def test_a_leader_may_hear_late_of_a_topic() -> None:
    """Metadata of another broker has named it."""
    with pytest.raises(Passing, match="t-0: UNKNOWN_TOPIC_OR_PARTITION"):
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, "t-0")
    with pytest.raises(AdminError, match="t-0: UNKNOWN_TOPIC_ID"):
        check(ErrorCode.UNKNOWN_TOPIC_ID, None, "t-0")


@pytest.mark.slow
def test_in_a_run(running: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVERS", running.bootstrap_servers)
    done = pytest_run(tmp_path, "--odradek-external=true")
    assert "2 passed, " in done.stdout and "1 error" in done.stdout, done.stdout + done.stderr
    assert "brokers that already run can't be given tls=True" in done.stdout
    assert set(running.topics) == set()


@pytest.mark.slow
def test_a_setting_that_makes_no_sense_is_a_sentence_without_frames(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text("def test_one(odradek): pass\n")
    done = pytest_run(tmp_path, "--odradek-external=host")
    assert "odradek_external: 'host' is not HOST:PORT" in done.stdout
    assert "_odradek_pytest.py" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--odradek-external-admin=http://x:1", "odradek_external_admin: give odradek_external"),
        ("--odradek-external-config=file", "odradek_external_config: give odradek_external, too"),
        ("--odradek-prefix=ci.", "give odradek_external or odradek_share, too"),
    ],
)
def test_an_option_without_effect_is_refused(tmp_path: Path, option: str, sentence: str) -> None:
    assert sentence in pytest_run(tmp_path, option).stderr


@asynchronous
async def test_what_a_coordinator_is_loading_is_awaited(tmp_path: Path) -> None:
    async with running_here(tmp_path) as server:
        client = await server.client()
        await client.create_topic("t")
        await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)  # makes their topic
        await client.ask(commit("g", "t", {0: 1}), 8)
        coordinator = server.node.groups
        assert coordinator._shards is not None
        (led,) = (led for led in coordinator._shards.loaded() if "g" in led.machine.ids)
        broker = ExternalBroker(f"127.0.0.1:{server.port}")
        led.is_loading = True
        with pytest.raises(WaitTimeout, match="group g: COORDINATOR_LOAD_IN_PROGRESS"):
            await asyncio.to_thread(broker.wait_for_lag, "g", 0, timeout="0.2s")
        asked = server.node.metrics.requests["ListGroups"]
        before = asked.count
        reads = [
            asyncio.create_task(asyncio.to_thread(read))
            for read in (lambda: list(broker.groups), lambda: broker.groups["g"].offsets)
        ]
        await asynchronously(lambda: asked.count > before + 4, "both ask again")
        led.is_loading = False
        assert await asyncio.gather(*reads) == [["g"], {("t", 0): 1}]
        broker.close()
