"""What all tests share: components that must be present, releases of Spark, how long parts take.

A test marked `java`, `kcat`, `spark` or `chromium` is skipped where that is missing. With
ODRADEK_REQUIRE=all (`make test`, CI) nothing marked so may be skipped: the skip is a failure.
"""

import gc
import os
import shutil
import warnings
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.kafka import jars
from tests.lab import network
from tests.pipeline.chromium import find_chromium
from tests.spark.environment import RELEASES, Spark
from tests.spark.releases import leave_repeats_to_soak, present

ROOT: Final = Path(__file__).resolve().parents[1]
TARGETS: Final = ("odradek", "kafka-3.9", "kafka-4.3")
COMPONENT_MARKERS: Final = ("java", "kcat", "spark", "wire", "network", "chromium")
PART_SECONDS: Final = pytest.StashKey[dict[str, float]]()
PART_COUNTS: Final = pytest.StashKey[dict[str, int]]()

# A machine that stops for a moment is no finding: by default an example has 200 ms, and the first
# ten of them a second to be drawn in. Before the test modules, whose own settings build on it.
settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")

# They are no test modules, but their asserts shall explain themselves all the same; here, since
# tests of other rooms import them, too.
pytest.register_assert_rewrite("tests.broker.client", "tests.broker.running")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("odradek-tests")
    group.addoption(
        "--target",
        choices=TARGETS,
        default=TARGETS[0],
        help="the broker that tests/wire speaks to (Apache Kafka proves the tests right)",
    )
    group.addoption(
        "--part-times", action="store_true", help="print how long each part of the suite took"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PART_SECONDS] = defaultdict(float)
    config.stash[PART_COUNTS] = defaultdict(int)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_repeats_to_soak(items)


@pytest.fixture(scope="session", params=list(RELEASES))
def release(request: pytest.FixtureRequest) -> Spark:
    """Each tested release of Spark; in `make test` the newest one, unless `every_release`."""
    return present(request.param)


@pytest.fixture
def kafka_python_forgets() -> Iterator[None]:
    """Collect the sockets that kafka-python's clients have forgotten in a test, and pass over them.

    One that connects while its client is being closed: else the collector finds it in any test.
    """
    gc.collect()  # what others have forgotten is not passed over
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket.socket", ResourceWarning)
        yield
        gc.collect()


def require_all() -> bool:
    """Whether a missing component is a failure."""
    return os.environ.get("ODRADEK_REQUIRE") == "all"


def missing_component(item: pytest.Item) -> str | None:
    """What an item needs and this machine lacks, or None."""
    if item.get_closest_marker("java"):
        if shutil.which("java") is None or shutil.which("javac") is None:
            return "a JDK is not installed (default-jdk-headless)"
        if not all(jars.present(version) for version in jars.VERSIONS):
            return "Kafka's jars are not there (python -m tests.kafka.jars)"
    if item.get_closest_marker("kcat") and shutil.which("kcat") is None:
        return "kcat is not installed"
    if item.get_closest_marker("network") and (reason := network.missing()):
        return reason
    if item.get_closest_marker("chromium") and find_chromium() is None:
        return "Chromium is not installed (chromium-headless-shell)"
    if item.get_closest_marker("spark") and shutil.which("java") is None:
        return "Java is not installed"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    reason = missing_component(item)
    if reason is not None:
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    part = part_of(item)
    item.config.stash[PART_SECONDS][part] += report.duration
    item.config.stash[PART_COUNTS][part] += report.when == "call"
    needs_component = any(item.get_closest_marker(name) for name in COMPONENT_MARKERS)
    if report.skipped and needs_component and require_all() and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: skipped with ODRADEK_REQUIRE=all: {reason}"
    return report


def part_of(item: pytest.Item) -> str:
    """The room of tests/ that an item stands in; its file too where the files are long runs."""
    where = item.path.relative_to(ROOT / "tests")
    room = where.parts[0]
    return "/".join(where.parts[:2]) if room in ("lab", "wire", "spark") else room


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("--part-times"):
        return
    seconds, counts = config.stash[PART_SECONDS], config.stash[PART_COUNTS]
    terminalreporter.section("time of each part")
    for part in sorted(seconds, key=lambda part: -seconds[part]):
        terminalreporter.line(f"{seconds[part]:8.1f} s  {counts[part]:5d} tests  {part}")
