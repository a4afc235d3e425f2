"""Exactly once, while job, driver and broker are killed with SIGKILL."""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.lab.soak import Progress
from tests.pipeline.archive_runs import ArchiveRun, kill_driver, kill_job
from tests.pipeline.harness import Commands
from tests.spark.warm import WarmSpark
from tests.wire.servers import make_server

COUNT = 8_000
BATCHES = 20  # a job that is killed late is in the middle all the same
SOAK_COUNT = 1_000_000
SOAK_BATCHES = 50
SOAK_DEATHS = ("job",) * 5 + ("broker",) * 3

MakeRun = Callable[[str, int, int], ArchiveRun]
"""A broker of a kind, with so many records that are to be archived in so many batches."""


@pytest.fixture
def make_run(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeRun]:
    runs: list[ArchiveRun] = []

    def make(target: str, count: int, batches: int) -> ArchiveRun:
        directory = tmp_path_factory.mktemp("kills")
        server = make_server(target, directory / "server")
        run = ArchiveRun(commands, server, directory, count=count, batches=batches)
        runs.append(run)
        server.start()
        run.fill()
        return run

    yield make
    for run in runs:
        run.close()
        run.server.close()


def passed(moment_s: float) -> bool:
    return time.monotonic() > moment_s


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_each_record_once_while_everything_is_killed(
    make_run: MakeRun, warm_spark: WarmSpark, pytestconfig: pytest.Config
) -> None:
    run = make_run(pytestconfig.getoption("--target"), COUNT, BATCHES)
    job = run.start()
    run.wait_for_commits(3, job)
    kill_job(job)
    job = run.start()
    run.wait_for_commits(2, job)
    run.server.kill()
    run.server.start()
    run.wait_for_commits(2, job)
    kill_driver(job)
    assert run.commits() < run.batches, "it was to be killed in the middle"
    run.finish_in(warm_spark)
    run.assert_exactly_once(warm_spark)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("target", ["odradek", "kafka-4.3"])
@pytest.mark.parametrize("release", ["4.0"], indirect=True)
def test_a_million_records_once_while_everything_is_killed(make_run: MakeRun, target: str) -> None:
    with Progress(f"archive-{target}", len(SOAK_DEATHS)) as progress:
        if not progress.left:
            return
        run = make_run(target, SOAK_COUNT, SOAK_BATCHES)
        killed_at_random(run, random.Random(8))
        run.assert_exactly_once()
        jobs, brokers = (SOAK_DEATHS.count(victim) for victim in ("job", "broker"))
        # Nothing of a broken run counts: its broker and its archive are gone.
        progress.add(
            progress.left, **{"jobs killed": jobs, "brokers killed": brokers, "records": run.count}
        )


def killed_at_random(run: ArchiveRun, chance: random.Random) -> None:
    """Archive everything, with all deaths in some order, anywhere in a batch."""
    deaths = list(SOAK_DEATHS)
    chance.shuffle(deaths)
    job = run.start()
    for death in deaths:
        run.wait_for_commits(1, job)
        until = time.monotonic() + chance.random()
        job.wait_until(partial(passed, until))
        if death == "broker":
            run.server.kill()
            run.server.start()
        else:
            chance.choice((kill_job, kill_driver))(job)
            job = run.start()
    run.finish(job)
