"""`odradek pipeline generate`: the records of a seed in a topic, at a rate, until it is stopped."""

import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from odradek.cli import main
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.events import Shape, events
from odradek.pipeline.generate import SPAN_EVENTS, Load, events_between, spans
from tests.kafka.process import killed_at_the_end
from tests.pipeline.copies import Stored
from tests.spark.warm import WarmSpark, environment
from tests.support.brokers import NewTopicName
from tests.support.waiting import until
from tests.wire.servers import Server

Record = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]


def load(records: int | None, rate: float | None = None) -> Load:
    return Load("t", "orders", 1, records, rate, Shape())


def line(server: Server, topic: str, *options: str) -> list[str]:
    command = [sys.executable, "-m", "odradek", "pipeline", "generate"]
    return [*command, "--topic", topic, "--bootstrap-servers", server.bootstrap_servers, *options]


def generate(server: Server, topic: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = line(server, topic, *options)
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)


def read(server: Server, topic: str) -> dict[int, list[Record]]:
    """All records of a topic, by partition, in order."""
    stored = Stored(server.bootstrap_servers, topic)
    return {
        partition: [(record.key, record.value, tuple(record.headers)) for record in records]
        for partition, records in stored.records.items()
    }


def test_spans_cover_all_indexes() -> None:
    assert list(spans(load(250_000))) == [
        (0, SPAN_EVENTS),
        (SPAN_EVENTS, 2 * SPAN_EVENTS),
        (2 * SPAN_EVENTS, 250_000),
    ]
    assert list(spans(load(25, rate=10))) == [(0, 10), (10, 20), (20, 25)]
    assert next(spans(load(None, rate=0.2))) == (0, 1)


@pytest.mark.slow
def test_any_part_can_be_made_alone() -> None:
    whole = list(events("orders", 1, 3500))
    assert list(events_between(load(None), 0, 3500)) == whole
    for first, end in ((0, 1), (999, 1001), (1000, 2000), (1500, 3456)):
        assert list(events_between(load(None), first, end)) == whole[first:end]


@pytest.mark.wire
def test_the_same_seed_gives_the_same_records(server: Server, new_topic: NewTopicName) -> None:
    topics = [new_topic("generated"), new_topic("generated")]
    options = ["--kind", "clicks", "--records", "1500", "--seed", "9"]
    for topic in topics:
        done = generate(server, topic, *options)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("1,500 clicks in ")
    first, second = (read(server, topic) for topic in topics)
    assert first == second
    expected = sorted(
        (event.key, event.value or b"", event.headers) for event in events("clicks", 9, 1500)
    )
    found = sorted(
        (key or b"", value or b"", headers)
        for records in first.values()
        for key, value, headers in records
    )
    assert found == expected


@pytest.mark.wire
def test_faults_are_reported(server: Server, new_topic: NewTopicName) -> None:
    topic = new_topic("faults")
    shares = ["--late", "0.2", "--duplicate", "0.1", "--malformed", "0"]
    done = generate(server, topic, "--records", "1000", *shares)
    faults = [
        event.fault
        for event in events("orders", 1, 1000, Shape(late=0.2, duplicate=0.1, malformed=0))
    ]
    said = f"{faults.count('late')} late, {faults.count('duplicate')} repeated, 0 malformed"
    assert said in done.stdout


@pytest.mark.wire
def test_a_rate_is_kept(server: Server, new_topic: NewTopicName) -> None:
    began = time.monotonic()
    done = generate(server, new_topic("paced"), "--records", "300", "--rate", "200")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began >= 299 / 200
    rate = float(done.stdout.split("(")[1].split("/s")[0])
    assert rate <= 203


def test_a_signal_while_spark_starts_is_no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a job that has written nothing would end with 0, as if it were done."""
    before = signal.getsignal(signal.SIGTERM)

    def start(*_: object) -> None:
        now = signal.getsignal(signal.SIGTERM)
        raise PipelineError("as before" if now == before else "caught")

    monkeypatch.setattr("odradek.cli.pipeline_generate.check_topic", lambda *_: None)
    monkeypatch.setattr("odradek.cli.pipeline_generate.start_spark", start)
    line = ["pipeline", "generate", "--topic", "t", "--master", "local[1]"]
    assert CliRunner().invoke(main, line).output == "Error: as before\n"


@pytest.mark.wire
@pytest.mark.timeout(200)
def test_a_signal_ends_it_in_good_order(server: Server, new_topic: NewTopicName) -> None:
    topic = new_topic("endless")
    command = line(server, topic, "--rate", "500")
    with killed_at_the_end(
        subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    ) as process:
        until(lambda: Stored(server.bootstrap_servers, topic).count, timeout_s=60)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    count = int(printed.split(" orders")[0].replace(",", ""))
    assert count == sum(map(len, read(server, topic).values())) > 0


@pytest.mark.wire
def test_a_topic_is_created_if_partitions_are_given(server: Server) -> None:
    done = generate(server, "made-by-generate", "--records", "30", "--partitions", "2")
    assert done.returncode == 0, done.stderr
    assert set(read(server, "made-by-generate")) == {0, 1}
    again = generate(server, "made-by-generate", "--records", "1", "--partitions", "3")
    assert again.returncode == 2
    assert "is there already, with 2 partitions, not 3" in again.stderr


@pytest.mark.wire
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--records", "1"], "there is no topic nowhere at "),
        (["--conf", "a=b"], "--conf and --jars are of use with --master only"),
        (["--late", "0.9", "--malformed", "0.9"], "are more than 1 together"),
        (["--start", "noon"], "--start 'noon' is no time: give milliseconds"),
        (["--master", "local[1]", "--event-timestamps"], "Spark's Kafka sink sets no timestamps"),
    ],
)
def test_what_it_can_not_do_is_one_sentence(
    server: Server, options: list[str], sentence: str
) -> None:
    done = generate(server, "nowhere", *options)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spark
@pytest.mark.timeout(200)
def test_spark_makes_the_same_records(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName
) -> None:
    topic = new_topic("by-spark")
    arguments = ["--topic", topic, "--bootstrap-servers", server.bootstrap_servers]
    done = warm_spark.command("generate", *arguments, "--records", "2500", "--rate", "2000")
    assert done.code == 0, done.stderr
    expected = sorted(
        (event.key, event.value or b"", event.headers) for event in events("orders", 1, 2500)
    )
    found = sorted(
        (key or b"", value or b"", headers)
        for records in read(server, topic).values()
        for key, value, headers in records
    )
    assert found == expected
