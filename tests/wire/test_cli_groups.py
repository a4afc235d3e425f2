"""`odradek groups` against a broker with live groups of real consumers, classic and KIP-848."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.cli import main
from tests.cli.conftest import PATIENTLY
from tests.support.brokers import NewTopicName, UniqueName
from tests.support.waiting import until
from tests.wire.clients import librdkafka
from tests.wire.servers import Server

Run = Callable[..., Result]
HOUR_MS: Final = 3_600_000
EPOCH_MS: Final = 1_700_000_000_000


@pytest.fixture
def run(server: Server) -> Run:
    """Run `odradek groups` in this process."""

    def run(*arguments: str, exit_code: int | None = 0) -> Result:
        command = ["groups", *arguments, "-b", server.bootstrap_servers, *PATIENTLY]
        result = CliRunner().invoke(main, command)
        expected = (0, 1) if exit_code is None else (exit_code,)
        assert result.exit_code in expected, (command, result.output, result.exception)
        if exit_code == 1:
            assert len(result.stderr.splitlines()) == 1, result.stderr
        return result

    return run


@pytest.fixture
def group(unique_name: UniqueName) -> str:
    return unique_name("group")


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest, target: str) -> str:
    if request.param == "consumer" and target == "kafka-3.9":
        pytest.skip("3.9 with ZooKeeper serves classic groups only")
    chosen: str = request.param
    return chosen


@pytest.fixture
def topic(server: Server, new_topic: NewTopicName) -> str:
    """Ten records in partition 0, an hour apart, three in partition 1, none in partition 2."""
    name = new_topic("read", partitions=3)
    producer = Producer(librdkafka(server.bootstrap_servers))
    for partition, count in ((0, 10), (1, 3)):
        for number in range(count):
            timestamp = EPOCH_MS + number * HOUR_MS
            producer.produce(name, b"value", partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0
    return name


@contextmanager
def members(server: Server, group: str, protocol: str, topic: str, count: int) -> Iterator[None]:
    """Consumers that live in a group until the end, and commit nothing by themselves."""
    ended = threading.Event()
    failures: list[BaseException] = []

    def live(number: int) -> None:
        settings = {"group.id": group, "group.protocol": protocol, "client.id": f"client-{number}"}
        consumer = Consumer(
            librdkafka(server.bootstrap_servers, **settings, **{"enable.auto.commit": False})
        )
        try:
            consumer.subscribe([topic])
            while not ended.is_set():
                consumer.poll(0.05)
        except BaseException as failure:
            failures.append(failure)
            raise
        finally:
            consumer.close()

    threads = [threading.Thread(target=live, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(30)
    assert not failures


def commit(server: Server, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit from outside the group."""
    consumer = Consumer(librdkafka(server.bootstrap_servers, **{"group.id": group}))
    positions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def described(run: Run, group: str, *options: str) -> dict[str, Any]:
    (document,) = json.loads(run("describe", group, *options, "--json").stdout)
    assert document["group"] == group
    found: dict[str, Any] = document
    return found


def committed(run: Run, group: str) -> dict[tuple[str, int], int]:
    return {
        (row["topic"], row["partition"]): row["committed"]
        for row in described(run, group)["partitions"]
        if row["committed"] is not None
    }


