"""Kafka's own tools for groups and records, of both versions: consumers, operators, log readers.

One JVM per version runs nearly all of them, one broker per version listens: what 3.9.2 reads in
`__consumer_offsets` was then written for classic groups only, which is all that it knows.  It has
readers of its own for these records; what it asks of a broker, 4.3.1 asks, too: `make soak`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from tests.kafka.jars import VERSIONS
from tests.kafka.java import Ended, ToolRunner, run_tool
from tests.support.brokers import UniqueName, create_topic
from tests.wire.group_members import Crew, fill, quick_server
from tests.wire.servers import Server

pytestmark = pytest.mark.java
RECORDS: Final = 50
SESSION_MS: Final = 45_000
FORMATTERS: Final = "org.apache.kafka.tools.consumer"
OLD_FORMATTERS: Final = "kafka.coordinator.group.GroupMetadataManager$"


reads_records = pytest.mark.parametrize("version", VERSIONS, indirect=True)


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.2", marks=pytest.mark.soak)])
def version(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def broker(target: str, version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # Nobody is meant to be put out: with KIP-848 a session is the broker's.
    patient = {"group.consumer.session.timeout.ms": str(SESSION_MS)}
    with quick_server(target, tmp_path_factory.mktemp(f"for-{version}"), **patient) as server:
        yield server


@pytest.fixture(scope="module")
def runner(version: str, runners: Mapping[str, ToolRunner]) -> ToolRunner:
    return runners[version]


@pytest.fixture
def tool(runner: ToolRunner, broker: Server) -> Callable[..., Ended]:
    """Run a tool against the broker."""

    def run(name: str, *arguments: str, check: bool = True) -> Ended:
        address = ["--bootstrap-server", broker.bootstrap_servers]
        if name == "ConsumerGroupCommand":
            address += ["--timeout", "30000"]  # else 5 s
        return runner.run(name, *address, *arguments, check=check)

    return run


@pytest.fixture
def protocols(version: str, target: str) -> list[str]:
    """The group protocols that both this version's tools and the target speak."""
    both = version == "4.3.1" and target != "kafka-3.9"
    return ["classic", "consumer"] if both else ["classic"]


@pytest.fixture
def topic(broker: Server, unique_name: UniqueName) -> str:
    """Two partitions with 50 records each."""
    name = unique_name("tools")
    create_topic(broker.bootstrap_servers, name, partitions=2)
    fill(broker, name, 2, RECORDS)
    return name


@pytest.fixture
def group(unique_name: UniqueName) -> str:
    return unique_name("group")


def table(text: str) -> list[dict[str, str]]:
    """The rows of a tool's table, by the names of its columns."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    header = next(i for i, words in enumerate(lines) if words[0] in ("GROUP", "TOPIC"))
    joined = " ".join(lines[header]).replace("COORDINATOR (ID)", "COORDINATOR ID").split()
    return [dict(zip(joined, words, strict=False)) for words in lines[header + 1 :]]


def commit(broker: Server, group: str, topic: str, offsets: dict[int, int], text: str = "") -> None:
    """Commit from outside an empty group."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group)
    consumer.commit(
        {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, text, -1)
            for partition, offset in offsets.items()
        }
    )
    consumer.close()


def committed(tool: Callable[..., Ended], group: str) -> dict[int, int]:
    rows = table(tool("ConsumerGroupCommand", "--describe", "--group", group).stdout)
    return {int(r["PARTITION"]): int(r["CURRENT-OFFSET"]) for r in rows if r["GROUP"] == group}


def test_verifiable_consumer(
    tool: Callable[..., Ended], topic: str, group: str, protocols: list[str]
) -> None:
    for protocol in protocols:
        check_verifiable_consumer(tool, topic, f"{group}-{protocol}", protocol)


def check_verifiable_consumer(
    tool: Callable[..., Ended], topic: str, group: str, protocol: str
) -> None:
    options = ["--topic", topic, "--group-id", group, "--max-messages", str(2 * RECORDS)]
    said = tool("VerifiableConsumer", *options, "--group-protocol", protocol).stdout
    events: dict[str, list[dict[str, Any]]] = {}
    for event in map(json.loads, said.splitlines()):
        events.setdefault(event["name"], []).append(event)
    assert sum(event["count"] for event in events["records_consumed"]) == 2 * RECORDS
    assert all(event["success"] for event in events["offsets_committed"])
    taken = [part for event in events["partitions_assigned"] for part in event["partitions"]]
    assert sorted(part["partition"] for part in taken) == [0, 1]
    assert events["shutdown_complete"]
    assert committed(tool, group) == {0: RECORDS, 1: RECORDS}


