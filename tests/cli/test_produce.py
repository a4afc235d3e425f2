"""What `odradek produce` does while its input comes slowly, and when something fails."""

import json
import signal
import subprocess
import sys

import pytest

from odradek.testing import Broker
from tests.kafka.process import killed_at_the_end
from tests.wire.servers import Server

from .conftest import Run, run_odradek, started

pytestmark = pytest.mark.wire


def producing(servers: str, *arguments: str) -> "subprocess.Popen[bytes]":
    return started(servers, "produce", *arguments, stdin=subprocess.PIPE)


def written(run: Run, topic: str) -> list[str]:
    done = run("consume", topic, "--until", "now")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def test_what_was_read_before_a_refused_record_is_written(run: Run, topic: str) -> None:
    good = [json.dumps({"value": str(n), "partition": 0}) for n in range(500)]
    bad = json.dumps({"value": "bad", "partition": 99})
    stdin = "\n".join([*good, bad, *good]).encode()
    done = run("produce", topic, "--json", stdin=stdin)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"has no partition 99" in done.stderr
    assert written(run, topic) == [str(n) for n in range(500)]


def test_a_line_that_no_broker_takes(run: Run, topic: str) -> None:
    stdin = b"first\n" + b"x" * (33 << 20) + b"\nlast\n"
    done = run("produce", topic, "-p", "0", stdin=stdin)
    assert done.returncode == 1 and b"size too large" in done.stderr
    assert written(run, topic) == ["first"]


def test_nothing_is_written_behind_a_record_that_was_not(run: Run, topic: str) -> None:
    small = "--set", "max.message.bytes=10000"
    assert run("configs", "alter", "--topic", topic, *small).returncode == 0
    lines = [b"%d" % n for n in range(100)] + [b"x" * 20_000] + [b"late"] * 50_000
    done = run("produce", topic, "-p", "0", "-X", "batch.size=8000", stdin=b"\n".join(lines))
    assert done.returncode == 1 and b"size too large" in done.stderr, done.stderr
    assert b"sent, 100 of them written" in done.stderr, done.stderr
    assert written(run, topic) == [str(n) for n in range(100)]


def test_a_full_disk_is_one_sentence(topic: str, cluster: Server) -> None:
    command = [sys.executable, "-m", "odradek", "produce", topic, "-f", "%o\n"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*command, "-b", cluster.bootstrap_servers],
            input=b"a\nb\n",
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == (
        b"Error: the output can't be written: No space left on device: "
        b"2 records sent, 2 of them written\n"
    )


def test_slow_input_is_acknowledged_as_it_comes(run: Run, topic: str, cluster: Server) -> None:
    with killed_at_the_end(
        producing(cluster.bootstrap_servers, topic, "-p", "0", "-f", "%o\n")
    ) as slow:
        assert slow.stdin is not None and slow.stdout is not None
        for number in range(3):
            slow.stdin.write(b"line\n")
            slow.stdin.flush()
            assert slow.stdout.readline() == b"%d\n" % number
        slow.stdin.close()
        assert slow.wait(20) == 0


def test_a_broker_that_goes_away_is_told_of_while_input_is_slow() -> None:
    with Broker() as broker:
        with killed_at_the_end(
            producing(broker.bootstrap_servers, "t", "--timeout", "3", "-f", "%o\n")
        ) as slow:
            assert slow.stdin is not None and slow.stdout is not None and slow.stderr is not None
            slow.stdin.write(b"before\n")
            slow.stdin.flush()
            assert slow.stdout.readline() == b"0\n"
            broker.kill()
            slow.stdin.write(b"lost\n")
            slow.stdin.flush()
            assert slow.stderr.readline().startswith(b"no broker answers")
            assert slow.wait(30) == 1
            said = slow.stderr.read().decode()
            assert "was not acknowledged in time" in said and "1 of them written" in said
        broker.start()
        done = run_odradek("consume", "t", "--until", "now", "-b", broker.bootstrap_servers)
        assert done.stdout == b"before\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_when_what_was_read_is_written(
    run: Run, topic: str, cluster: Server, number: signal.Signals
) -> None:
    with killed_at_the_end(producing(cluster.bootstrap_servers, topic, "-p", "0")) as busy:
        assert busy.stdin is not None and busy.stderr is not None
        busy.stdin.write(b"line\n" * 200_000)
        busy.stdin.flush()
        busy.send_signal(number)
        assert busy.wait(30) == 130
        assert busy.stderr.read() == b""
    # All but what was still in the pipe.
    assert len(written(run, topic)) >= 200_000 - (64 << 10)


def test_headers_may_repeat(run: Run, topic: str) -> None:
    assert run("produce", topic, "--value", "x", "-H", "a=1", "-H", "a=2").returncode == 0
    found = run("consume", topic, "--until", "now", "--json", "-H", "a=1", "-H", "a=2")
    assert json.loads(found.stdout)["headers"] == [["a", "1"], ["a", "2"]]


def test_a_reader_of_acknowledgements_that_closes_its_end(
    run: Run, topic: str, cluster: Server
) -> None:
    with killed_at_the_end(
        producing(cluster.bootstrap_servers, topic, "-p", "0", "-f", "%o\n")
    ) as busy:
        assert busy.stdin is not None and busy.stdout is not None
        busy.stdout.close()
        busy.stdin.write(b"line\n" * 50_000)
        busy.stdin.close()
        assert busy.wait(30) == 0
    assert len(written(run, topic)) == 50_000
