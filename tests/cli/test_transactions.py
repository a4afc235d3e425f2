"""`odradek transactions` beside Kafka's own tool: open, ended and hanging transactions."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from odradek.cli import main
from odradek.cli.brokers import brokers_of
from odradek.cli.clients import Cluster
from odradek.cli.completion import complete_transactional_ids
from odradek.protocol.messages.k00_produce import ProduceResponse
from tests.kafka.java import ToolRunner
from tests.support.brokers import create_topic
from tests.support.messages import produce_request
from tests.support.waiting import until
from tests.wire.clients import librdkafka
from tests.wire.raw import RawBatch
from tests.wire.servers import OdradekServer, Server, make_server

from .conftest import PATIENTLY

pytestmark = [
    pytest.mark.wire,
    pytest.mark.timeout(300),
]

KINDS: Final = ("odradek", pytest.param("kafka-3.9", marks=pytest.mark.java))
# So that a batch can be written that belongs to no transaction of a coordinator.
SETTINGS: Final = {"transaction.partition.verification.enable": "false"}
TIMEOUT_MS: Final = 600_000
TRANSACTIONAL: Final = 0x10
HOUR_MS: Final = 3_600_000
STRANGER: Final = 4242
"""The id of a producer that no coordinator knows."""
Run = Callable[..., Any]


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    broker = make_server(request.param, tmp_path_factory.mktemp("server"), SETTINGS)
    with closing(broker):
        broker.start()
        yield broker


@pytest.fixture(scope="module")
def producers(server: Server) -> Iterator[Mapping[str, Producer]]:
    """Transactions that were committed and aborted, and one that is left open in orders-0."""
    create_topic(server.bootstrap_servers, "orders", partitions=2)
    there = librdkafka(server.bootstrap_servers) | {"transaction.timeout.ms": TIMEOUT_MS}
    producers = {
        name: Producer(there | {"transactional.id": name})
        for name in ("committed-1", "aborted-1", "open-1")
    }
    for producer in producers.values():
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"x", partition=0)
        producer.flush(30)
    producers["committed-1"].commit_transaction(30)
    producers["aborted-1"].abort_transaction(30)
    ended = ["list", "-q", "--state", "CompleteCommit", "--state", "CompleteAbort"]
    command = ["transactions", *ended, *PATIENTLY, "-b", server.bootstrap_servers]
    until(  # Kafka answers a commit before it has written the markers
        lambda: CliRunner().invoke(main, command).stdout.split() == ["aborted-1", "committed-1"],
        "the transactions are complete",
    )
    yield producers


@pytest.fixture
def run(server: Server, producers: Mapping[str, Producer]) -> Run:
    """Run a command in this process; `fails` is in the sentence with which it must fail."""

    def run(*arguments: str, fails: str | None = None) -> str:
        command = ["transactions", *arguments, *PATIENTLY, "-b", server.bootstrap_servers]
        done = CliRunner().invoke(main, command, catch_exceptions=False)
        assert done.exit_code == (fails is not None), (command, done.output)
        if fails is not None:
            assert fails in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stdout

    return run


@pytest.fixture
def rows(run: Run) -> Run:
    """What a command prints as JSON."""
    return lambda *arguments: json.loads(run(*arguments, "--json"))


@pytest.fixture
def tool(server: Server, runners: Mapping[str, ToolRunner]) -> Run:
    """The table that Kafka's tool prints, without its header."""

    def tool(*arguments: str) -> list[list[str]]:
        where = ("--bootstrap-server", server.bootstrap_servers)
        printed = runners["3.9.2"].run("TransactionsCommand", *where, *arguments).stdout
        return [line.split() for line in printed.splitlines()[1:]]

    return tool