def test_consumer_performance(
    tool: Callable[..., Ended], version: str, topic: str, group: str
) -> None:
    count = "--messages" if version == "3.9.2" else "--num-records"
    options = ["--topic", topic, "--group", group, count, str(2 * RECORDS), "--hide-header"]
    (line,) = tool("ConsumerPerformance", *options).stdout.splitlines()
    assert int(line.split(", ")[4]) == 2 * RECORDS
    assert committed(tool, group) == {0: RECORDS, 1: RECORDS}


def test_the_console_consumer_goes_on_where_it_ended(
    broker: Server,
    tool: Callable[..., Ended],
    version: str,
    topic: str,
    group: str,
    protocols: list[str],
) -> None:
    """Each run needs a JVM: one protocol is enough, the newer where there is one."""
    protocol = protocols[-1]
    seen: list[str] = []
    for count in (30, 2 * RECORDS - 30):
        options = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
        options += ["--group", group, "--from-beginning", "--max-messages", str(count)]
        if protocol == "consumer":
            options += ["--consumer-property", "group.protocol=consumer"]
        options += ["--property", "print.partition=true", "--property", "print.offset=true"]
        done = run_tool(version, "ConsoleConsumer", *options).stdout
        seen += [line for line in done.splitlines() if line.startswith("Partition")]
    wanted = [f"Partition:{p}\tOffset:{n}\t{n}" for p in (0, 1) for n in range(RECORDS)]
    assert sorted(seen) == sorted(wanted)
    assert committed(tool, group) == {0: RECORDS, 1: RECORDS}


def test_a_living_group_is_described(
    broker: Server, tool: Callable[..., Ended], topic: str, group: str, protocols: list[str]
) -> None:
    for protocol in protocols:
        check_living_group(broker, tool, topic, f"{group}-{protocol}", protocol)


def check_living_group(
    broker: Server, tool: Callable[..., Ended], topic: str, group: str, protocol: str
) -> None:
    flavour = "confluent-range" if protocol == "classic" else "confluent-consumer"
    with Crew(broker, group, flavour, topics=[topic]) as crew:
        settings = {"enable_auto_commit": False, **_session(protocol)}
        members = [crew.start(**settings, client_id=f"client-{n}") for n in range(2)]
        crew.wait_for_owners([f"{topic}:0", f"{topic}:1"], members)
        ends = {f"{topic}:{p}": RECORDS for p in (0, 1)}
        crew.wait_until(lambda: _all_committed(crew, ends), "all committed")
        check_descriptions(tool, topic, group, protocol)
        check_refusals(tool, topic, group)


def _session(protocol: str) -> dict[str, Any]:
    """Settings of a member that is not put out when its process stands still for a moment."""
    return {"session_timeout_ms": SESSION_MS} if protocol == "classic" else {}


def _all_committed(crew: Crew, ends: dict[str, int]) -> bool:
    seen = [pair for event in crew.events("committed") for pair in event["offsets"].items()]
    return set(ends.items()) <= set(seen)