def test_a_group_lives_and_ends(
    server: Server, run: Run, group: str, topic: str, protocol: str
) -> None:
    commit(server, group, topic, {0: 4, 1: 3})
    with members(server, group, protocol, topic, 2):
        until(lambda: is_settled(run, group, readers=2))
        check_live_group(run, group, topic, protocol)
    until(lambda: bool(described(run, group, "--state")["state"] == "Empty"))
    rows = described(run, group)["partitions"]
    assert [(r["partition"], r["committed"], r["log_end"], r["lag"]) for r in rows] == [
        (0, 4, 10, 6),
        (1, 3, 3, 0),
    ]
    assert all(row["member_id"] is None for row in rows)

    run("reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
    assert committed(run, group) == {(topic, 0): 0, (topic, 1): 0}
    done = run("delete-offsets", group, "--topic", f"{topic}:0")
    assert done.stderr == f"deleted {topic}-0\n"
    assert committed(run, group) == {(topic, 1): 0}
    assert run("delete", group).stderr == f"deleted {group}\n"
    assert "GROUP_ID_NOT_FOUND" in run("describe", group, exit_code=1).stderr


def is_settled(run: Run, group: str, *, readers: int) -> bool:
    documents = json.loads(run("describe", group, "--members", "--json", exit_code=None).stdout)
    if not documents:  # nobody has joined yet
        return False
    (document,) = documents
    busy = [member for member in document["members"] if member["assignment"]]
    return bool(document["state"] == "Stable" and len(busy) == readers)


def check_live_group(run: Run, group: str, topic: str, protocol: str) -> None:
    header = described(run, group, "--state")
    assert (header["type"], header["state"], header["member_count"]) == (protocol, "Stable", 2)
    assert header["assignor"] == ("range" if protocol == "classic" else "uniform")
    assert (header["epoch"] is None) == (protocol == "classic")

    rows = described(run, group)["partitions"]
    assert [(r["partition"], r["committed"], r["log_end"], r["lag"]) for r in rows] == [
        (0, 4, 10, 6),
        (1, 3, 3, 0),
        (2, None, 0, None),
    ]
    assert {row["client_id"] for row in rows} == {"client-0", "client-1"}
    assert all(row["member_id"] and row["host"] for row in rows)

    found = described(run, group, "--members")["members"]
    assert sorted(p for m in found for p in m["assignment"][topic]) == [0, 1, 2]

    (listed,) = [g for g in json.loads(run("list", "--json").stdout) if g["group"] == group]
    assert (listed["type"], listed["state"], listed["protocol"]) == (protocol, "Stable", "consumer")
    assert listed["coordinator"] == header["coordinator"]
    other = "consumer" if protocol == "classic" else "classic"
    assert group in run("list", "-q", "--state", "stable", "--type", protocol).stdout.split()
    assert group not in run("list", "-q", "--type", other).stdout.split()
    assert group not in run("list", "-q", "--state", "Empty").stdout.split()

    for refused, reason in [
        (("reset-offsets", group, "--all-topics", "--to-latest", "--execute"), "is Stable"),
        (("delete", group), f"{group} has members (NON_EMPTY_GROUP)"),
        (("delete-offsets", group, "--topic", topic), "GROUP_SUBSCRIBED_TO_TOPIC"),
    ]:
        assert reason in run(*refused, exit_code=1).stderr
    assert committed(run, group) == {(topic, 0): 4, (topic, 1): 3}


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        (("--to-earliest",), [0, 0, 0]),
        (("--to-latest",), [10, 3, 0]),
        (("--to-current",), [4, 2, 0]),
        (("--to-offset", "2"), [2, 2, 0]),
        (("--to-datetime", "2023-11-15T00:13:20"), [2, 2, 0]),  # two hours later
        (("--to-datetime", str(EPOCH_MS + 5 * HOUR_MS)), [5, 3, 0]),
        (("--by-duration", "PT1H"), [10, 3, 0]),
    ],
)
def test_where_offsets_move_to(
    server: Server, run: Run, group: str, topic: str, options: tuple[str, ...], moved: list[int]
) -> None:
    commit(server, group, topic, {0: 4, 1: 2})
    arguments = ("reset-offsets", group, "--topic", topic, *options, "--json")
    planned = json.loads(run(*arguments).stdout)
    assert [row["new"] for row in planned["partitions"]] == moved
    assert [row["committed"] for row in planned["partitions"]] == [4, 2, None]
    assert not planned["executed"]
    assert committed(run, group) == {(topic, 0): 4, (topic, 1): 2}

    done = json.loads(run(*arguments, "--execute").stdout)
    assert done == {**planned, "executed": True}
    assert committed(run, group) == {(topic, p): offset for p, offset in enumerate(moved)}


