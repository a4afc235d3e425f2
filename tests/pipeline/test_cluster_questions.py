"""What the jobs ask of brokers, on a real one."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.kafka_source import reading_options, source_options
from odradek.pipeline.topic_settings import TopicSettings, ask_settings
from odradek.pipeline.writing import open_topic
from tests.support.brokers import NewTopicName, StartServer
from tests.wire.servers import Server

pytestmark = pytest.mark.wire


@pytest.fixture
def kafka(server: Server) -> Iterator[Kafka]:
    cluster = Kafka(server.bootstrap_servers)
    yield cluster
    cluster.close()


def test_topics_are_found_by_name_and_pattern(kafka: Kafka, new_topic: NewTopicName) -> None:
    first, second = new_topic("found.a"), new_topic("found.b", partitions=2)
    assert kafka.topics([second, first]) == [first, second]
    assert kafka.topics(pattern=r"found\..*") == [first, second]
    assert "__consumer_offsets" not in kafka.topics(pattern=".*")
    assert kafka.partitions(second) == 2
    assert kafka.exists(first)
    assert not kafka.exists("found")


def test_the_ends_of_logs_are_told(kafka: Kafka, server: Server, new_topic: NewTopicName) -> None:
    topic = new_topic("timed")
    producer = KafkaProducer(bootstrap_servers=server.bootstrap_servers)
    for _ in range(10):
        producer.send(topic, b"x", partition=1)
    producer.close()
    assert kafka.earliest(topic) == {0: 0, 1: 0, 2: 0}
    assert kafka.latest(topic) == {0: 0, 1: 10, 2: 0}


def test_a_topic_is_made_with_its_settings(kafka: Kafka) -> None:
    kafka.create_topic("made-here", 4, {"retention.ms": "7000"})
    assert kafka.partitions("made-here") == 4
    assert kafka.topic_config("made-here") == {"retention.ms": "7000"}


def test_offsets_are_committed_for_a_group_without_members(
    kafka: Kafka, new_topic: NewTopicName
) -> None:
    topic = new_topic("lagging")
    assert kafka.committed("spark-x", [topic]) == {}
    kafka.commit("spark-x", {topic: {0: 3, 2: 4}})
    kafka.commit("spark-x", {})
    assert kafka.committed("spark-x", [topic]) == {topic: {0: 3, 2: 4}}
    assert kafka.committed("spark-x", ["other"]) == {}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (lambda kafka: kafka.topics(["here-not"]), "there is no topic here-not at "),
        (lambda kafka: kafka.latest("here-not"), "odradek topics create here-not"),
        (lambda kafka: kafka.topic_config("here-not"), "there is no topic here-not"),
        (lambda kafka: kafka.topics(pattern="("), "is not a pattern for topics"),
        (lambda kafka: kafka.topics(pattern="here-not.*"), "no topic at .* matches"),
        (lambda kafka: kafka.create_topic("a/b", 1), "a/b cannot be created: .*(may hold|invalid)"),
        (
            lambda kafka: kafka.create_topic("ab", 1, {"foo": "1"}),
            "(no topic config named '|Unknown topic config name: )foo",
        ),
    ],
)
def test_what_is_refused_is_one_sentence(
    kafka: Kafka, question: Callable[[Kafka], object], said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        question(kafka)


class Reserved:
    """An admin client of a user who may not see a topic's settings."""

    def describe_topics(self, names: object = None) -> list[dict[str, Any]]:
        topic_id = "00000000-0000-0000-0000-000000000001"
        return [{"name": "t", "error_code": 0, "topic_id": topic_id, "partitions": [{}, {}]}]

    def describe_configs(self, resources: object, config_filter: str = "modified") -> Any:
        hidden = SimpleNamespace(resource_type=2, resource_name="t", configs=[], error_code=29)
        answers = [SimpleNamespace(results=[hidden])]
        return KafkaAdminClient._describe_configs_process_responses(answers, config_filter)


def test_settings_that_may_not_be_read_are_not_taken_for_none() -> None:
    kafka = Kafka("there:9092")
    kafka._admin = Reserved()
    says = "the settings of t at there:9092 may not be read: allow the user of the job DESCRIBE_CON"
    with pytest.raises(PipelineError, match=says):
        kafka.topic_config("t")
    with pytest.raises(PipelineError, match=says):
        kafka.setting("t", "max.message.bytes")
    hidden = ask_settings(kafka, "t")
    assert hidden == TopicSettings(2, None, "AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(PipelineError, match=r"u is not there, .* whose settings are hidden"):
        open_topic(kafka, "u", hidden)
    assert open_topic(kafka, "t", hidden) == 2


def test_what_belongs_to_a_cluster_is_not_copied_with_a_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, int, dict[str, str]]] = []
    monkeypatch.setattr(Kafka, "exists", lambda *_: False)
    monkeypatch.setattr(Kafka, "partitions", lambda *_: 3)
    monkeypatch.setattr(Kafka, "create_topic", lambda _, *topic: made.append(topic))
    given = {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "1",
        "leader.replication.throttled.replicas": "*",
        "retention.ms": "5",
        "cleanup.policy": "compact",
    }
    assert open_topic(Kafka("there:9092"), "u", TopicSettings(3, given, None)) == 3
    assert made == [("u", 3, {"retention.ms": "5", "cleanup.policy": "compact"})]


def test_a_broker_that_comes_back_is_asked_again(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    kafka = Kafka(server.bootstrap_servers)
    kafka.create_topic("kept", 1)
    server.kill()
    with monkeypatch.context() as impatient:
        impatient.setattr("odradek.pipeline.kafka.CONNECT_TIMEOUT_MS", 300)
        with pytest.raises(PipelineError, match="no broker answers at"):
            kafka.latest("kept")
    server.start()
    assert kafka.latest("kept") == {0: 0}
    kafka.close()


def test_threads_ask_one_after_the_other() -> None:
    """Else one may close the connections that another waits at, when a broker is restarted."""
    both_ask = threading.Barrier(2)

    class Admin:
        def describe_topics(self) -> list[dict[str, Any]]:
            with suppress(threading.BrokenBarrierError):
                both_ask.wait(0.2)
                raise AssertionError("both ask at once")
            return [{"name": "t"}]

    kafka = Kafka("there:9092")
    kafka._admin = Admin()
    with ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(kafka.exists, "t") for _ in range(2)]
        assert [answer.result() for answer in answers] == [True, True]


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_certificates_that_are_not_there_are_named(store: str) -> None:
    type_pem = {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": "/there/is/none.pem"}
    kafka = Kafka("127.0.0.1:1", {"security.protocol": "SSL", **type_pem})
    with pytest.raises(PipelineError, match=rf"ssl\.{store}\.location=/there/is/none\.pem is no f"):
        kafka.cluster_id()


def test_spark_is_told_of_servers_and_properties() -> None:
    kafka = Kafka("a:1,b:2", {"security.protocol": "SSL"})
    assert source_options(kafka) == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.security.protocol": "SSL",
    }


@pytest.mark.parametrize(
    ("properties", "wait_ms"), [({}, "20"), ({"fetch.max.wait.ms": "500"}, "500")]
)
def test_a_fetch_at_the_end_waits_briefly_unless_the_user_wants_it(
    properties: dict[str, str], wait_ms: str
) -> None:
    kafka = Kafka("a:1", properties)
    options = reading_options(kafka, isolation_level="read_committed", fail_on_data_loss=True)
    assert options["kafka.fetch.max.wait.ms"] == wait_ms