def hang(server: Server, topic: str, partition: int, producer_id: int, epoch: int = 0) -> None:
    """Write an hour-old batch of a transaction that no coordinator has in this partition."""
    batch = RawBatch(
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        timestamp=round(time.time() * 1000) - HOUR_MS,
    )
    request = produce_request(topic, {partition: batch.encode()})
    request.transactional_id = "hanging-1"
    with brokers_of(Cluster({"bootstrap.servers": server.bootstrap_servers})) as brokers:
        (leader,) = brokers.nodes()
        answer = brokers.ask(request, ProduceResponse, node_id=leader.node_id)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_listing(run: Run, rows: Run) -> None:
    states = {row["transactional_id"]: row["state"] for row in rows("list")}
    assert states == {
        "aborted-1": "CompleteAbort",
        "committed-1": "CompleteCommit",
        "open-1": "Ongoing",
    }
    assert run("list", "-q", "--state", "ongoing", "--state", "CompleteAbort") == (
        "aborted-1\nopen-1\n"
    )
    (listed,) = rows("list", "--state", "Ongoing")
    assert rows("list", "--producer-id", str(listed["producer_id"])) == [listed]
    assert rows("list", "--state", "Ongoing", "--running-longer-than", "0s") == [listed]
    assert rows("list", "--state", "Ongoing", "--running-longer-than", "1h") == []
    header, row = run("list", "--state", "Ongoing").splitlines()
    assert header.split() == ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
    assert row.split()[0] == "open-1" and listed["coordinator"]["address"] in row


def test_ids_are_completed(server: Server, run: Run) -> None:
    """The broker is named by what is typed so far."""
    typed = click.Context(click.Command("describe"))
    typed.params = {"bootstrap_servers": server.bootstrap_servers}
    name = click.Argument(["names"])
    assert complete_transactional_ids(typed, name, "o") == ["open-1"]
    typed.params["bootstrap_servers"] = "127.0.0.1:1"
    assert complete_transactional_ids(typed, name, "o") == []


def test_describing(run: Run, rows: Run) -> None:
    ended, ongoing = rows("describe", "committed-1", "open-1")
    (listed,) = rows("list", "--state", "Ongoing")
    assert ended["partitions"] == {}
    assert ongoing["producer_id"] == listed["producer_id"]
    assert ongoing["coordinator"] == listed["coordinator"]
    assert (ongoing["state"], ongoing["timeout_ms"]) == ("Ongoing", TIMEOUT_MS)
    assert ongoing["partitions"] == {"orders": [0]}
    assert abs(time.time() * 1000 - ongoing["start_time"] - ongoing["duration_ms"]) < 60_000
    shown = run("describe", "open-1", "open-2", fails="there is no transactional id open-2")
    assert shown.splitlines()[1].split()[-1] == "orders:0"


def test_explaining(server: Server, run: Run, rows: Run, producers: Mapping[str, Producer]) -> None:
    if not isinstance(server, OdradekServer):
        run("explain", "open-1", fails="only Odradek keeps a journal of its transactional ids")
        return
    told = rows("explain", "open-1")
    (described,) = rows("describe", "open-1")
    same = ("state", "producer_id", "producer_epoch", "timeout_ms", "start_time")
    assert [told[name] for name in same] == [described[name] for name in same]
    assert (told["pending_state"], told["missing_markers"]) == (None, [])
    events = [entry["event"] for entry in told["entries"]]
    assert events == ["initialized", "began"]
    assert told["entries"][1]["client"] == "rdkafka at 127.0.0.1"
    first, second, _, header, *entries = run("explain", "committed-1").splitlines()
    assert first.startswith("committed-1 is CompleteCommit, with producer ")
    assert second == "No transaction is open."
    assert header.split() == ["TIME", "EVENT", "CLIENT", "REASON"]
    assert [entry.split()[2] for entry in entries[-2:]] == ["commit", "committed"]
    run("explain", "nobody", fails="TRANSACTIONAL_ID_NOT_FOUND")


