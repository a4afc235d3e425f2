"""`odradek replay`: what a journal did once, it does again at another broker."""

import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.cli import main
from odradek.cli.replay_ids import Ids
from odradek.protocol.messages.k00_produce import ProduceRequest
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.records import check_crc, read_header
from odradek.secure.client_files import client_files
from odradek.testing import Broker, BrokerFailed
from tests.kafka.apache import apache_kafka
from tests.support.messages import batch_of, produce_request

RECORDED = {"odradek.journal.frames.bytes": 1 << 20}


@pytest.fixture
def first() -> Iterator[Broker]:
    with Broker(settings=RECORDED, in_process=True) as started:
        started.topics.create("orders", partitions=2)
        yield started


@pytest.fixture
def second() -> Iterator[Broker]:
    with Broker(in_process=True) as started:
        yield started


def replay(file: Path, broker: Broker, *more: str, servers: str = "") -> Result:
    arguments = ["replay", str(file), "-b", servers or broker.bootstrap_servers, *more]
    return CliRunner().invoke(main, arguments)


def write_in_a_transaction(broker: Broker, *values: bytes) -> None:
    config = {**broker.client_config("confluent"), "transactional.id": "t", "client.id": "app"}
    producer = Producer(config)
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce("orders", value)
    producer.commit_transaction()


def read_in_a_group(broker: Broker, count: int) -> None:
    config = broker.client_config("confluent")
    consumer = Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(count, timeout=30)) == count
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.wire
@pytest.mark.slow
def test_transactions_and_groups_are_done_again(
    first: Broker, second: Broker, tmp_path: Path
) -> None:
    write_in_a_transaction(first, b"one", b"two", b"three")
    read_in_a_group(first, 3)
    saved = tmp_path / "journal.jsonl"
    count = first.journal.save(saved)
    second.topics.create("other")  # so that ids of topics and offsets are not the same by chance
    second.topics.create("orders", partitions=2)
    producer = Producer({**second.client_config("confluent"), "enable.idempotence": True})
    producer.produce("other", b"takes the first producer id")
    producer.flush()
    result = replay(saved, second)
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"\nsent {count} requests\n")
    assert "JoinGroup" in result.output and "MEMBER_ID_REQUIRED (as recorded)" in result.output
    was, now = (
        [(r.partition, r.value) for r in broker.records("orders", isolation="read_committed")]
        for broker in (first, second)
    )
    assert was == now and len(now) == 3
    assert second.groups["g"].offsets == first.groups["g"].offsets
    as_answered = tmp_path / "answer.json"
    lines = saved.read_text().splitlines()
    assert first.admin.get("journal", recordings=True)["requests"][0] == json.loads(lines[0])
    as_answered.write_text(json.dumps({"requests": [json.loads(line) for line in lines]}))
    assert f"sent {count} requests" in replay(as_answered, second).output


@pytest.mark.wire
@pytest.mark.slow
def test_other_answers_are_told(first: Broker, second: Broker, tmp_path: Path) -> None:
    first.faults.add(api="InitProducerId", times=1, error="COORDINATOR_LOAD_IN_PROGRESS")
    write_in_a_transaction(first, b"one")
    saved = tmp_path / "journal.jsonl"
    first.journal.save(saved)
    second.faults.add(api="Produce", topic="orders", error="TOPIC_AUTHORIZATION_FAILED")
    result = replay(saved, second, "--pace", "recorded")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert any(
        line.endswith(": no error (recorded: COORDINATOR_LOAD_IN_PROGRESS, by a rule for faults)")
        for line in lines
    )
    assert any(
        "Produce v" in line
        and line.endswith(
            " client_id=app topics=orders: TOPIC_AUTHORIZATION_FAILED (recorded: no error)"
        )
        for line in lines
    )
    assert "answers are different" in lines[-1]


@pytest.mark.wire
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9.2", pytest.param("4.3.1", marks=pytest.mark.soak)])
def test_kafka_answers_the_same(version: str, first: Broker, tmp_path: Path) -> None:
    write_in_a_transaction(first, b"one", b"two", b"three")
    read_in_a_group(first, 3)
    saved = tmp_path / "journal.jsonl"
    first.journal.save(saved)
    with apache_kafka(version, heap_mb=384) as kafka:
        servers = f"{kafka.host}:{kafka.port}"
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
        result = CliRunner().invoke(main, ["replay", str(saved), "-b", servers])
        assert result.exit_code == 0, result.output
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "other"})
        consumer.assign([TopicPartition("orders", partition, 0) for partition in (0, 1)])
        values = [message.value() for message in consumer.consume(3, timeout=30)]
        consumer.close()
    assert sorted(values) == [b"one", b"three", b"two"]