def check_descriptions(tool: Callable[..., Ended], topic: str, group: str, protocol: str) -> None:
    def groups(*options: str) -> list[dict[str, str]]:
        rows = table(tool("ConsumerGroupCommand", *options).stdout)
        return [row for row in rows if row["GROUP"] == group]

    (listed,) = groups("--list", "--state")
    assert listed["STATE"] == "Stable"
    (listed,) = groups("--list", "--type")
    assert listed["TYPE"].lower() == protocol
    assert not groups("--list", "--state", "Empty")

    rows = groups("--describe", "--group", group)
    assert {row["PARTITION"] for row in rows} == {"0", "1"}
    for row in rows:
        numbers = [row[name] for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")]
        assert (row["TOPIC"], numbers) == (topic, [str(RECORDS), str(RECORDS), "0"])
        assert row["HOST"] == "/127.0.0.1"
    assert {row["CLIENT-ID"] for row in rows} == {"client-0", "client-1"}

    members = groups("--describe", "--group", group, "--members", "--verbose")
    assert [row["#PARTITIONS"] for row in members] == ["1", "1"]
    shown = tool("ConsumerGroupCommand", "--describe", "--group", group, "--members", "--verbose")
    shares = re.findall(r"[(:](\d)\b", shown.stdout)  # 3.9.2 leaves the topic out
    assert sorted(set(shares)) == ["0", "1"], shown.stdout

    (state,) = groups("--describe", "--group", group, "--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")
    assert state["ASSIGNMENT-STRATEGY"] == ("range" if protocol == "classic" else "uniform")


def check_refusals(tool: Callable[..., Ended], topic: str, group: str) -> None:
    where = ("ConsumerGroupCommand", "--group", group)
    for arguments, reason in [
        (("--delete",), "GroupNotEmptyException"),
        (("--reset-offsets", "--topic", topic, "--to-earliest", "--execute"), "Stable"),
        (("--delete-offsets", "--topic", topic), "(?i)subscribed"),
    ]:
        done = tool(*where, *arguments, check=False)
        assert re.search(reason, done.stdout + done.stderr), (arguments, done)
    assert committed(tool, group) == {0: RECORDS, 1: RECORDS}


def test_offsets_are_reset_in_every_form(
    broker: Server, tool: Callable[..., Ended], topic: str, group: str, tmp_path: Any
) -> None:
    commit(broker, group, topic, {0: 20, 1: 30})
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,11\n{topic},1,12\n")

    def reset(*form: str) -> Ended:
        return tool("ConsumerGroupCommand", "--reset-offsets", "--group", group, *form)

    to_topic = ("--topic", topic)
    for form, dry, moved in [
        ((*to_topic, "--to-current"), False, {0: 20, 1: 30}),
        ((*to_topic, "--shift-by", "-25"), False, {0: 0, 1: 5}),
        ((*to_topic, "--to-earliest"), True, {0: 0, 1: 5}),
        ((*to_topic, "--to-latest"), False, {0: RECORDS, 1: RECORDS}),
        (("--all-topics", "--to-earliest"), False, {0: 0, 1: 0}),
        (("--topic", f"{topic}:1", "--to-offset", "17"), False, {0: 0, 1: 17}),
        ((*to_topic, "--to-datetime", "2100-01-01T00:00:00.000"), False, {0: 50, 1: 50}),
        ((*to_topic, "--by-duration", "PT1H"), False, {0: 0, 1: 0}),
        (("--from-file", str(plan)), False, {0: 11, 1: 12}),
    ]:
        reset(*form, "--dry-run" if dry else "--execute")
        assert committed(tool, group) == moved, form
    exported = reset(*to_topic, "--to-current", "--dry-run", "--export").stdout
    assert sorted(exported.split()) == [f"{topic},0,11", f"{topic},1,12"]


def test_offsets_and_groups_are_deleted(
    broker: Server, tool: Callable[..., Ended], topic: str, group: str
) -> None:
    commit(broker, group, topic, {0: 20, 1: 30})
    options = ("ConsumerGroupCommand", "--delete-offsets", "--group", group)
    assert "Successful" in tool(*options, "--topic", f"{topic}:0").stdout
    assert committed(tool, group) == {1: 30}
    assert "successful" in tool("ConsumerGroupCommand", "--delete", "--group", group).stdout
    again = tool("ConsumerGroupCommand", "--delete", "--group", group, check=False)
    assert "GroupIdNotFoundException" in again.stdout + again.stderr
    gone = tool("ConsumerGroupCommand", "--describe", "--group", group, check=False)
    # Brokers of 3.9 call an unknown group Dead, those of 4.x refuse it.
    assert re.search("does not exist|GroupIdNotFoundException", gone.stdout + gone.stderr)
    assert group not in tool("ConsumerGroupCommand", "--list").stdout.split()


def test_records_are_deleted(tool: Callable[..., Ended], topic: str, tmp_path: Any) -> None:
    wanted = [{"topic": topic, "partition": p, "offset": o} for p, o in ((0, 20), (1, -1))]
    plan = tmp_path / "delete.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    done = tool("DeleteRecordsCommand", "--offset-json-file", str(plan)).stdout
    assert f"{topic}-0\tlow_watermark: 20" in done
    assert f"{topic}-1\tlow_watermark: {RECORDS}" in done
    starts = tool("GetOffsetShell", "--topic", topic, "--time", "earliest").stdout.split()
    assert starts == [f"{topic}:0:20", f"{topic}:1:{RECORDS}"]
    ends = tool("GetOffsetShell", "--topic", topic, "--time", "latest").stdout.split()
    assert ends == [f"{topic}:0:{RECORDS}", f"{topic}:1:{RECORDS}"]
    described = tool("TopicCommand", "--describe", "--topic", topic).stdout
    assert "PartitionCount: 2" in described


@pytest.fixture
def known(broker: Server, topic: str, group: str) -> str:
    """The id of a member of a classic group that lived; the group has committed with metadata."""
    commit(broker, group, topic, {0: 7}, "where I was")
    with Crew(broker, group, "confluent-range", topics=[topic]) as crew:
        settings = {"enable_auto_commit": False, **_session("classic")}
        member = crew.start(client_id="known-client", **settings)
        ends = {f"{topic}:{p}": RECORDS for p in (0, 1)}
        crew.wait_until(lambda: _all_committed(crew, ends), "all committed")
        member.leave()
        member.wait()
    return "known-client"


@reads_records
def test_dump_log_segments_reads_the_offsets_topic(
    broker: Server, runner: ToolRunner, topic: str, group: str, known: str
) -> None:
    logs = [p for p in broker.data_dir.glob("__consumer_offsets-*/*.log") if p.stat().st_size]
    files = ",".join(map(str, logs))
    done = runner.run("DumpLogSegments", "--offsets-decoder", "--files", files).stdout
    assert "isvalid: false" not in done
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for key, value in re.findall(r" key: (\{.*\}) payload: (\{.*\})", done):
        found.append((json.loads(key), json.loads(value)))
    offsets = [
        (key["data"]["partition"], value["data"]["offset"], value["data"]["metadata"])
        for key, value in found
        if str(key["type"]) == "1" and key["data"]["group"] == group
    ]
    assert offsets[0] == (0, 7, "where I was")
    assert {(0, RECORDS, ""), (1, RECORDS, "")} <= set(offsets)
    states = [
        value["data"]
        for key, value in found
        if str(key["type"]) == "2" and key["data"]["group"] == group
    ]
    (member,) = next(state for state in states if state["members"])["members"]
    assert (member["clientId"], member["clientHost"]) == (known, "/127.0.0.1")
    assert member["subscription"]["topics"] == [topic]
    assert member["assignment"]["assignedPartitions"] == [{"topic": topic, "partitions": [0, 1]}]
    assert not states[-1]["members"]


@reads_records
def test_console_formatters_read_the_offsets_topic(
    tool: Callable[..., Ended], version: str, topic: str, group: str, known: str
) -> None:
    """Without `--max-messages`: that many are counted over all runs in one JVM."""

    def check(formatter: str, *expected: str) -> None:
        options = ["--topic", "__consumer_offsets", "--from-beginning", "--formatter", formatter]
        for patience_ms in (
            500,
            3_000,
            20_000,
        ):  # it ends when nothing comes for so long, at first too
            options += ["--timeout-ms", str(patience_ms)]
            shown = tool("ConsoleConsumer", *options, check=False).stdout
            if all(text in shown for text in expected):
                return
            del options[-2:]
        raise AssertionError(f"{formatter} shows no {expected}, but {shown}")

    check(
        f"{FORMATTERS}.OffsetsMessageFormatter",
        f'"group":"{group}","topic":"{topic}","partition":0',
        '"metadata":"where I was"',
    )
    check(
        f"{FORMATTERS}.GroupMetadataMessageFormatter",
        f'"group":"{group}"',
        f'"clientId":"{known}","clientHost":"/127.0.0.1"',
    )
    if version == "3.9.2":
        check(
            f"{OLD_FORMATTERS}OffsetsMessageFormatter",
            f"[{group},{topic},0]::OffsetAndMetadata(offset=7,",
        )
        check(
            f"{OLD_FORMATTERS}GroupMetadataMessageFormatter",
            f"{group}::GroupMetadata(groupId={group}, generation=1",
        )
