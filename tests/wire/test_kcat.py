"""kcat (librdkafka 2.0 in Debian), which matches exact old versions to decide what a broker can."""

import json
import subprocess
import time

import pytest

from tests.kafka.process import killed_at_the_end
from tests.support.brokers import NewTopicName, UniqueName
from tests.wire.clients import read_aiokafka
from tests.wire.records import CODECS
from tests.wire.servers import Server

pytestmark = pytest.mark.kcat


def kcat(server: Server, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
    done = subprocess.run(
        ["kcat", "-b", server.bootstrap_servers, *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
    )
    output = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0 or not check, output
    return output


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_kcat_writes_and_aiokafka_reads(
    server: Server, new_topic: NewTopicName, codec: str, idempotent: bool
) -> None:
    name = new_topic("kcat")
    started_ms = int(time.time() * 1000)
    lines = b"".join(b"key-%d|%s\n" % (n, b"value-%d " % n * 20) for n in range(100))
    arguments = ["-P", "-t", name, "-p", "0", "-K", "|", "-z", codec, "-H", "a=1", "-H", "b=2"]
    arguments += ["-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "linger.ms=20"]
    kcat(server, *arguments, stdin=lines + b"empty|\n")
    found = read_aiokafka(server.bootstrap_servers, name, {0: 101})[0]
    assert [(r.key, r.value) for r in found[:100]] == [
        (b"key-%d" % n, b"value-%d " % n * 20) for n in range(100)
    ]
    assert found[100].value == b""
    assert {r.headers for r in found} == {(("a", b"1"), ("b", b"2"))}
    assert all(started_ms <= r.timestamp <= time.time() * 1000 for r in found)


def test_kcat_sends_compressed(server: Server, new_topic: NewTopicName) -> None:
    """librdkafka leaves lz4 or zstd out, silently, if the broker seems too old for it."""
    for attribute, codec in enumerate(CODECS):
        name = new_topic(f"kcat-{codec}")
        kcat(server, "-P", "-t", name, "-p", "0", "-z", codec, stdin=b"spool " * 1000)
        log = (server.data_dir / f"{name}-0" / f"{0:020d}.log").read_bytes()
        assert log[22] & 7 == attribute, codec


def test_kcat_lists_metadata(server: Server, new_topic: NewTopicName) -> None:
    name = new_topic("listed", partitions=3)
    listed = json.loads(kcat(server, "-L", "-J"))
    (found,) = [topic for topic in listed["topics"] if topic["topic"] == name]
    leader = listed["brokers"][0]["id"]
    assert [(p["partition"], p["leader"], p["replicas"]) for p in found["partitions"]] == [
        (n, leader, [{"id": leader}]) for n in range(3)
    ]


def test_kcat_queries_offsets_by_time(server: Server, new_topic: NewTopicName) -> None:
    name = new_topic("times")
    kcat(server, "-P", "-t", name, "-p", "0", stdin=b"a\nb\nc\n")
    first = read_aiokafka(server.bootstrap_servers, name, {0: 3})[0][0].timestamp
    for when, offset in (("-1", 3), ("-2", 0), (str(first - 1), 0)):
        assert kcat(server, "-Q", "-t", f"{name}:0:{when}").strip() == f"{name} [0] offset {offset}"


def test_kcat_creates_a_topic_by_writing_to_it(server: Server, unique_name: UniqueName) -> None:
    name = unique_name("automatic")
    kcat(server, "-P", "-t", name, stdin=b"first\n")
    assert kcat(server, "-C", "-q", "-t", name, "-p", "0", "-o", "beginning", "-e") == "first\n"


def test_kcat_follows_the_end(server: Server, new_topic: NewTopicName) -> None:
    """A long poll ends when a record arrives, not only by its timeout."""
    name = new_topic("follow")
    command = ["kcat", "-C", "-q", "-u", "-b", server.bootstrap_servers, "-t", name, "-p", "0"]
    command += ["-o", "beginning", "-c", "2", "-X", "fetch.wait.max.ms=300000"]
    with killed_at_the_end(subprocess.Popen(command, stdout=subprocess.PIPE)) as consumer:
        assert consumer.stdout is not None
        kcat(server, "-P", "-t", name, "-p", "0", stdin=b"one\n")
        assert consumer.stdout.readline() == b"one\n"
        kcat(server, "-P", "-t", name, "-p", "0", stdin=b"two\n")
        assert consumer.stdout.readline() == b"two\n", "before the test's time is over"