def test_a_request_with_a_secret_is_not_recorded(first: Broker, tmp_path: Path) -> None:
    admin = AdminClient(first.client_config("confluent"))
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion("alice", credential, b"not to be kept")
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(60)
    key = "listener.name.plaintext.ssl.key.password"
    entry = ConfigEntry(key, "not-to-be-kept", incremental_operation=AlterConfigOpType.SET)
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])]
    ).values():
        future.exception(60)
    first.journal.save(tmp_path / "journal")
    lines = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    kept = {line["api"] for line in lines if line.get("recording")}
    came = {request.api for request in first.journal.requests()}
    secret = {"AlterUserScramCredentials", "IncrementalAlterConfigs"}
    assert secret <= came
    assert "Metadata" in kept and not secret & kept


@pytest.mark.wire
@pytest.mark.slow
def test_only_what_is_recorded_can_be_saved(second: Broker, tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match=r"odradek\.journal\.frames\.bytes is 0"):
        second.journal.save(tmp_path / "journal.jsonl")
    with Broker(settings={"odradek.journal.frames.bytes": 1}, in_process=True) as broker:
        AdminClient(broker.client_config("confluent")).list_topics()
        saved = tmp_path / "small.jsonl"
        count = broker.journal.save(saved)
        assert count > 0
        assert f"left out: {count} of logins and requests without" in replay(saved, second).output


RECORDING: dict[str, Any] = {
    "frame": "AAMAAAAAAAAAAA==",  # Metadata v0
    "topic_ids": {},
    "given": {},
    "answered_before": None,
}
ENTRY: dict[str, Any] = {
    **{"number": 1, "at_ms": 1, "broker": 1, "client_id": None, "topics": [], "error": None},
    **{"faults": [], "recording": RECORDING},
}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("x", "Expecting value"),
        ([], "request 1: it is not an object"),
        ({"requests": 5}, "requests is not a list"),
        ({"number": 1}, "request 1: at_ms is missing"),
        ({**ENTRY, "number": True}, "request 1: number is not a whole number"),
        ({**ENTRY, "recording": {"frame": "AA"}}, "request 1: topic_ids is missing"),
        ({**RECORDING, "frame": "!"}, "request 1: Only base64 data is allowed"),
        ({**RECORDING, "frame": "A+cAAAAAAAAAAA=="}, "request 1: there is no API with the key 999"),
        ({**RECORDING, "given": {"producer_id": 1}}, "has one of producer_id and producer_epoch"),
        ({**RECORDING, "given": {"session_id": "x"}}, "session_id is not a whole number"),
        ({**RECORDING, "topic_ids": {"00": "orders"}}, "topic_ids are not ids and names"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, content: Any, sentence: str) -> None:
    file = tmp_path / "file"
    if isinstance(content, dict) and "frame" in content:
        content = {**ENTRY, "recording": content}
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    result = CliRunner().invoke(main, ["replay", str(file)])
    assert result.exit_code == 1 and "is not a journal with recordings: " in result.output
    assert sentence in result.output


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["replay", str(tmp_path / "nosuch")])
    assert result.exit_code == 1 and result.output.endswith("nosuch: No such file or directory\n")


