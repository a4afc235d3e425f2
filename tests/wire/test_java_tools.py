"""Apache Kafka's own command-line tools, of both versions, as an operator would use them."""

import json
import re

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka.java import Ended, ToolRunner, run_tool
from tests.support.brokers import NewTopicName, UniqueName
from tests.support.waiting import until
from tests.wire.clients import read_confluent, write_confluent, write_kafka_python
from tests.wire.records import Sent
from tests.wire.servers import Server

pytestmark = pytest.mark.java
TOPIC_ID = re.compile(r"TopicId: ([\w-]{22})\b")


def topics(server: Server, tools: ToolRunner, *arguments: str, check: bool = True) -> Ended:
    address = ("--bootstrap-server", server.bootstrap_servers)
    return tools.run("TopicCommand", *address, *arguments, check=check)


def test_a_topic_from_creation_to_deletion(
    server: Server, admin: AdminClient, unique_name: UniqueName, tools: ToolRunner
) -> None:
    name = unique_name("life")
    created = (
        "--create",
        "--topic",
        name,
        "--partitions",
        "2",
        "--config",
        "segment.bytes=1048576",
    )
    assert f"Created topic {name}." in topics(server, tools, *created).stdout
    described = topics(server, tools, "--describe", "--topic", name).stdout
    assert "PartitionCount: 2\tReplicationFactor: 1" in described
    assert "segment.bytes=1048576" in described
    assert TOPIC_ID.search(described)
    assert len(re.findall(r"\tPartition: \d\tLeader: \d\tReplicas: \d\tIsr: \d", described)) == 2
    assert name in topics(server, tools, "--list").stdout.split()
    topics(server, tools, "--alter", "--topic", name, "--partitions", "3")
    until(lambda: len(admin.list_topics(name, timeout=30).topics[name].partitions) == 3)
    topics(server, tools, "--delete", "--topic", name)
    until(lambda: name not in admin.list_topics(timeout=30).topics)


def test_refusals_name_their_reason(
    server: Server, new_topic: NewTopicName, tools: ToolRunner
) -> None:
    name = new_topic("refused", partitions=2)
    again = topics(server, tools, "--create", "--topic", name, check=False)
    assert again.exit_code == 1
    assert "TopicExistsException" in again.stdout + again.stderr
    fewer = topics(server, tools, "--alter", "--topic", name, "--partitions", "1", check=False)
    assert fewer.exit_code == 1
    assert "InvalidPartitionsException" in fewer.stdout + fewer.stderr
    many = ("--create", "--topic", f"{name}-3", "--replication-factor", "3")
    replicas = topics(server, tools, *many, check=False)
    assert replicas.exit_code == 1
    assert "InvalidReplicationFactorException" in replicas.stdout + replicas.stderr


def test_config_command_describes(
    server: Server, new_topic: NewTopicName, tools: ToolRunner
) -> None:
    name = new_topic("configured", config={"retention.ms": "123456789"})
    described = describe(server, tools, "topics", name, "--all")
    assert re.search(
        r"retention\.ms=123456789 sensitive=false"
        r" synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=123456789",
        described,
    )
    assert re.search(r"cleanup\.policy=delete sensitive=false", described)
    only_own = describe(server, tools, "topics", name)
    assert "retention.ms=123456789" in only_own
    assert "segment.ms" not in only_own


def test_config_command_describes_the_broker(
    server: Server, new_topic: NewTopicName, tools: ToolRunner
) -> None:
    described = topics(server, tools, "--describe", "--topic", new_topic("leader")).stdout
    found = re.search(r"Leader: (\d+)", described)
    assert found
    listed = describe(server, tools, "brokers", found[1], "--all")
    assert re.search(r"message\.max\.bytes=1048588 sensitive=false", listed)
    assert re.search(r"listeners=PLAINTEXT://", listed)


def describe(server: Server, tools: ToolRunner, kind: str, name: str, *more: str) -> str:
    address = ("--bootstrap-server", server.bootstrap_servers)
    entity = ("--entity-type", kind, "--entity-name", name)
    return tools.run("ConfigCommand", *address, "--describe", *entity, *more).stdout


