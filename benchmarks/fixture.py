"""`python -m benchmarks.fixture`: what the pytest fixture costs a test run.

Each row is measured in pytest processes of its own, so imports count.  Prints medians of several
runs, except where a row says p95.  Beside them, where they can run here: franz-go's in-process mock
of Kafka (kfake) and Apache Kafka itself, which a container of testcontainers starts, too.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from odradek.testing import Broker
from tests.kafka.apache import Kafka39
from tests.kafka.jars import JarsMissing

KFAKE: Final = Path(__file__).parent / "clients" / "kfake"
IN_PROCESS: Final = "--odradek-in-process=true"
TESTS: Final = 1_000
TOUCHING_TESTS: Final = 200
SEED_TOPICS: Final = 100

NOTES_TIMES: Final = """
import json, os


def pytest_runtest_logreport(report):
    with open(os.environ["TIMES"], "a") as times:
        times.write(json.dumps([report.when, report.duration]) + "\\n")
"""
NO_FIXTURE: Final = f"""
import pytest


@pytest.mark.parametrize("number", range({TESTS}))
def test(number):
    pass
"""
WITH_FIXTURE: Final = f"""
import pytest


@pytest.mark.odradek(topics={{"orders": 1}})
@pytest.mark.parametrize("number", range({TESTS}))
def test(odradek, number):
    odradek.produce("orders", b"%d" % number)
"""
ONE: Final = "def test(odradek): pass\n"
UNUSED: Final = "def test(): pass\n"
TOUCHING: Final = """
import pytest