def test_a_shift_is_fitted_into_the_log_and_moves_all_or_none(
    server: Server, run: Run, group: str, topic: str
) -> None:
    commit(server, group, topic, {0: 4, 1: 2})
    shift = ("reset-offsets", group, "--shift-by", "-3", "--execute")
    text = run(*shift, "--topic", f"{topic}:1,0").stdout
    assert "-1 is before the log's start: moves to 0" in text
    assert committed(run, group) == {(topic, 0): 1, (topic, 1): 0}
    complaint = run(*shift, "--topic", topic, exit_code=1).stderr
    # Without --execute the last line does not promise that it would work.
    assert run(*shift[:-1], "--topic", topic, exit_code=1).stderr == complaint
    assert f"{topic}-2: nothing is committed that could be shifted" in complaint
    assert committed(run, group) == {(topic, 0): 1, (topic, 1): 0}


def test_a_reset_makes_a_group_that_is_not_there(run: Run, group: str, topic: str) -> None:
    done = run("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert done.stdout.splitlines()[0].split() == ["TOPIC", "PARTITION", "COMMITTED", "NEW"]
    assert described(run, group)["state"] == "Empty"
    assert committed(run, group) == {(topic, 0): 10, (topic, 1): 3, (topic, 2): 0}
    title, columns, *rows = run("describe", group).stdout.splitlines()
    assert title == f"{group}  classic  Empty  0 members"
    assert columns.split()[:5] == ["TOPIC", "PARTITION", "COMMITTED", "LOG-END", "LAG"]
    assert [row.split()[:5] for row in rows] == [
        [topic, "0", "10", "10", "0"],
        [topic, "1", "3", "3", "0"],
        [topic, "2", "0", "0", "0"],
    ]


def test_what_is_not_there(run: Run, group: str, topic: str) -> None:
    for arguments, reason in [
        (("describe", group), "GROUP_ID_NOT_FOUND"),
        (("explain", group), "GROUP_ID_NOT_FOUND"),
        (("delete", group), f"{group} does not exist (GROUP_ID_NOT_FOUND)"),
        (("delete-offsets", group, "--topic", topic), "GROUP_ID_NOT_FOUND"),
        (("reset-offsets", group, "--all-topics", "--to-latest"), "has committed nothing"),
        (("reset-offsets", group, "--topic", "no-such", "--to-latest"), "UNKNOWN_TOPIC"),
        (("reset-offsets", group, "--topic", f"{topic}:3", "--to-latest"), "UNKNOWN_TOPIC"),
    ]:
        assert reason in run(*arguments, exit_code=1).stderr, arguments
    assert run("delete", group, "--if-exists").output == ""


def test_one_missing_group_hides_no_other(run: Run, group: str, topic: str) -> None:
    run("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    done = run("describe", f"{group}-not", group, "--json", exit_code=1)
    assert [document["group"] for document in json.loads(done.stdout)] == [group]
    assert f"{group}-not" in done.stderr


def test_wrong_usage(run: Run, group: str) -> None:
    to_topic = ("reset-offsets", group, "--topic", "t")
    for wrong in [
        to_topic,
        (*to_topic, "--to-latest", "--to-earliest"),
        (*to_topic, "--to-offset", "1", "--shift-by", "1"),
        (*to_topic, "--to-offset", "-1"),
        (*to_topic, "--all-topics", "--to-latest"),
        ("reset-offsets", group, "--to-latest"),
        ("describe", group, "--members", "--state"),
        ("delete-offsets", group),
    ]:
        run(*wrong, exit_code=2)


def test_a_group_explains_itself(
    server: Server, run: Run, group: str, topic: str, protocol: str, target: str
) -> None:
    with members(server, group, protocol, topic, 1):
        until(lambda: is_settled(run, group, readers=1))
        if target != "odradek":
            complaint = run("explain", group, exit_code=1).stderr
            assert "only Odradek keeps a journal" in complaint
            return
        told = json.loads(run("explain", group, "--json").stdout)
    assert (told["group"], told["type"], told["member_count"]) == (group, protocol, 1)
    assert sum(told["rebalance_reasons"].values()) == told["rebalances"] >= 1
    events = [entry["event"] for entry in told["entries"]]
    assert "joined" in events, events
    times = [entry["timestamp"] for entry in told["entries"]]
    assert times == sorted(times)
    first, second, *_ = run("explain", group).stdout.splitlines()
    assert first.startswith(f"{group} is ")
    assert "in the last 10 minutes." in second
