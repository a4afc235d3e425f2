"""What `odradek consume` chooses: topics, partitions, ranges, records; and groups."""

import json
import signal
import subprocess
import sys

import pytest

from odradek.testing import Broker
from tests.kafka.process import killed_at_the_end
from tests.support.brokers import SharedServer
from tests.wire.servers import Server

from .conftest import PATIENTLY, Run, run_odradek, started

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def cluster(shared_server: SharedServer) -> Server:
    """A broker whose groups do not wait three seconds for more members."""
    return shared_server({"group.initial.rebalance.delay.ms": "0"})


def produce(run: Run, topic: str, *records: dict[str, object]) -> None:
    stdin = "".join(json.dumps(record) + "\n" for record in records).encode()
    done = run("produce", topic, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr


def lines(run: Run, *arguments: str) -> list[str]:
    done = run("consume", *arguments)
    assert (done.returncode, done.stderr) == (0, b""), done
    return done.stdout.decode().splitlines()


@pytest.fixture
def numbers(run: Run, topic: str) -> str:
    """A topic with 0 to 9 in partition 0 and 100 to 104 in partition 1."""
    first: list[dict[str, object]] = [
        {"value": str(n), "partition": 0, "key": "even" if n % 2 == 0 else None} for n in range(10)
    ]
    second: list[dict[str, object]] = [
        {"value": str(n), "partition": 1, "headers": [["h", str(n)]]} for n in range(100, 105)
    ]
    produce(run, topic, *first, *second)
    return topic


def test_ranges_and_partitions(run: Run, numbers: str) -> None:
    for arguments, expected in [
        (["-o", "2:5", "-p", "0"], "2 3 4"),
        (["-o", "+8:end", "-p", "0"], "8 9"),
        (["-o", ":-8", "-p", "0"], "0 1"),
        (["--tail", "2", "-p", "0"], "8 9"),
        (["--tail", "1", "-p", "0,1"], "104 9"),
        (["--tail", "1", "-p", "0", "-p", "1"], "104 9"),
        (["-o", "@-1h:end", "-p", "1", "-n", "2"], "100 101"),
        (["-o", "@:-1h"], ""),
    ]:
        assert " ".join(sorted(lines(run, numbers, *arguments))) == expected, arguments


def test_filters_and_formats(run: Run, numbers: str) -> None:
    assert lines(run, numbers, "--until", "now", "--key", "even") == ["0", "2", "4", "6", "8"]
    assert lines(run, numbers, "--until", "now", "--grep", "^10[12]$") == ["101", "102"]
    assert lines(run, numbers, "--until", "now", "-H", "h=103") == ["103"]
    assert lines(run, numbers, "--key", "even", "-o", "earliest", "-n", "2") == ["0", "2"]
    found = lines(run, numbers, "-o", "4:5", "-p", "0", "-f", "%t/%p/%o %k=%s %S\\n")
    assert found == [f"{numbers}/0/4 even=4 1"]


def test_several_topics_and_patterns(run: Run, numbers: str) -> None:
    other = f"{numbers}-other"
    assert run("topics", "create", other).returncode == 0
    produce(run, other, {"value": "x", "partition": 0})
    assert sorted(lines(run, numbers, other, "--until", "now", "-p", "0", "-n", "11"))[-1] == "x"
    assert len(lines(run, f"^{numbers}", "--until", "now")) == 16
    assert lines(run, f"^{numbers}-o", "--until", "now", "--json", "-n", "1")[0].startswith(
        f'{{"topic":"{other}","partition":0,"offset":0'
    )
    run("topics", "delete", other)


def test_a_group_goes_on_where_it_was(run: Run, numbers: str) -> None:
    group = f"g-{numbers}"
    first = lines(run, numbers, "-g", group, "-o", "earliest", "-n", "6", "--timeout", "30")
    rest = lines(run, numbers, "-g", group, "-o", "earliest", "--until", "now", "--timeout", "30")
    everything = [*map(str, range(10)), *map(str, range(100, 105))]
    assert sorted(first + rest, key=int) == everything
    assert lines(run, numbers, "-g", group, "--until", "now", "--timeout", "30") == []
    described = json.loads(run("groups", "describe", group, "--json").stdout)
    assert "'lag': 0" in str(described)


def test_a_group_commits_what_was_printed_before_a_signal(
    run: Run, numbers: str, cluster: Server
) -> None:
    group = f"g-{numbers}"
    arguments = ("consume", numbers, "-g", group, "-o", "earliest")
    with killed_at_the_end(started(cluster.bootstrap_servers, *arguments)) as member:
        assert member.stdout is not None
        seen = {member.stdout.readline() for _ in range(15)}
        member.send_signal(signal.SIGTERM)
        assert member.wait(20) == 0
    assert len(seen) == 15
    assert lines(run, numbers, "-g", group, "--until", "now", "--timeout", "30") == []


def test_where_each_produced_record_is(run: Run, topic: str) -> None:
    done = run("produce", topic, "-p", "2", "-f", "%p %o %s\\n", stdin=b"a\nb\n")
    assert (done.returncode, done.stdout) == (0, b"2 0 a\n2 1 b\n")


def test_a_group_that_takes_its_time_to_form() -> None:
    # Longer than it is waited for records before it is looked whether they can come.
    with Broker(settings={"group.initial.rebalance.delay.ms": 2500}) as broker:
        servers = ("-b", broker.bootstrap_servers)
        assert run_odradek("produce", "t", *servers, stdin=b"1\n2\n").returncode == 0
        group = ("-g", "slow", "--until", "now")  # from the earliest on, as without a group
        done = run_odradek("consume", "t", *group, *servers)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"1\n2\n", b"")