@pytest.mark.parametrize("number", range({tests}))
def test(odradek, number):
    for touched in range({touched}):
        odradek.produce(f"seeded-{{(number + touched) % {seed}}}", b"v")
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What one pytest process took."""

    wall_s: float
    cpu_s: float
    """Of it and its children."""
    setups_s: tuple[float, ...]
    around_s: tuple[float, ...]
    """Set-up and tear-down of each test, but for the first set-up and the last tear-down, which
    start and stop the broker."""


def run(text: str, *options: str, seed: int = 0) -> Run:
    """Run a file of tests with these options and so many topics in the seed.

    Ends this process if a test fails.
    """
    topics = "".join(f"  seeded-{number}\n" for number in range(seed))
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as directory:
        (Path(directory) / "conftest.py").write_text(NOTES_TIMES)
        (Path(directory) / "test_it.py").write_text(text)
        (Path(directory) / "pytest.ini").write_text(f"[pytest]\nodradek_topics =\n{topics}")
        times = Path(directory) / "times"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options]
        began_s, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command,
            cwd=directory,
            env=_environment(times),
            capture_output=True,
            text=True,
        )
        wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(done.stdout[-4000:] + done.stderr)
        noted = [json.loads(line) for line in times.read_text().splitlines()]
    setups = tuple(took for when, took in noted if when == "setup")
    teardowns = tuple(took for when, took in noted if when == "teardown")
    around = tuple(down + up for down, up in zip(teardowns[:-1], setups[1:], strict=True))
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall_s, used, setups, around)


def _environment(times: Path) -> dict[str, str]:
    """That of this process, but for a switch that has Python compile all modules in each run."""
    others = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**others, "TIMES": str(times)}


def touching(touched: int, tests: int) -> str:
    """Tests that write to so many topics of the seed."""
    return TOUCHING.format(seed=SEED_TOPICS, tests=tests, touched=touched)


def p95(values: tuple[float, ...]) -> float:
    """The 95th percentile."""
    return sorted(values)[len(values) * 95 // 100]


def repeated(measure: Callable[[], float], rounds: int) -> float:
    """The median, after one round that is not counted."""
    measure()
    return statistics.median(measure() for _ in range(rounds))


def unused_ms(rounds: int) -> float:
    """The CPU time of the plug-in where nobody uses it: with it, less without it, in turn."""
    differences = []
    for _ in range(3 * rounds):
        without = run(UNUSED, "-p", "no:odradek").cpu_s
        differences.append(run(UNUSED).cpu_s - without)
    return 1000 * statistics.median(differences)


def reset_ms(rounds: int) -> float:
    """Delete the topic that was written to."""
    with Broker() as broker:

        def once() -> float:
            broker.topics.create("orders")
            broker.produce("orders", b"v")
            began_s = time.perf_counter()
            broker.reset()
            return time.perf_counter() - began_s

        return 1000 * repeated(once, 10 * rounds)


def ours(rounds: int) -> Iterator[tuple[str, float, str]]:
    """Each row: what, how much, and its limit."""

    def start_ms(*options: str) -> float:
        return 1000 * repeated(lambda: run(ONE, *options).setups_s[0], rounds)

    def around_ms(touched: int, *options: str) -> float:
        text = touching(touched, TOUCHING_TESTS)
        timed = partial(run, text, *options, seed=SEED_TOPICS)
        return 1000 * repeated(lambda: p95(timed().around_s), rounds)

    def wall_s(text: str, *options: str) -> float:
        return repeated(lambda: run(text, "-n", "2", *options).wall_s, rounds)

    yield "plug-in in a run that does not use it, CPU ms", unused_ms(rounds), "5"
    yield "first set-up, in process, with imports, ms", start_ms(IN_PROCESS), "100"
    yield "first set-up, child process, ms", start_ms(), "300"
    for kind, options in (("child", ()), ("in process", (IN_PROCESS,))):
        title = f"around a test, {kind}: {SEED_TOPICS} topics, 3 touched, p95 ms"
        yield title, around_ms(3, *options), "2"
        title = f"around a test, {kind}: {SEED_TOPICS} topics, all touched, p95 ms"
        yield title, around_ms(SEED_TOPICS, *options), ""
    yield "Broker.reset() with one topic, ms", reset_ms(rounds), "100"
    yield f"{TESTS:,} tests on 2 workers without a fixture, s", wall_s(NO_FIXTURE), ""
    yield f"{TESTS:,} tests on 2 workers, child, s", wall_s(WITH_FIXTURE), "5"
    yield f"{TESTS:,} tests on 2 workers, in process, s", wall_s(WITH_FIXTURE, IN_PROCESS), "5"


def kfake(rounds: int) -> Iterator[tuple[str, float, str]]:
    """Rows of franz-go's mock, which keeps no files and is part of the tests' process."""
    if not shutil.which("go"):
        print("kfake: not measured, there is no `go`")
        return
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as directory:
        program = Path(directory) / "kfake"
        build = subprocess.run(["go", "build", "-o", program, "."], cwd=KFAKE)
        if build.returncode:
            print("kfake: not measured, it can't be built")
            return
        times = [json.loads(subprocess.check_output([program])) for _ in range(rounds)]
    for what, name in (
        ("kfake: start, ms", "start_ms"),
        (f"kfake: start and end with {SEED_TOPICS} topics, p95 ms", "test_ms"),
    ):
        yield what, statistics.median(each[name] for each in times), ""


def apache(rounds: int) -> Iterator[tuple[str, float, str]]:
    """Kafka with ZooKeeper, as testcontainers would start it but for the container."""

    def start_s() -> float:
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as directory:
            kafka = Kafka39(Path(directory))
            began_s = time.perf_counter()
            try:
                kafka.start()
                return time.perf_counter() - began_s
            finally:
                kafka.close()

    try:
        yield "Apache Kafka 3.9.2 with ZooKeeper, start, s", repeated(start_s, rounds), ""
    except JarsMissing as missing:
        print(f"Apache Kafka: not measured, {missing}")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    if rounds < 1:
        parser.error("--rounds: there must be at least one")
    print(f"{'':<62}{'measured':>10}{'limit':>8}")
    for rows in (ours, kfake, apache):
        for what, measured, limit in rows(rounds):
            print(f"{what:<62}{measured:>10.2f}{limit:>8}", flush=True)


if __name__ == "__main__":
    main()