def test_console_producer_and_consumer(
    server: Server, new_topic: NewTopicName, tools: ToolRunner
) -> None:
    name = new_topic("console", partitions=2)
    address = ("--bootstrap-server", server.bootstrap_servers, "--topic", name)
    properties = [
        "--property=parse.key=true",
        "--property=parse.headers=true",
        "--property=null.marker=<null>",
    ]
    # One key, so one partition.
    lines = "a:1,b:2\tkey\tvalue\na:3\tkey\t<null>\nh:x\tkey\twert-値\n"
    tools.run("ConsoleProducer", *address, *properties, stdin=lines.encode())
    partition = next(p for p in (0, 1) if log_size_bytes(server, name, p))
    where = ("--partition", str(partition), "--offset", "earliest", "--max-messages", "3")
    shown = [f"--property=print.{what}=true" for what in ("key", "headers", "offset")]
    consumed = run_tool(tools.version, "ConsoleConsumer", *address, *where, *shown).stdout
    found = [line for line in consumed.splitlines() if "\t" in line]
    assert found == [
        "Offset:0\ta:1,b:2\tkey\tvalue",
        "Offset:1\ta:3\tkey\tnull",
        "Offset:2\th:x\tkey\twert-値",
    ]


def log_size_bytes(server: Server, topic: str, partition: int) -> int:
    return (server.data_dir / f"{topic}-{partition}" / f"{0:020d}.log").stat().st_size


def test_get_offset_shell(server: Server, new_topic: NewTopicName, tools: ToolRunner) -> None:
    name = new_topic("offsets", partitions=3)
    records = [Sent(b"k", b"v", (), 1_000 * n) for n in (1, 5, 3)]
    write_kafka_python(server.bootstrap_servers, name, [(1, "none", records)])
    address = ("--bootstrap-server", server.bootstrap_servers, "--topic", name)

    def offsets(time: str) -> list[str]:
        return tools.run("GetOffsetShell", *address, "--time", time).stdout.split()

    assert offsets("latest") == [f"{name}:0:0", f"{name}:1:3", f"{name}:2:0"]
    assert f"{name}:1:1" in offsets("max-timestamp")
    assert f"{name}:1:1" in offsets("2000")


def test_producer_performance(server: Server, new_topic: NewTopicName, tools: ToolRunner) -> None:
    name = new_topic("performance")
    count = 20_000
    arguments = ["--topic", name, "--num-records", str(count), "--record-size", "1024"]
    properties = ["--producer-props", f"bootstrap.servers={server.bootstrap_servers}", "acks=all"]
    done = tools.run("ProducerPerformance", *arguments, "--throughput", "-1", *properties).stdout
    assert f"{count} records sent" in done
    found = read_confluent(server.bootstrap_servers, name, {0: count})[0]
    assert {len(record.value or b"") for record in found} == {1024}


def test_verifiable_producer(server: Server, new_topic: NewTopicName, tools: ToolRunner) -> None:
    name = new_topic("verifiable")
    arguments = ("--bootstrap-server", server.bootstrap_servers, "--topic", name, "--acks", "-1")
    done = run_tool(tools.version, "VerifiableProducer", *arguments, "--max-messages", "500").stdout
    events = [json.loads(line) for line in done.splitlines()]
    acked = [event for event in events if event["name"] == "producer_send_success"]
    assert [event["offset"] for event in acked] == list(range(500))
    found = read_confluent(server.bootstrap_servers, name, {0: 500})[0]
    assert [record.value for record in found] == [str(n).encode() for n in range(500)]


def test_log_dirs_command(server: Server, new_topic: NewTopicName, tools: ToolRunner) -> None:
    name = new_topic("dirs")
    write = [Sent(b"k", b"v" * 1000)]
    write_confluent(server.bootstrap_servers, name, [(0, "none", write)])
    address = ("--bootstrap-server", server.bootstrap_servers)
    done = tools.run("LogDirsCommand", *address, "--describe", "--topic-list", name)
    described = json.loads(done.stdout.splitlines()[-1])
    (partition,) = described["brokers"][0]["logDirs"][0]["partitions"]
    size_bytes = (server.data_dir / f"{name}-0" / f"{0:020d}.log").stat().st_size
    assert (partition["partition"], partition["size"]) == (f"{name}-0", size_bytes)
