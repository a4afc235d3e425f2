"""Topics, records and groups of `odradek.testing.Broker`: its admin API, in and out of process."""

import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import AdminError, Broker, BrokerFailed, Record
from odradek.testing.door import AdminClient, AdminClients, InvalidField
from tests.support.waiting import until

pytestmark = [pytest.mark.wire, pytest.mark.slow]


@pytest.fixture(scope="module", params=[False, True], ids=["child", "in process"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(in_process=request.param) as started:
        yield started


@pytest.fixture(scope="module")
def three() -> Iterator[Broker]:
    with Broker(brokers=3, in_process=True) as started:
        yield started


def test_topics_are_created_looked_at_and_deleted(broker: Broker) -> None:
    created = broker.topics.create("orders", partitions=2, configs={"retention.ms": 60_000})
    assert [each.leader for each in created.partitions] == [0, 0]
    assert broker.topics["orders"] == created
    assert "orders" in broker.topics
    assert "other" not in broker.topics
    assert list(broker.topics) == ["orders"]
    with pytest.raises(AdminError, match="TOPIC_ALREADY_EXISTS"):
        broker.topics.create("orders")
    with pytest.raises(ValueError, match="INVALID_TOPIC_EXCEPTION"):
        broker.topics.create("a/b")
    broker.topics.delete("orders")
    assert len(broker.topics) == 0
    with pytest.raises(KeyError, match="orders"):
        broker.topics["orders"]


def test_records_are_those_of_clients(broker: Broker) -> None:
    broker.topics.create("records", partitions=2)
    place = broker.produce("records", b"\xff", key="k", headers=[("a", b"\0"), ("a", None)])
    producer = Producer(broker.client_config("confluent"))
    producer.produce("records", "value", partition=place.partition, timestamp=7)
    producer.flush()
    first, second = broker.records("records")
    assert (first.key, first.value, first.headers) == (b"k", b"\xff", (("a", b"\0"), ("a", None)))
    assert second == Record(place.partition, 1, 7, None, b"value", ())
    assert broker.records("records", partition=1 - place.partition) == []
    assert broker.produce("records", None, partition=place.partition).offset == 2
    with pytest.raises(AdminError, match="there is no topic 'nosuch'"):
        broker.records("nosuch")


def test_keys_choose_the_partition_as_clients_do(broker: Broker) -> None:
    broker.topics.create("keys", partitions=7)
    chosen: dict[bytes, int] = {}
    producer = Producer({**broker.client_config("confluent"), "partitioner": "murmur2_random"})
    for key in (b"", b"a", b"ab", b"abc", b"abcd", b"\xff" * 9, "ключ".encode()):
        producer.produce(
            "keys", b"", key, on_delivery=lambda _, m: chosen.update({m.key(): m.partition()})
        )
        producer.flush()
        if key:  # librdkafka takes an empty key for none
            assert broker.produce("keys", b"", key=key).partition == chosen[key]


def test_more_records_than_an_answer_holds(broker: Broker) -> None:
    broker.topics.create("many")
    producer = Producer({**broker.client_config("confluent"), "linger.ms": 5})
    for number in range(12_000):
        producer.produce("many", b"%d" % number + b"x" * 200)
        producer.poll(0)
    producer.flush()
    assert [record.offset for record in broker.records("many")] == list(range(12_000))


def test_isolation_leaves_out_what_is_not_committed(broker: Broker) -> None:
    broker.topics.create("transactions")
    producer = Producer({**broker.client_config("confluent"), "transactional.id": "t"})
    producer.init_transactions()
    for value, end in (("aborted", "abort"), ("committed", "commit"), ("open", "")):
        producer.begin_transaction()
        producer.produce("transactions", value)
        producer.flush()
        if end:
            getattr(producer, f"{end}_transaction")()

    def values(**isolation: str) -> list[bytes | None]:
        found = broker.records("transactions", **isolation)  # type: ignore[arg-type]
        return [record.value for record in found]

    assert values() == [b"aborted", b"committed", b"open"]
    assert values(isolation="read_committed") == [b"committed"]
    producer.abort_transaction()
    assert values(isolation="read_committed") == [b"committed"]
    assert broker.coordinator("t", of="transaction") == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_show_state_members_and_offsets(broker: Broker, protocol: str) -> None:
    topic = f"of-{protocol}"
    broker.topics.create(topic, partitions=2)
    for _ in range(3):
        broker.produce(topic, b"v", partition=1)
    group = broker.groups[protocol]
    assert (group.state, group.members, group.offsets) == ("Dead", [], {})
    consumer = Consumer(
        {
            **broker.client_config("confluent"),
            "group.id": protocol,
            "group.protocol": protocol,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    messages = consumer.consume(3, timeout=30)
    assert len(messages) == 3
    consumer.commit(offsets=[TopicPartition(topic, 1, 2)], asynchronous=False)
    assert group.state == "Stable"
    (member,) = group.members
    assert (member.client_id, member.assignment) == ("reader", {topic: [0, 1]})
    assert group.offsets == {(topic, 1): 2}
    assert group.lag == {(topic, 1): 1}
    assert protocol in broker.groups
    assert broker.coordinator(protocol) == 0
    consumer.close()
    until(lambda: group.state == "Empty")


def test_leaders_are_moved(three: Broker) -> None:
    three.topics.create("moved", partitions=3, replication_factor=3)
    before = three.leader("moved", 0)
    after = three.move_leader("moved", 0)
    assert after != before
    assert three.leader("moved", 0) == after
    assert three.move_leader("moved", 0, to=before) == before
    shuffled = three.shuffle_leaders("moved")
    assert {key: three.leader(*key) for key in shuffled} == shuffled
    assert len(shuffled) == 3


def test_a_group_goes_on_with_another_coordinator(three: Broker) -> None:
    three.topics.create("followed", partitions=2)
    config = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**three.client_config("confluent"), **config})
    consumer.subscribe(["followed"])
    for number, partition in enumerate((0, 1)):
        before = three.coordinator("g")
        three.produce("followed", f"{number}", partition=partition)
        (message,) = consumer.consume(1, timeout=30)
        assert message.value() == b"%d" % number
        assert three.move_coordinator("g") != before
        consumer.commit(asynchronous=False)
        assert three.groups["g"].offsets["followed", partition] == message.offset() + 1
    assert three.move_coordinator("g", to=before) == three.coordinator("g") == before
    assert len(three.groups["g"].members) == 1
    consumer.close()


def test_a_coordinator_of_transactions_is_moved(three: Broker) -> None:
    three.topics.create("transacted")
    config = {"transactional.id": "tx"}
    producer = Producer({**three.client_config("confluent"), **config})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("transacted", "v")
    before = three.coordinator("tx", of="transaction")
    assert three.move_coordinator("tx", of="transaction") != before
    producer.commit_transaction(30)
    # The markers are written after the commit has been answered.
    assert len(three.wait_for_records("transacted", 1, isolation="read_committed")) == 1


def test_what_is_led_elsewhere_is_read_and_written(three: Broker) -> None:
    topic = three.topics.create("spread", partitions=3, replication_factor=1)
    assert {each.leader for each in topic.partitions} == {0, 1, 2}
    for partition in range(3):
        three.produce("spread", f"{partition}", partition=partition)
    assert [record.value for record in three.records("spread")] == [b"0", b"1", b"2"]


def test_the_url_stays_after_restarts_and_single_stops(three: Broker) -> None:
    url = three.admin_url
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    three.stop(0)
    assert three.admin.get("brokers")["brokers"][0]["state"] == "down"
    three.start(0)
    three.restart()
    assert three.admin_url == url
    assert three.admin.get("brokers")["brokers"][0]["state"] == "running"


def test_without_a_running_broker_it_says_so() -> None:
    broker = Broker(in_process=True)
    with pytest.raises(RuntimeError, match="not started"):
        _ = broker.admin_url
    with pytest.raises(BrokerFailed, match="no broker runs"):
        broker.records("t")
    with pytest.raises(ValueError, match=r"sets odradek\.admin\.listener itself"):
        Broker(settings={"odradek.admin.listener": ""})


class Stranger(BaseHTTPRequestHandler):
    """Some other HTTP API, which answers in JSON."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b'{"message": "not found"}')

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def test_what_is_no_admin_api_is_told() -> None:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.handle_request).start()
        client = AdminClient(f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(BrokerFailed, match=r"/admin/v1/brokers is no admin API: it says 404"):
            client.get("brokers")
        client.close()


def test_a_token_is_sent_by_the_fixture_and_needed_by_others() -> None:
    settings = {"odradek.admin.token": "secret"}
    with Broker(in_process=True, settings=settings) as broker:
        broker.topics.create("t")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{broker.admin_url}/admin/v1/topics")


def test_threads_that_come_first_share_a_client() -> None:
    both = threading.Barrier(2, timeout=30)

    class Together(AdminClients):
        def client_of(self, url: str) -> AdminClient:
            both.wait()
            return super().client_of(url)

    clients = Together(lambda: ["http://127.0.0.1:1"], "")
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: clients.first, range(2))
    assert first is second


def test_the_client_connects_again_after_a_pause(broker: Broker) -> None:
    client = AdminClient(broker.admin_url)
    client.get("brokers")
    (idle,) = client._idle
    assert idle.sock is not None
    idle.sock.shutdown(socket.SHUT_RDWR)  # as the server does with an idle connection
    assert client.get("brokers")["brokers"]
    client.close()


def test_threads_that_share_a_client_do_not_wait_for_each_other(broker: Broker) -> None:
    client = AdminClient(broker.admin_url)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(client.get, "wait", "topics", "awaited", timeout="60s")
        client.post("topics", name="awaited")
        assert waits.result()["name"] == "awaited"
    assert client._idle
    client.close()
    assert not client._idle


def test_the_client_explains_what_is_wrong(broker: Broker) -> None:
    client = AdminClient(broker.admin_url)
    with pytest.raises(InvalidField, match="'nosuch' is not a field") as refused:
        client.post("topics", name="t", nosuch=1)
    assert refused.value.status == 400
    with pytest.raises(AdminError, match="is the only one of its process"):
        client.post("brokers", 0, "stop")
    client.close()
    with pytest.raises(ValueError, match="is not http://HOST:PORT"):
        AdminClient("127.0.0.1:1")
    with pytest.raises(BrokerFailed, match="the admin API does not answer"):
        AdminClient("http://127.0.0.1:1").get("brokers")
