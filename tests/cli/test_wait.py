"""`odradek wait`: it returns when something is there, and says what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.process import free_port, killed_at_the_end
from tests.support.brokers import SharedServer
from tests.wire.servers import Server

from .conftest import Run, run_odradek, started

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def cluster(shared_server: SharedServer) -> Server:
    """A broker whose groups do not wait three seconds for more members."""
    return shared_server({"group.initial.rebalance.delay.ms": "0"})


def test_what_is_there_already(run: Run, topic: str) -> None:
    for arguments in (["broker"], ["topic", topic]):
        done = run("wait", *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_broker_that_starts_meanwhile(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "odradek"]
    with killed_at_the_end(
        subprocess.Popen([*command, "wait", "broker", "-b", address], stderr=subprocess.PIPE)
    ) as waiting:
        serve = [*command, "serve", "--listen", address, "--data-dir", str(tmp_path)]
        with killed_at_the_end(subprocess.Popen(serve, stdout=subprocess.DEVNULL)):
            assert waiting.wait(60) == 0


def test_a_topic_and_a_group_that_come_meanwhile(run: Run, cluster: Server) -> None:
    name, group = "comes-meanwhile", "comes-too"
    with (
        killed_at_the_end(started(cluster.bootstrap_servers, "wait", "topic", name)) as for_topic,
        killed_at_the_end(started(cluster.bootstrap_servers, "wait", "group", group)) as for_group,
    ):
        assert run("topics", "create", name).returncode == 0
        assert for_topic.wait(60) == 0
        with killed_at_the_end(started(cluster.bootstrap_servers, "consume", name, "-g", group)):
            assert for_group.wait(60) == 0
    run("topics", "delete", name)


def test_a_lag_that_ends(run: Run, topic: str, cluster: Server) -> None:
    assert run("produce", topic, "-p", "0", stdin=b"1\n2\n3\n").returncode == 0
    group = f"g-{topic}"
    for count, lag in ((1, 2), (2, 0)):
        read = run("consume", topic, "-g", group, "-o", "earliest", "-n", str(count))
        assert read.returncode == 0, read.stderr
        done = run("wait", "lag", group, "--max", str(lag))
        assert (done.returncode, done.stderr) == (0, b"")
    described = json.loads(run("groups", "describe", group, "--json").stdout)
    assert described[0]["partitions"][0]["lag"] == 0


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["broker", "--count", "9"], "the cluster has 1 of 9 brokers"),
        (["topic", "nowhere"], "there is no topic 'nowhere'"),
        (["group", "nobody"], "there is no group 'nobody'"),
        (["lag", "nobody"], "nobody has no committed offsets"),
    ],
)
def test_what_does_not_come_is_named(run: Run, arguments: list[str], missing: str) -> None:
    done = run("wait", *arguments, "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.decode() == f"not in 0.5 s: {missing}\n"


def test_no_broker_and_no_address() -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run_odradek("wait", "broker", "-b", address, "--timeout", "0.3")
    assert done.returncode == 3 and b"refuses the connection" in done.stderr
    done = run_odradek("wait", "broker", "-b", address, "-X", "request.timeot.ms=1")
    assert done.returncode == 1 and b"no such property" in done.stderr
    done = run_odradek("wait", "broker", "-b", "nonsense")
    assert (done.returncode, done.stderr) == (
        1,
        b"Error: bootstrap server 'nonsense' is not HOST:PORT\n",
    )
