"""`odradek pipeline rollup` with a real broker: every record ends in a window or is counted."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from odradek.pipeline.events import Event, Shape, events
from tests.pipeline.copies import Stored
from tests.pipeline.harness import Commands
from tests.spark.environment import ROOT
from tests.spark.warm import Result, WarmSpark, environment
from tests.support.brokers import NewTopicName
from tests.support.waiting import until
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

JOBS = "tests.pipeline.rollup_jobs"
SPEC = """\
name: {name}
source:
  topics: [{source}]
  max_offsets_per_trigger: {batch}
  bootstrap_servers: {servers}
schema:
  format: json
  fields: {{city: string, quantity: int, amount_cents: bigint, ordered_at: timestamp}}
event_time: ordered_at
watermark: 30 seconds
window: {window}
key: city
measures:
  orders: count
  revenue: sum(amount_cents)
  most: max(quantity)
output: {{{output}}}
dead_letters: {name}-bad
checkpoint: {folder}/checkpoint
"""
FIELDS = "fields: {city: string, quantity: int, amount_cents: bigint, ordered_at: timestamp}"
FLUSH = b'{"city": "-", "quantity": 1, "amount_cents": 0, "ordered_at": "2027-01-01T00:00:00Z"}'
SHAPE = Shape(events_per_second=10, late=0.1, malformed=0.02)


@dataclass(frozen=True)
class Case:
    """One rollup with a topic, a folder and a spec of its own."""

    server: Server
    source: str
    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "rollup.yaml"

    @property
    def parquet(self) -> Path:
        return self.folder / "parquet"

    def write_spec(self, *replacements: tuple[str, str], **values: object) -> None:
        given: dict[str, object] = {
            "name": self.source + "-totals",
            "source": self.source,
            "servers": self.server.bootstrap_servers,
            "batch": 1500,
            "window": "1 minute",
            "output": f"topic: {self.source}-totals, parquet: {self.parquet}",
            "folder": self.folder,
        }
        text = SPEC.format(**{**given, **values})
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        self.spec.write_text(text)

    def produce(self, *values: bytes | Event | None) -> None:
        producer = KafkaProducer(bootstrap_servers=self.server.bootstrap_servers)
        for value in values:
            if isinstance(value, Event):
                producer.send(self.source, key=value.key, value=value.value)
            else:
                producer.send(self.source, key=b"k", value=value)
        producer.close()

    def read(self, topic: str) -> list[Any]:
        by_partition = Stored(self.server.bootstrap_servers, topic).records
        return [record for records in by_partition.values() for record in records]

    def totals(self) -> dict[str, int]:
        """What the newest batch of the books says of all."""
        newest = sorted((self.folder / "checkpoint/odradek/batches").glob("*.json"))[-1]
        found: dict[str, int] = json.loads(newest.read_text())["total"]
        return found


@pytest.fixture
def case(server: Server, new_topic: NewTopicName, tmp_path: Path) -> Case:
    return Case(server, new_topic("orders"), tmp_path)


def check_everything(case: Case, warm: WarmSpark, made: list[Event]) -> None:
    """Windows, late and bad ones are all the records; the topic's last values are the Parquet rows.

    A record far in the future has closed all windows, and is in an open one itself.
    """
    malformed = sum(event.fault == "malformed" for event in made)
    totals = case.totals()
    rows = warm.run(f"{JOBS}.rows", folder=str(case.parquet))
    counted = sum(row["orders"] for row in rows)
    assert totals["records"] == len(made) + 1
    assert totals["bad"] == malformed
    assert totals["late"] > 0
    assert totals["partly_late"] == 0
    assert counted + totals["late"] + totals["bad"] + 1 == totals["records"]
    assert len({(row["window_start"], row["city"]) for row in rows}) == len(rows) == totals["rows"]
    last = {record.key: json.loads(record.value) for record in case.read(f"{case.source}-totals")}
    by_window = {(row["window_start"], row["city"]): row for row in rows}
    assert {(v["window_start"], v["city"]): v for v in last.values()} == by_window


def test_every_record_is_in_a_window_or_counted(case: Case, warm_spark: WarmSpark) -> None:
    made = list(events("orders", 5, 4500, SHAPE))
    case.write_spec()
    case.produce(*made)
    first = warm_spark.command("rollup", "--spec", str(case.spec), "--once")
    assert first.code == 0, first.stderr
    assert first.stdout.startswith(f"{case.source}-totals: 4,500 records, ")
    case.produce(FLUSH)
    second = warm_spark.command("rollup", "--spec", str(case.spec), "--once")
    assert second.code == 0, second.stderr
    check_everything(case, warm_spark, made)
    letters = case.read(f"{case.source}-totals-bad")
    bad = [event for event in made if event.fault == "malformed"]
    assert Counter((one.key, one.value) for one in letters) == Counter(
        (event.key, event.value) for event in bad
    )
    headers = dict(letters[0].headers)
    assert headers["odradek.source"].startswith(case.source.encode() + b"/")
    assert headers["odradek.reason"]


@pytest.mark.soak  # `make test` kills an archive's job (test_archive_kills.py)
@pytest.mark.timeout(900)
def test_kills_change_nothing(
    server: Server,
    new_topic: NewTopicName,
    tmp_path: Path,
    commands: Commands,
    warm_spark: WarmSpark,
) -> None:
    """Killed when a batch is noted, but not committed, and when its Parquet files come up."""
    case = Case(server, new_topic("killed"), tmp_path)
    made = list(events("orders", 6, 40_000, SHAPE))
    case.write_spec(batch=2000)
    case.produce(*made)
    for at in ("checkpoint/odradek/batches/0000000000.json", "parquet/date=*/rollup-*.parquet"):
        job = commands.start("rollup", "--spec", str(case.spec), output=tmp_path / "printed")
        try:
            job.wait_until(partial(has_file, tmp_path, at))
        finally:
            job.kill()
    case.produce(FLUSH)
    done = warm_spark.command("rollup", "--spec", str(case.spec), "--once")
    assert done.code == 0, done.stderr
    check_everything(case, warm_spark, made)
    # Bad records of a batch that ran twice are there twice, but none is missing.
    letters = case.read(f"{case.source}-totals-bad")
    assert len({dict(one.headers)["odradek.source"] for one in letters}) == case.totals()["bad"]


def has_file(folder: Path, pattern: str) -> bool:
    return any(folder.glob(pattern))


def refused(warm: WarmSpark, case: Case, sentence: str) -> Result:
    result = warm.command("rollup", "--spec", str(case.spec), "--once")
    assert result.code == 2
    assert sentence in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    return result


def test_what_it_can_not_do_is_one_sentence(
    server: Server, new_topic: NewTopicName, tmp_path: Path, warm_spark: WarmSpark
) -> None:
    case = Case(server, new_topic("refused"), tmp_path)
    case.produce(*[b"Brno,7"] * 20)

    case.write_spec(("key: city", "key: town"))
    refused(warm_spark, case, "rollup.yaml, line 12, key: there is no field `town`")
    case.write_spec(("sum(amount_cents)", "sum(amount_cents * price)"))
    refused(warm_spark, case, "line 15, measures.revenue: Spark can't use this: [UN")
    case.write_spec(source="nowhere")
    refused(warm_spark, case, "there is no topic nowhere at")
    case.write_spec(output=f"parquet: {tmp_path}")
    refused(warm_spark, case, "is not empty and not a rollup's: give the rollup another folder")

    case.write_spec(folder=tmp_path / "mismatch")
    refused(
        warm_spark,
        case,
        f"none of the 20 records of {case.source} that were read fits the schema",
    )
    assert not case.read(f"{case.source}-totals-bad")  # one sentence, not a topic of bad records
    corrected = (
        ("format: json", "format: csv"),
        (FIELDS, "fields: {city: string, quantity: int}"),
        ("event_time: ordered_at", "event_time: record_timestamp"),
        ("sum(amount_cents)", "sum(quantity)"),
    )
    case.write_spec(*corrected, folder=tmp_path / "mismatch")
    done = warm_spark.command("rollup", "--spec", str(case.spec), "--once")
    assert (done.code, ": 20 records, 0 late, 0 bad" in done.stdout) == (0, True), done
    lesser = ("max(quantity)", "min(quantity)")
    case.write_spec(*corrected, lesser, folder=tmp_path / "mismatch")
    refused(warm_spark, case, "was made with another `measures`: put the spec back, or")
    case.write_spec(folder=tmp_path / "another")
    refused(warm_spark, case, "holds the rows of another checkpoint: put that back, or give")


def test_windows_that_overlap_are_kept_by_key_in_the_topic(
    server: Server, new_topic: NewTopicName, tmp_path: Path, warm_spark: WarmSpark
) -> None:
    """Mode update: the last record of a key is the window; a record may be late for some only.

    The event of minute 10 moves the watermark to 9:30; late ones are told by it one batch later.
    """
    case = Case(server, new_topic("overlap"), tmp_path)
    window, output = "{size: 2 minutes, slide: 1 minute}", f"topic: {case.source}-o, mode: update"
    case.write_spec(window=window, output=output)
    for batch in (["00:10:00"], ["00:10:01"], ["00:09:10", "00:08:59", "00:07:00", "00:10:59"]):
        case.produce(*map(at, batch))
        done = warm_spark.command("rollup", "--spec", str(case.spec), "--once")
        assert done.code == 0, done.stderr
    last = {record.key: json.loads(record.value) for record in case.read(f"{case.source}-o")}
    found = {value["window_start"][11:16]: value["orders"] for value in last.values()}
    # 9:10 is in the windows from 8:00 (ends at 10:00) and 9:00; 8:59 in 7:00 (closed) and 8:00.
    assert found == {"00:08": 2, "00:09": 4, "00:10": 3}
    totals = case.totals()
    assert (totals["records"], totals["late"], totals["partly_late"]) == (6, 1, 1)


def test_a_rollup_by_pattern_outlives_a_topic_of_it(
    server: Server, new_topic: NewTopicName, tmp_path: Path, warm_spark: WarmSpark
) -> None:
    case = Case(server, new_topic("patterned"), tmp_path)
    gone, line = roll_up_two_by_pattern(case, new_topic, warm_spark)

    delete(server, gone)
    case.produce(at("00:12:00"))
    refused(warm_spark, case, f"{gone}-0, which the checkpoint")
    for _ in range(2):
        done = warm_spark.command(*line, "--no-fail-on-data-loss")
        assert (done.code, ": 3 records, " in done.stdout) == (0, True), done
    done = warm_spark.command(*line)
    assert done.code == 0, done


def test_a_rollup_by_pattern_outlives_a_topic_of_a_batch_that_was_killed(
    server: Server, new_topic: NewTopicName, tmp_path: Path, warm_spark: WarmSpark
) -> None:
    case = Case(server, new_topic("unended"), tmp_path)
    gone, line = roll_up_two_by_pattern(case, new_topic, warm_spark)

    end_in_the_first_batch(tmp_path / "checkpoint")
    delete(server, gone)
    case.produce(at("00:12:00"))
    refused(warm_spark, case, f"{gone}-0, which the checkpoint")
    done = warm_spark.command(*line, "--no-fail-on-data-loss")
    assert (done.code, ": 2 records, " in done.stdout) == (0, True), done
    done = warm_spark.command(*line)
    assert (done.code, ": 2 records, " in done.stdout) == (0, True), done


def roll_up_two_by_pattern(
    case: Case, new_topic: NewTopicName, spark: WarmSpark
) -> tuple[str, tuple[str, ...]]:
    """A record of the case's topic and one of another: the other's name, and the command."""
    case.produce(at("00:10:00"))
    other = new_topic(f"{case.source}-gone")
    replace(case, source=other).produce(at("00:11:00"))
    case.write_spec((f"topics: [{case.source}]", f"topics_pattern: {case.source}|{other}"))
    line = ("rollup", "--spec", str(case.spec), "--once")
    done = spark.command(*line)
    assert (done.code, ": 2 records, " in done.stdout) == (0, True), done
    return other, line


def end_in_the_first_batch(checkpoint: Path) -> None:
    """Leave what a job does that was killed before the first batch had done anything."""
    for folder in ("commits", "state", "odradek/batches"):
        shutil.rmtree(checkpoint / folder)
    for planned in (checkpoint / "offsets").iterdir():
        if planned.name not in ("0", ".0.crc"):
            planned.unlink()


def delete(server: Server, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    admin.delete_topics([topic])
    until(lambda: topic not in admin.list_topics())
    admin.close()


def at(moment: str) -> bytes:
    time_of_day = f"2026-01-01T{moment}Z"
    order = {"city": "Brno", "quantity": 1, "amount_cents": 5, "ordered_at": time_of_day}
    return json.dumps(order).encode()


def test_the_example_in_docs_runs(server: Server, tmp_path: Path, warm_spark: WarmSpark) -> None:
    where = ("--bootstrap-servers", server.bootstrap_servers)
    line = [sys.executable, "-m", "odradek", "pipeline", "generate", "--topic", "orders", *where]
    load = ["--partitions", "3", "--kind", "orders", "--records", "1000"]
    subprocess.run([*line, *load], env=environment(), check=True, capture_output=True, timeout=60)
    example = (ROOT / "pipeline" / "rollup-example.yaml").read_text()
    spec = tmp_path / "example.yaml"
    spec.write_text(example.replace("rollups/", f"{tmp_path}/"))
    done = warm_spark.command("rollup", "--spec", str(spec), "--once", *where)
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("revenue-per-city: ")
    assert " bad (in orders-bad); " in done.stdout