def test_a_pattern_means_the_same_in_a_group(run: Run, numbers: str) -> None:
    pattern = f"^{numbers[:-1]}\\w$"  # \\w is Python's, and unknown to librdkafka
    found = lines(
        run, pattern, "-g", f"g-{numbers}", "-o", "earliest", "-n", "15", "--timeout", "30"
    )
    assert len(found) == 15


def test_a_topic_that_is_deleted_ends_the_waiting_for_its_rest(
    run: Run, topic: str, cluster: Server
) -> None:
    # More than what librdkafka and a pipe hold.
    big = b"%s\n" % (b"x" * 1000)
    assert run("produce", topic, "-p", "0", stdin=big * 100_000).returncode == 0
    arguments = ("consume", topic, "--until", "now", "-p", "0")
    with killed_at_the_end(started(cluster.bootstrap_servers, *arguments)) as reader:
        assert reader.stdout is not None and reader.stderr is not None
        assert reader.stdout.readline() == big
        assert run("topics", "delete", topic).returncode == 0
        count = sum(1 for _ in reader.stdout)
        assert count < 99_999
        assert reader.wait(30) == 1
        assert reader.stderr.read().decode().splitlines()[-1].endswith("was deleted meanwhile")


def test_a_full_disk_is_one_sentence(run: Run, numbers: str, cluster: Server) -> None:
    command = [sys.executable, "-m", "odradek", "consume", numbers, "--until", "now"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*command, *PATIENTLY, "-b", cluster.bootstrap_servers],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == b"Error: the records can't be written: No space left on device\n"


def test_a_broker_that_is_away_is_told_of() -> None:
    with Broker() as broker:
        done = run_odradek("produce", "t", "-b", broker.bootstrap_servers, stdin=b"before\n")
        assert done.returncode == 0, done.stderr
        arguments = ("consume", "t", "-o", "earliest")
        with killed_at_the_end(started(broker.bootstrap_servers, *arguments)) as tail:
            assert tail.stdout is not None and tail.stderr is not None
            assert tail.stdout.readline() == b"before\n"
            broker.kill()
            told = tail.stderr.readline().decode()
            assert told.startswith("no broker answers") and told.endswith("waiting for one\n")
            broker.start()
            done = run_odradek("produce", "t", "-b", broker.bootstrap_servers, stdin=b"after\n")
            assert done.returncode == 0, done.stderr
            assert tail.stdout.readline() == b"after\n"
            tail.send_signal(signal.SIGTERM)
            assert tail.wait(20) == 0
            assert tail.stderr.read() == b"a broker answers again\n"
