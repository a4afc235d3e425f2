"""The audit with real Spark and a real broker: what is equal, what is found."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from odradek.pipeline.marks import HEADER
from tests.spark.warm import Result, WarmSpark
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COUNT: Final = 3000
PARTITIONS: Final = 3
TIME_START_MS: Final = 1_700_000_000_000
PINNED: Final = [510839307852121732, -8263664721510120761]
JOBS: Final = "tests.pipeline.audit_jobs"
# Each kind in a range of its own, all in partition 1; the numbers are offsets.
SPOILED: Final = """
    SELECT key, topic, partition, timestamp, timestampType, headers,
      IF(partition = 1 AND offset = 208,
         CAST(concat('V', substring(CAST(value AS STRING), 2)) AS BINARY), value) AS value,
      CASE WHEN partition = 1 AND offset IN (308, 309) THEN 617 - offset ELSE offset END AS offset
    FROM records WHERE NOT (partition = 1 AND offset = 8)
    UNION ALL
    SELECT key, topic, partition, timestamp, timestampType, headers, value, offset
    FROM records WHERE partition = 1 AND offset = 108
"""
Audit = Callable[..., tuple[Result, dict[str, Any]]]


HEADERS: Final[tuple[Any, ...]] = ([], [("a", b"1"), ("a", None)], [("empty", b"")])


class Record(NamedTuple):
    """A record of the source, and where a copy of it goes."""

    partition: int
    offset: int
    target: int

    def arguments(self) -> dict[str, Any]:
        """All kinds of keys, values and headers."""
        number = self.offset * PARTITIONS + self.partition
        return {
            "key": None if number % 7 == 0 else f"key-{number % 50}",
            "value": None if number % 11 == 0 else f"value-{number}",
            "headers": HEADERS[number % 3],
            "timestamp": TIME_START_MS + number,
        }


def whole() -> list[Record]:
    """The source, partition by partition."""
    return [
        Record(p, offset, p) for p in range(PARTITIONS) for offset in range(COUNT // PARTITIONS)
    ]


def produce(server: Server, topic: str, records: list[Record], *, source: str = "") -> None:
    """Write records, as copies from `source` if it is given."""
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "enable.idempotence": "true",
            "log_level": 0,
        }
    )
    for record in records:
        arguments = record.arguments()
        if source:
            mark = f"{source}/{record.partition}/{record.offset}".encode()
            arguments["headers"] = [*arguments["headers"], (HEADER, mark)]
        producer.produce(topic, partition=record.target, **arguments)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def topic(server: Server, new_topic: NewTopicName) -> str:
    """A topic of 1000 records in each of three partitions."""
    name = new_topic("audited", partitions=PARTITIONS)
    produce(server, name, whole())
    return name


@pytest.fixture(scope="module")
def archive(
    warm_spark: WarmSpark, server: Server, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """An archive of it."""
    return make_archive(warm_spark, server, topic, tmp_path_factory.mktemp("archive"))


@pytest.fixture
def audit(warm_spark: WarmSpark, server: Server, topic: str, tmp_path: Path) -> Audit:
    """Run the command, and read its JSON."""

    return auditor(warm_spark, server, topic, tmp_path / "report.json")


@pytest.fixture(scope="module")
def archived(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, str]:  # fmt: skip
    """A topic and its archive, which the tests spoil one after another."""
    name = new_topic("archived", partitions=PARTITIONS)
    produce(server, name, whole())
    folder = tmp_path_factory.mktemp("archived")
    return name, make_archive(warm_spark, server, name, folder)


@pytest.fixture
def audit_archived(
    warm_spark: WarmSpark, server: Server, archived: tuple[str, str], tmp_path: Path
) -> Audit:
    """Audit `archived`."""
    return auditor(warm_spark, server, archived[0], tmp_path / "report.json")


def auditor(spark: WarmSpark, server: Server, topic: str, report: Path) -> Audit:
    def run(*arguments: str) -> tuple[Result, dict[str, Any]]:
        result = spark.command(
            *("audit", "--bootstrap-servers", server.bootstrap_servers, "--topics", topic),
            *("--range-size", "100", "--json", str(report)),
            *arguments,
        )
        return result, json.loads(report.read_text()) if report.exists() else {}

    return run


def make_archive(
    spark: WarmSpark, server: Server, topic: str, folder: Path, **arguments: Any
) -> str:
    spark.run(
        f"{JOBS}.write_archive",
        servers=server.bootstrap_servers,
        topic=topic,
        uri=str(folder),
        ends={str(partition): COUNT // PARTITIONS for partition in range(PARTITIONS)},
        **arguments,
    )
    return str(folder)


def found(report: dict[str, Any]) -> Iterator[tuple[str, str, int, int, int]]:
    """What, side, count, partition and range of everything that was found."""
    for comparison in report["comparisons"]:
        for partition in comparison["partitions"]:
            for one in partition["ranges"]:
                for finding in one["findings"]:
                    yield (
                        *(finding["what"], finding["side"], finding["count"]),
                        *(partition["partition"], one["start_offset"]),
                    )


def test_archive_and_copy_are_equal(
    audit: Audit, server: Server, topic: str, new_topic: NewTopicName,
    archive: str, tmp_path: Path,
) -> None:  # fmt: skip
    target = new_topic("copied", partitions=2)
    halved = [record._replace(target=record.partition % 2) for record in whole()]
    produce(server, target, halved, source=topic)
    page = tmp_path / "page.html"
    result, report = audit("--archive", archive, "--against-topic", target, "--html", str(page))
    assert (result.code, report["equal"], list(found(report))) == (0, True, []), result
    for comparison in report["comparisons"]:
        sides = [
            (part["left"]["records"], part["right"]["records"], part["absent_in_both"])
            for part in comparison["partitions"]
        ]
        assert sides == [(1000, 1000, 0)] * PARTITIONS
    right = [part["right"]["partitions"] for part in report["comparisons"][1]["partitions"]]
    assert right == [[0], [1], [0]]
    assert "broker and archive and copy are equal: 3,000 records in 3 partitions" in result.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert re.findall(r" step=(\d) steps=6: ", result.stderr) == list("123456"), result


def test_each_spoiled_record_of_archive_and_copy_is_found(
    audit: Audit, warm_spark: WarmSpark, server: Server, topic: str, new_topic: NewTopicName,
    tmp_path: Path,
) -> None:  # fmt: skip
    folder = make_archive(warm_spark, server, topic, tmp_path / "spoiled", query=SPOILED)
    result, report = audit("--archive", folder)
    assert (result.code, report["equal"]) == (1, False), result
    assert list(found(report)) == [
        ("missing", "archive", 1, 1, 0),
        ("doubled", "archive", 1, 1, 100),
        ("changed", "", 1, 1, 200),
        ("moved", "", 2, 1, 300),
    ]
    examples = [one["offset"] for one in report["comparisons"][0]["examples"]]
    assert examples == [8, 108, 208, 308, 309]

    target = new_topic("spoiled", partitions=PARTITIONS)
    produce(server, target, spoiled_copy(), source=topic)
    result, report = audit("--against-topic", target)
    assert (result.code, report["equal"]) == (1, False), result
    assert list(found(report)) == [
        ("missing", "copy", 1, 1, 0),
        ("doubled", "copy", 1, 1, 100),
        ("changed", "", 1, 1, 200),
        ("disordered", "copy", 3, 1, 300),
    ]
    assert "broker and copy are DIFFERENT" in result.stdout


def spoiled_copy() -> list[Record]:
    """The same damage as in SPOILED, but 308 to 310 are written behind 311."""
    records = whole()
    first = next(n for n, one in enumerate(records) if (one.partition, one.offset) == (1, 0))
    records.insert(first + 308, records.pop(first + 311))
    records[first + 208] = Spoiled(*records[first + 208])
    records.insert(first + 108, records[first + 108])
    del records[first + 8]
    return records


class Spoiled(Record):
    """A record with another value, which is as long."""

    def arguments(self) -> dict[str, Any]:
        arguments = super().arguments()
        return {**arguments, "value": arguments["value"].replace("v", "V")}


def test_what_retention_removed_is_no_difference_unless_strict(
    audit_archived: Audit, server: Server, archived: tuple[str, str]
) -> None:
    name, uri = archived
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    for future in admin.delete_records([TopicPartition(name, 1, 30)]).values():
        future.result(timeout=30)
    result, report = audit_archived("--archive", uri)
    assert (result.code, list(found(report))) == (0, [("removed", "broker", 30, 1, 0)]), result
    result, report = audit_archived("--archive", uri, "--strict")
    assert (result.code, report["equal"]) == (1, False), result


def test_an_archive_that_is_behind_differs_unless_lag_is_allowed(
    audit_archived: Audit, server: Server, archived: tuple[str, str]
) -> None:
    name, uri = archived
    produce(server, name, [Record(2, COUNT, 2)])
    result, report = audit_archived("--archive", uri)
    assert (result.code, list(found(report))[-1]) == (1, ("late", "archive", 1, 2, 1000)), result
    assert audit_archived("--archive", uri, "--allow-lag")[0].code == 0


def test_damaged_and_lost_files_of_an_archive_are_named(
    audit_archived: Audit, archived: tuple[str, str]
) -> None:
    _, uri = archived
    file = next(Path(uri).glob("topic=*/date=*/*.parquet"))
    file.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    result, _ = audit_archived("--archive", uri)
    assert result.code == 2
    assert f"a file of the archive is damaged, file:{file}" in result.stderr.replace("///", "/")
    file.unlink()
    result, report = audit_archived("--archive", uri)
    assert result.code == 1
    (note,) = [note["text"] for note in report["notes"]]
    assert note.startswith("1 file is not there that the archive has committed: topic=")


@pytest.mark.every_release
def test_what_our_own_jobs_archive_compact_and_replay_is_equal(
    warm_spark: WarmSpark, audit: Audit, server: Server, topic: str, new_topic: NewTopicName,
    tmp_path: Path,
) -> None:  # fmt: skip
    servers = ("--bootstrap-servers", server.bootstrap_servers)
    uri = str(tmp_path / "archive")
    target = new_topic("replayed", partitions=2)
    batches = ("--max-offsets-per-trigger", str(COUNT // 2))
    for line in (
        ("archive", *servers, "--topics", topic, "--to", uri, "--once", *batches),
        ("compact", "--archive", uri),
        ("replay", *servers, "--archive", uri, "--topic", topic, "--to-topic", target),
    ):
        done = warm_spark.command(*line)
        assert done.code == 0, done
    assert len(list(Path(uri).glob("topic=*/**/*.parquet"))) == 1
    result, report = audit("--archive", uri, "--against-topic", target)
    assert (result.code, list(found(report))) == (0, []), result
    # By their keys records of one partition went to both; nothing else is worth a note.
    (note,) = report["notes"]
    assert "lie in several partitions" in note["text"]


def test_checksums_tell_all_records_apart(warm_spark: WarmSpark) -> None:
    plain: dict[str, Any] = {
        "key": "61",
        "value": "62",
        "timestamp_ms": 1,
        "headers": [["h", "63"]],
    }
    others: list[dict[str, Any]] = [
        {"key": None},
        {"key": ""},
        {"value": None},
        {"value": ""},
        {"key": None, "value": "61"},
        {"key": "6162", "value": ""},
        {"key": "", "value": "6162"},
        {"timestamp_ms": 2},
        {"headers": [["h", None]]},
        {"headers": [["h", ""]]},
        {"headers": [["hc", ""]]},
        {"headers": [["h", "63"], ["h", "63"]]},
        {"headers": [["h", None], ["i", "63"]]},
        {"headers": [["h", "69"], ["63", None]]},
        {"headers": [["i", "63"], ["h", None]]},
    ]
    none: list[dict[str, Any]] = [{"headers": None}, {"headers": []}]
    rows = [{**plain, **changed} for changed in [{}, *others, *none]]
    sums = warm_spark.run(f"{JOBS}.checksums", rows=rows)
    assert len(set(sums)) == len(sums) - 1
    assert sums[-1] == sums[-2], "Kafka does not tell no headers from null headers"
    # Pinned: reports of different releases of Spark can be compared.
    assert sums[:2] == PINNED
