"""What all tests share: components that must be present, running Sparks, how long parts take.

A test marked `java`, `kcat`, `spark` or `chromium` is skipped where that is missing. With
ODRADEK_REQUIRE=all (`make test`, CI) a skip is a failure, but for those in tests/skips.py.
"""

import gc
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from odradek.broker.runtime import allow_many_files
from tests.kafka import jars
from tests.lab import network
from tests.pipeline.chromium import find_chromium
from tests.recordings import stale_recordings
from tests.scheduling import FileScheduling, long_first
from tests.seeds import OTHERS, REPEAT, SAME, Repeats, Seeds
from tests.skips import (
    NEEDS_ROOT,
    fail_instead,
    may_be_skipped,
    reason_of,
    require_all,
    summary_of,
    wants_root,
)
from tests.spark.releases import keep_together, leave_repeats_to_soak
from tests.support.kafka_python import close_quietly
from tests.support.secrets import line_with_secret, told_by_servers

TARGETS: Final = ("odradek", "kafka-3.9", "kafka-4.3")

# A machine that stops for a moment is no finding: by default an example has 200 ms, and the first
# ten of them a second to be drawn in. Before the test modules, whose own settings build on it.
settings.register_profile(
    SAME,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
)
settings.register_profile(OTHERS, settings.get_profile(SAME), derandomize=False)
settings.load_profile(SAME)

# They are no test modules, but their asserts shall explain themselves all the same; here, since
# tests of other rooms import them, too.
for module in ("support.client", "support.connections", "support.frames", "broker.running"):
    pytest.register_assert_rewrite(f"tests.{module}")
pytest_plugins = [
    "tests.spark.fixtures",
    "tests.support.brokers",
    "tests.support.certificates",
    "tests.support.tools",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("odradek-tests")
    group.addoption(
        "--target",
        choices=TARGETS,
        default=TARGETS[0],
        help="the broker that tests/wire speaks to (Apache Kafka proves the tests right)",
    )
    group.addoption(
        "--record", action="store_true", help="keep in tests/vectors what Apache Kafka answers"
    )
    group.addoption(
        "--part-times", action="store_true", help="print how long each part of the suite took"
    )


def pytest_configure(config: pytest.Config) -> None:
    close_quietly()
    allow_many_files()  # brokers run in this process, too, or in each of xdist's
    config.pluginmanager.register(PartTimes(), "part-times")
    config.pluginmanager.register(Seeds(), "seeds")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from what is collected.

    It lives as long as the process. Looking through it again and again takes half of the time of
    the collection, and a tenth of that of the tests. What the tests leave is collected less often
    than by default, which saves another tenth.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000, 20, 100)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_repeats_to_soak(items)
    keep_together(items)
    long_first(items)


@pytest.hookimpl(optionalhook=True)  # absent with -p no:xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    return FileScheduling(config, log)


@pytest.fixture
def repeats(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Repeats:
    """What the test's `repeated` says; the seed is reported."""
    given: Repeats = request.param
    record_property(REPEAT, given.seed)
    return given


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
    if wants_root(item):
        pytest.skip(NEEDS_ROOT)
    reason = missing_component(item)
    if reason is not None:
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and require_all() and not may_be_skipped(item, reason_of(report)):
        fail_instead(report)
    if report.passed:
        told = [
            f"a secret in {title}: {line}"
            for title, text in report.sections
            if title.endswith(report.when) and (line := line_with_secret(text)) is not None
        ]
        told += told_by_servers
        if told:
            report.outcome, report.longrepr = "failed", "\n".join(told)
        told_by_servers.clear()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and require_all():  # a whole file
        fail_instead(report)
    return report


class PartTimes:
    """How long the parts of the suite took, whichever process ran them."""

    def __init__(self) -> None:
        self._seconds = defaultdict[str, float](float)
        self._counts = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = part_of(report.nodeid)
        self._seconds[part] += report.duration
        self._counts[part] += report.when == "call"

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        for line in summary_of(terminalreporter.stats.get("skipped", [])):
            terminalreporter.line(line)
        stats = terminalreporter.stats
        for line in stale_recordings([*stats.get("passed", []), *stats.get("failed", [])]):
            terminalreporter.line(line)
        if not config.getoption("--part-times"):
            return
        terminalreporter.section("time of each part, of all processes together")
        for part in sorted(self._seconds, key=lambda part: -self._seconds[part]):
            seconds, count = self._seconds[part], self._counts[part]
            terminalreporter.line(f"{seconds:8.1f} s  {count:5d} tests  {part}")


def part_of(nodeid: str) -> str:
    """The room of tests/ that a test stands in; its file too where the files are long runs."""
    _, *where = nodeid.partition("::")[0].split("/")
    return "/".join(where[:2]) if where[0] in ("lab", "wire", "spark") else where[0]
