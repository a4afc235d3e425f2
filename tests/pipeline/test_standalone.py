"""The jobs on a standalone cluster of Spark: a master and two workers on this machine.

The workers know nothing of this checkout: their executors get it as a user gives it, by
PYSPARK_PYTHON and spark.executorEnv.PYTHONPATH.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

import odradek
from odradek.pipeline.writing import STAGE_ATTEMPTS
from tests.lab.soak import Progress
from tests.pipeline.archive_runs import COPY, STEP_TIMEOUT_S, ArchiveRun
from tests.pipeline.copies import check_copy, wait_for_records
from tests.pipeline.filling import PARTITIONS, fill
from tests.pipeline.harness import Commands
from tests.pipeline.standalone import StandaloneCluster
from tests.spark.child import JobFailed
from tests.spark.environment import RELEASES, ROOT
from tests.spark.releases import present
from tests.spark.warm import WarmSpark
from tests.support.brokers import NewTopicName
from tests.wire.servers import OdradekServer, Server

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]

COUNT: Final = 100_000
ORDERS: Final = 30_000
SOAK_COUNT: Final = 200_000
SOAK_BATCHES: Final = 20
WORKER_KILLS: Final = 3
CITIES: Final = ("Brno", "Lima", "Oslo")
JOBS: Final = "tests.pipeline"
SHIPPED: Final = {"spark.executorEnv.PYTHONPATH": str(ROOT)}
ALL_AT_WORK: Final = {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
}
"""No task starts before both executors are there, however late one is."""
NO_PYTHON: Final = {"PYSPARK_PYTHON": "/there/is/no/python"}
SPEC: Final = """\
name: {name}
source:
  topics: [{source}]
  bootstrap_servers: {servers}
schema:
  format: json
  fields: {{city: string, cents: bigint, at: timestamp}}
event_time: at
watermark: 30 seconds
window: 1 minute
key: city
measures:
  orders: count
  cents: sum(cents)