@pytest.mark.java
def test_kafkas_tool_prints_the_same(
    server: Server, rows: Run, tool: Run, producers: Mapping[str, Producer]
) -> None:
    listed = rows("list")
    assert sorted(tool("list")) == [
        [r["transactional_id"], str(r["coordinator"]["id"]), str(r["producer_id"]), r["state"]]
        for r in listed
    ]
    ((_, *described, _, partition),) = tool("describe", "--transactional-id", "open-1")
    (ours,) = rows("describe", "open-1")
    told = ("transactional_id", "producer_id", "producer_epoch", "state", "timeout_ms")
    assert described == [str(ours[name]) for name in (*told, "start_time")]
    assert partition == "orders-0" and ours["partitions"] == {"orders": [0]}

    create_topic(server.bootstrap_servers, "compared")
    hang(server, "compared", 0, STRANGER)
    ((*hanging, _),) = tool("find-hanging", "--topic", "compared")
    (found,) = rows("find-hanging", "--topic", "compared")
    assert hanging == [str(value) for name, value in found.items() if name != "idle_ms"]
    ((*known, _),) = tool("describe-producers", "--topic", "compared", "--partition", "0")
    (producer,) = rows("describe-producers", "compared")
    del producer["topic"], producer["partition"], producer["txn_start_offset"]
    assert sorted(known) == sorted(str(value) for value in producer.values())


def test_finding_and_aborting(server: Server, run: Run, rows: Run) -> None:
    create_topic(server.bootstrap_servers, "stuck", partitions=3)
    (ongoing,) = rows("describe", "open-1")
    hang(server, "stuck", 1, STRANGER)
    # Its coordinator knows this producer, but not that it writes here.
    hang(server, "stuck", 2, ongoing["producer_id"], ongoing["producer_epoch"])
    everywhere = rows("find-hanging", "--broker", str(ongoing["coordinator"]["id"]))
    found = rows("find-hanging", "--topic", "stuck")
    assert [(t["partition"], t["producer_id"], t["start_offset"]) for t in found] == [
        (1, STRANGER, 0),
        (2, ongoing["producer_id"], 0),
    ]
    assert all(t["idle_ms"] > HOUR_MS - 1000 for t in found)
    assert {(t["topic"], t["partition"]) for t in everywhere} >= {("stuck", 1), ("stuck", 2)}
    # The open transaction is no hanging one, however long its last record is ago.
    assert rows("find-hanging", "--topic", "orders", "--max-timeout", "0s") == []
    assert rows("find-hanging", "--topic", "stuck:1", "--max-timeout", "2h") == []
    assert [r["txn_start_offset"] for r in rows("describe-producers", "stuck", "-p", "0,1")] == [0]

    abort = ("abort", "stuck", "-p")
    run(*abort, "1", "--start-offset", "1", fails="no open transaction of stuck-1 starts at")
    run(*abort, "1", "--start-offset", "0")
    assert [t["partition"] for t in rows("find-hanging", "--topic", "stuck")] == [2]
    producer = ("--producer-id", str(ongoing["producer_id"]), "--producer-epoch", "0")
    run(*abort, "2", *producer, "--coordinator-epoch", "-1")
    assert run("find-hanging", "--topic", "stuck") == ""
    ended = rows("describe-producers", "stuck")
    assert [(r["partition"], r["txn_start_offset"]) for r in ended] == [(1, None), (2, None)]


def test_what_is_refused(run: Run) -> None:
    run("describe-producers", "nowhere", fails="there is no topic 'nowhere'")
    run("describe-producers", "orders", "-p", "2", fails="orders has partitions 0 to 1, not 2")
    run("describe-producers", "orders", "--broker", "77", fails="there is no broker 77")
    run("find-hanging", "--broker", "77", fails="there is no broker 77")
    run("find-hanging", "--topic", "orders:2", fails="there is no partition 2 of orders")
    run("abort", "nowhere", "-p", "0", "--start-offset", "0", fails="there is no topic 'nowhere'")