def test_nobody_there_is_told(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.touch()
    result = CliRunner().invoke(main, ["replay", str(file), "-b", "127.0.0.1:1"])
    assert result.output == "Error: 127.0.0.1:1 refuses the connection: nothing listens there\n"
    assert result.exit_code == 1
    unknown = ["-X", "linger.ms=1"]
    result = CliRunner().invoke(main, ["replay", str(file), "-b", "127.0.0.1:1", *unknown])
    assert result.output == "Error: -X linger.ms: no such property for this command\n"
    tokens = ["sasl.mechanism=OAUTHBEARER", "sasl.oauthbearer.method=oidc"]
    login = [
        word for each in ("security.protocol=SASL_PLAINTEXT", *tokens) for word in ("-X", each)
    ]
    result = CliRunner().invoke(main, ["replay", str(file), *login])
    assert "can't log in by OAUTHBEARER with tokens that librdkafka gets" in result.output


@pytest.mark.wire
@pytest.mark.slow
@pytest.mark.parametrize("sasl", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_to_brokers_with_tls_and_a_login(first: Broker, tmp_path: Path, sasl: str) -> None:
    saved = tmp_path / "journal.jsonl"
    with Broker(in_process=True, tls=True, sasl=sasl, brokers=2) as secure:
        secure.topics.create("orders", partitions=2)
        # Requests go to the broker with the id of the recorded one.
        led = next(each for each in (0, 1) if secure.leader("orders", each) == first.broker_id)
        producer = Producer(first.client_config("confluent"))
        producer.produce("orders", b"v", partition=led)
        producer.flush()
        count = first.journal.save(saved)
        files = client_files(secure.client_config)
        config = tmp_path / "client.properties"
        config.write_text(files["java.properties"])
        servers = f"127.0.0.1:1,{secure.bootstrap_servers}"
        result = replay(saved, secure, "-F", str(config), servers=servers)
        assert result.output.endswith(f"sent {count} requests\n"), result.output
        assert [record.value for record in secure.records("orders", partition=led)] == [b"v"]
        without = replay(saved, secure).output
        assert "speaks TLS: set security.protocol to SSL or SASL_SSL" in without
        if sasl != "OAUTHBEARER":
            text = config.read_text().replace(
                str(secure.client_config("confluent")["sasl.password"]), "guess"
            )
            config.write_text(text)
            wrong = replay(saved, secure, "-F", str(config)).output
            assert "refuses the login: Authentication failed" in wrong and "guess" not in wrong


def learned(ids: Ids, request: Any, response: Any, **given: int | str) -> None:
    ids.learn(request, given, response)


def test_a_producer_gets_its_new_id_and_epoch() -> None:
    ids = Ids()
    answer = InitProducerIdResponse(producer_id=7, producer_epoch=3)
    learned(ids, InitProducerIdRequest(), answer, producer_id=1000, producer_epoch=0)
    batch = bytes(batch_of(b"v", producer_id=1000, producer_epoch=0, base_sequence=5))
    other = bytes(batch_of(b"v", producer_id=1001, producer_epoch=0, base_sequence=5))
    request: ProduceRequest = produce_request("t", {0: batch + other})
    ids.replace(request)
    found = request.topic_data[0].partition_data[0].records
    assert isinstance(found, bytes)
    header = read_header(found)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 5)
    check_crc(found[: len(batch)], header)
    assert found[len(batch) :] == other
    again = InitProducerIdRequest(producer_id=1000, producer_epoch=0)
    ids.replace(again)
    assert (again.producer_id, again.producer_epoch) == (7, 3)


def test_what_is_no_batch_stays() -> None:
    ids = Ids()
    answer = InitProducerIdResponse(producer_id=7, producer_epoch=3)
    learned(ids, InitProducerIdRequest(), answer, producer_id=1000, producer_epoch=0)
    for data in (b"", b"no batch" * 20, bytes(batch_of(b"v", producer_id=1000))[:-1]):
        request = produce_request("t", {0: data})
        ids.replace(request)
        assert request.topic_data[0].partition_data[0].records == data


@pytest.mark.wire
@pytest.mark.slow
def test_a_request_that_cannot_be_read_is_told(second: Broker, tmp_path: Path) -> None:
    heartbeat = struct.pack(">hhih", 12, 0, 0, -1)
    recording = {"frame": b64encode(heartbeat).decode(), "topic_ids": {}, "given": {}}
    entry: dict[str, Any] = {
        "number": 1,
        "at_ms": 0,
        "broker": 0,
        "client_id": None,
        "topics": [],
        "error": None,
    }
    recorded = {**recording, "answered_before": None}
    file = tmp_path / "journal.jsonl"
    file.write_text(json.dumps({**entry, "faults": [], "recording": recorded}))
    assert "has a request that cannot be read: " in replay(file, second).output


def test_members_generations_sessions_and_topics() -> None:
    ids = Ids()
    joined = JoinGroupResponse(generation_id=4, member_id="new")
    learned(ids, JoinGroupRequest(group_id="g"), joined, generation_id=1, member_id="old")
    mine = HeartbeatRequest(group_id="g", generation_id=1, member_id="old")
    others = HeartbeatRequest(group_id="h", generation_id=1, member_id="else")
    ids.replace(mine)
    ids.replace(others)
    assert (mine.generation_id, mine.member_id) == (4, "new")
    assert (others.generation_id, others.member_id) == (1, "else")
    learned(ids, FetchRequest(), FetchResponse(session_id=9), session_id=5)
    ids.topics[b"a" * 16] = b"b" * 16
    partition = FetchPartition(partition=0, current_leader_epoch=8)
    fetch = FetchRequest(
        session_id=5, topics=[FetchTopic(topic_id=b"a" * 16, partitions=[partition])]
    )
    ids.replace(fetch)
    assert (fetch.session_id, fetch.topics[0].topic_id) == (9, b"b" * 16)
    assert partition.current_leader_epoch == -1