output: {{topic: {name}, parquet: {folder}/parquet}}
checkpoint: {folder}/checkpoint
"""


@pytest.fixture(scope="module", params=list(RELEASES))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandaloneCluster]:
    directory = tmp_path_factory.mktemp("standalone")
    with StandaloneCluster(present(request.param), directory) as running:
        yield running


@pytest.fixture(scope="module")
def driver(
    cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WarmSpark]:
    """A Spark on the cluster that runs one command after another."""
    spark = WarmSpark(
        cluster.spark,
        tmp_path_factory.mktemp("driver"),
        master=cluster.url,
        conf={**SHIPPED, **ALL_AT_WORK, STAGE_ATTEMPTS: "1"},
        env={"PYSPARK_PYTHON": str(cluster.spark.python)},
    )
    try:
        yield spark
    finally:
        spark.close()


def done(driver: WarmSpark, *arguments: str) -> str:
    result = driver.command(*arguments)
    assert result.code == 0, result.stdout + result.stderr
    return result.stdout


def test_a_topic_goes_to_files_and_back(
    driver: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic, archive = new_topic("on-a-cluster", partitions=PARTITIONS), str(tmp_path / "archive")
    servers = server.bootstrap_servers
    fill(servers, topic, COUNT)
    brokers = ("--bootstrap-servers", servers)
    size = ("--max-offsets-per-trigger", str(COUNT // 2))
    said = done(driver, "archive", *brokers, "--topics", topic, "--to", archive, "--once", *size)
    assert said.startswith(f"{COUNT} records archived in 2 commits")
    found = driver.run(
        f"{JOBS}.archive_jobs.differences", servers=servers, topic=topic, directory=archive
    )
    assert found == {"rows": COUNT, "kafka": 0, "archive": 0, "folder": 0}

    copy = f"{topic}-again"
    line = ("--archive", archive, "--topic", topic, "--to-topic", copy)
    assert done(driver, "replay", *brokers, *line).startswith(f"{COUNT} records written")
    assert check_copy(servers, topic, copy) == COUNT

    report = tmp_path / "report.json"
    line = ("--topics", topic, "--archive", archive, "--against-topic", copy)
    done(driver, "audit", *brokers, *line, "--json", str(report))
    counted = [
        sum(part["left"]["records"] for part in one["partitions"])
        for one in json.loads(report.read_text())["comparisons"]
    ]
    assert counted == [COUNT, COUNT]
    fill(servers, topic, 1, first=COUNT)
    late = driver.command("audit", *brokers, *line)
    assert (late.code, "1 not in the archive yet" in late.stdout) == (1, True), late

    shares = driver.run(f"{JOBS}.standalone_jobs.tasks_by_executor")
    assert len(shares) == 2 and all(shares.values()), shares
    assert driver.run(f"{JOBS}.standalone_jobs.interpreters") == [
        [str(driver.spark.python), str(odradek.__file__)]
    ]


def test_windows_hold_every_record(
    driver: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("orders")
    servers = server.bootstrap_servers
    expected: Counter[tuple[str, str]] = Counter()
    cents: Counter[tuple[str, str]] = Counter()
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": "true"})
    for number in range(ORDERS):
        city, second = CITIES[number % 3], number // 10
        at = f"2026-01-01T00:{second // 60:02}:{second % 60:02}"
        expected[at[:16], city] += 1
        cents[at[:16], city] += number
        producer.produce(topic, json.dumps({"city": city, "cents": number, "at": f"{at}Z"}))
    producer.produce(topic, json.dumps({"city": "-", "cents": 0, "at": "2026-01-02T00:00:00Z"}))
    assert producer.flush(30) == 0

    spec = tmp_path / "rollup.yaml"
    name = f"{topic}-sums"
    spec.write_text(SPEC.format(name=name, source=topic, servers=servers, folder=tmp_path))
    said = done(driver, "rollup", "--spec", str(spec), "--once")
    assert said.startswith(f"{name}: {ORDERS + 1:,} records, 0 late, 0 bad"), said
    rows = driver.run(f"{JOBS}.rollup_jobs.rows", folder=str(tmp_path / "parquet"))
    by_window = {(row["window_start"][:16], row["city"]): row for row in rows}
    assert len(by_window) == len(rows)
    assert {key: row["orders"] for key, row in by_window.items()} == expected
    assert {key: row["cents"] for key, row in by_window.items()} == cents


def test_segment_files_are_read_by_executors(
    driver: WarmSpark, server: Server, new_topic: NewTopicName
) -> None:
    topic = new_topic("segments", partitions=PARTITIONS)
    fill(server.bootstrap_servers, topic, COUNT)
    if driver.spark.name == "3.5":
        with pytest.raises(JobFailed, match="needs PySpark 4"):
            driver.run(f"{JOBS}.segment_jobs.registered", data_dir="/", options={})
        return
    found: dict[str, Any] = driver.run(
        f"{JOBS}.segment_jobs.differences",
        servers=server.bootstrap_servers,
        data_dir=str(server.data_dir),
        options={"subscribe": topic, "includeHeaders": "true"},
        more={"toLogEnd": "true"},
    )
    assert found["schemas"][0] == found["schemas"][1]
    assert (found["rows"], found["missing"], found["added"]) == (COUNT, 0, 0)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", list(RELEASES))
def test_each_record_once_while_workers_are_killed(name: str, tmp_path: Path) -> None:
    with Progress(f"archive-workers-{name}", WORKER_KILLS) as progress, ExitStack() as running:
        if not progress.left:
            return
        spark = present(name)
        server = running.enter_context(closing(OdradekServer(tmp_path / "server")))
        cluster = running.enter_context(StandaloneCluster(spark, tmp_path / "cluster"))
        run = ArchiveRun(
            Commands(spark), server, tmp_path, count=SOAK_COUNT, batches=SOAK_BATCHES,
            master=cluster.url, conf=SHIPPED, env={"PYSPARK_PYTHON": str(spark.python)},
        )  # fmt: skip
        running.enter_context(closing(run))
        server.start()
        run.fill()
        archive_while_workers_are_killed(run, cluster)
        replay_while_a_worker_is_killed(run, cluster)
        run.assert_exactly_once()
        progress.add(progress.left, **{"workers killed": WORKER_KILLS, "records": run.count})


def archive_while_workers_are_killed(run: ArchiveRun, cluster: StandaloneCluster) -> None:
    """The job goes on, whichever of its executors is lost; no Python is needed there."""
    job = run.start(env=NO_PYTHON)
    for number in (0, 1):
        run.wait_for_commits(3, job)
        cluster.kill_worker(number)
        cluster.add_worker()
    run.wait_for_commits(1, job)
    assert run.commits() < run.batches, "all were to be killed in the middle"
    run.finish(job)


def replay_while_a_worker_is_killed(run: ArchiveRun, cluster: StandaloneCluster) -> None:
    """The job goes on, or ends with a sentence, and then the same command goes on."""
    job = run.replay("--rate", str(SOAK_COUNT // 20))
    wait_for_records(run.server.bootstrap_servers, COPY, SOAK_COUNT // 4)
    cluster.kill_worker(2)
    code = job.popen.wait(STEP_TIMEOUT_S)
    assert code in (0, 2), job.printed
    assert not code or job.printed.splitlines()[-1].startswith("Error: "), job.printed
