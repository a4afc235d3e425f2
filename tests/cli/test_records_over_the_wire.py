"""`odradek produce` and `odradek consume` against a broker."""

import json
import signal
import subprocess

import pytest

from tests.kafka.process import killed_at_the_end
from tests.wire.servers import Server

from .conftest import Run, started

pytestmark = pytest.mark.wire

LINES: list[dict[str, object]] = [
    {"key": "k", "value": "v", "headers": [["h", "x"], ["h", None], ["e", ""]], "partition": 2},
    {"key": None, "value": None, "headers": [["only", {"base64": "/w=="}]], "partition": 1},
    {"key": {"base64": "/wA="}, "value": None, "headers": [], "partition": 1},
    {"key": "", "value": "", "headers": [], "partition": 0},
    {"key": "ü\n\u2028", "value": "line\nbreak", "headers": [], "partition": 1},
]


def keep(run: Run, topic: str) -> None:
    """Records of any age: else those of long ago go with the broker's next look at retention."""
    done = run("configs", "alter", "--topic", topic, "--set", "retention.ms=-1")
    assert done.returncode == 0, done.stderr


def as_json_lines(output: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_json_round_trip_loses_nothing(run: Run, topic: str, codec: str) -> None:
    lines = [{**line, "timestamp": 1_700_000_000_000 + n} for n, line in enumerate(LINES)]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    keep(run, topic)
    produced = run("produce", topic, "--json", "-z", codec, stdin=stdin)
    assert (produced.returncode, produced.stdout, produced.stderr) == (0, b"", b"")

    first = run("consume", topic, "--until", "now", "--json")
    assert first.returncode == 0, first.stderr
    records = as_json_lines(first.stdout)
    kept = [{name: record[name] for name in lines[0]} for record in records]
    assert sorted(kept, key=str) == sorted(lines, key=str)
    assert all(record["timestamp_type"] == "CreateTime" for record in records)

    if codec != "none":  # a copy has none, whatever the original has
        return
    run("topics", "create", f"{topic}-2", "-p", "3")
    keep(run, f"{topic}-2")
    assert run("produce", f"{topic}-2", "--json", stdin=first.stdout).returncode == 0
    second = run("consume", f"{topic}-2", "--until", "now", "--json")
    run("topics", "delete", f"{topic}-2")
    again = [{**record, "topic": topic} for record in as_json_lines(second.stdout)]
    assert sorted(again, key=str) == sorted(records, key=str)


def test_plain_lines_with_keys_and_headers(run: Run, topic: str) -> None:
    produced = run("produce", topic, "-K", ":", "-H", "from=test", stdin=b"a:1\nb:2:3\nc:")
    assert produced.returncode == 0, produced.stderr
    consumed = run("consume", topic, "--until", "now", "-K", "|")
    assert sorted(consumed.stdout.splitlines()) == [b"a|1", b"b|2:3", b"c|"]
    plain = run("consume", topic, "--until", "now")
    assert sorted(plain.stdout.split(b"\n")) == [b"", b"", b"1", b"2:3"]
    records = as_json_lines(run("consume", topic, "--until", "now", "--json").stdout)
    assert all(record["headers"] == [["from", "test"]] for record in records)
    bad = run("produce", topic, "-K", ":", stdin=b"a:1\nno separator\n")
    assert (bad.returncode, bad.stderr) == (1, b"Error: line 2: has no key separator ':'\n")
    assert len(run("consume", topic, "--until", "now").stdout.splitlines()) == 4


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_one_value_from_the_command_line(run: Run, topic: str, acks: str) -> None:
    done = run("produce", topic, "--value", "x", "-k", "key", "-p", "1", "--acks", acks)
    assert (done.returncode, done.stderr) == (0, b"")
    where = ", offset unknown with acks=0" if acks == "0" else " offset 0"
    assert done.stdout.decode() == f"{topic} partition 1{where}\n"
    consumed = run("consume", topic, "-n", "1", "--from-beginning", "-p", "1", "--timeout", "20")
    assert (consumed.returncode, consumed.stdout) == (0, b"x\n")


def test_where_to_start(run: Run, topic: str) -> None:
    keep(run, topic)
    lines = [{"value": str(n), "partition": 0, "timestamp": 1000 + n} for n in range(10)]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert run("produce", topic, "--json", stdin=stdin).returncode == 0
    for where, expected in [
        ("earliest", range(10)),
        ("latest", range(0)),
        ("7", range(7, 10)),
        ("-2", range(8, 10)),
        ("@1970-01-01T00:00:01.004Z", range(4, 10)),
    ]:
        consumed = run("consume", topic, "-o", where, "--until", "now", "-p", "0")
        assert consumed.returncode == 0, consumed.stderr
        assert [int(line) for line in consumed.stdout.split()] == list(expected), where
    beyond = run("consume", topic, "-o", "99", "--until", "now", "-p", "0")
    assert (beyond.returncode, beyond.stdout) == (0, b"")
    assert b"ends at offset 10: taking that instead of 99" in beyond.stderr


def test_count_is_exact_and_timeout_is_exit_code_3(run: Run, topic: str) -> None:
    assert run("produce", topic, "-p", "0", stdin=b"1\n2\n3\n4\n").returncode == 0
    enough = run("consume", topic, "--from-beginning", "-n", "3")
    assert (enough.returncode, enough.stdout) == (0, b"1\n2\n3\n")
    too_few = consumed_for_a_time(run, topic, "-n", "5")
    assert (too_few.returncode, too_few.stdout) == (3, b"1\n2\n3\n4\n")
    assert too_few.stderr.endswith(b" s: 4 of 5 records\n")
    no_goal = consumed_for_a_time(run, topic)
    assert (no_goal.returncode, no_goal.stdout) == (0, b"1\n2\n3\n4\n")


def consumed_for_a_time(run: Run, topic: str, *more: str) -> subprocess.CompletedProcess[bytes]:
    """What is read before a timeout, which begins before the client has connected."""
    for timeout_s in ("1.5", "20"):  # on a slow machine the first may be over too soon
        done = run("consume", topic, "--from-beginning", *more, "--timeout", timeout_s)
        if done.stdout.count(b"\n") == 4:
            break
    return done


def test_until_now_of_an_empty_topic_ends_at_once(run: Run, topic: str) -> None:
    done = run("consume", topic, "--until", "now")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_sigterm_ends_a_tail_cleanly(run: Run, topic: str, cluster: Server) -> None:
    run("produce", topic, "--value", "seen", "-p", "0")
    arguments = ("consume", topic, "--from-beginning")
    with killed_at_the_end(started(cluster.bootstrap_servers, *arguments)) as tail:
        assert tail.stdout is not None and tail.stderr is not None
        assert tail.stdout.readline() == b"seen\n"
        tail.send_signal(signal.SIGTERM)
        assert tail.wait(20) == 0
        assert tail.stderr.read() == b""


def test_a_reader_that_closes_its_end_is_no_error(run: Run, topic: str, cluster: Server) -> None:
    run("produce", topic, stdin=b"some line\n" * 20_000)
    arguments = ("consume", topic, "--from-beginning")
    with killed_at_the_end(started(cluster.bootstrap_servers, *arguments)) as consume:
        assert consume.stdout is not None and consume.stderr is not None
        consume.stdout.readline()
        consume.stdout.close()
        assert consume.wait(20) == 0
        assert consume.stderr.read() == b""


def test_refusals_are_one_sentence_and_exit_code_1(run: Run, topic: str) -> None:
    for arguments, stdin, complaint in [
        (("consume", "nowhere"), b"", "there is no topic 'nowhere'"),
        (("consume", topic, "-p", "9"), b"", f"{topic} has partitions 0 to 2, not 9"),
        (("produce", topic, "-p", "9"), b"x", f"{topic} has no partition 9"),
        (("produce", "bad name"), b"x", "'bad name' is no name of a topic"),
        (("consume", topic[:-1]), b"", f"did you mean {topic}?"),
        (("consume", "^nowhere"), b"", "no topic matches ^nowhere"),
        (("consume", "^("), b"", "is no regular expression"),
        (("produce", topic, "--json"), b'{"value":"x"}\n{', "line 2: not JSON"),
        (("produce", topic, "-X", "no.such=1"), b"x", "-X no.such: no such property"),
        (("produce", topic, "-X", "acks=1", "--acks", "1"), b"x", "this command sets it itself"),
        (("consume", topic, "-X", "fetch.max.bytes=x"), b"", 'configuration property "fetch.max.'),
        (("topics", "list", "-X", "request.timeot.ms=1"), b"", "did you mean request.timeout.ms"),
        (("topics", "list", "-X", "request_timeout_ms=x"), b"", "'x' is not like"),
    ]:
        done = run(*arguments, stdin=stdin)
        assert (done.returncode, done.stdout) == (1, b""), arguments
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith("Error: ") and complaint in line, line


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "t", "-o", "x"),
        ("consume", "t", "-o", "1", "--from-beginning"),
        ("consume", "t", "--json", "-K", ":"),
        ("produce", "t", "--json", "-k", "x"),
        ("produce", "t", "-K", ":", "-k", "x"),
        ("produce", "t", "-p", "x"),
        ("produce", "t", "-H", "x"),
        ("produce", "t", "-f", "%h"),
        ("produce", "t", "-p", "2147483648"),
        ("produce", "t", "-K", ""),
        ("produce", "t", "--json", "-k", ""),
        ("produce", "t", "--timeout", "nan"),
        ("produce", "t", "--timeout", "inf"),
        ("produce", "t", "-X", "a=1", "-X", "a=2"),
        ("consume", "t", "--tail", "3", "--from-beginning"),
        ("consume", "t", "--grep", "a{99999999999}"),
        ("consume", "t", "-o", "1", "-o", "2"),
        ("consume", "t", "-o", "1:2", "--until", "now"),
        ("consume", "t", "--json", "-f", "%s"),
        ("consume", "t", "-f", "%q"),
        ("consume", "t", "--grep", "("),
        ("consume", "t", "-H", "x"),
        ("consume", "t", "-p", "0,x"),
        ("consume", "t", "-g", "g", "-p", "0"),
        ("consume", "t", "-g", "g", "-o", "5"),
        ("consume", "t", "-g", "g", "-o", ":5"),
        ("consume",),
    ],
)
def test_wrong_usage_is_exit_code_2(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Usage: ")
