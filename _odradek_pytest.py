"""The pytest plugin: the fixtures `odradek`, `odradek_server` and `odradek_spark`.

pytest imports this module in every run where Odradek is installed. So it stands alone at the top
level and imports nothing but pytest: the broker's code is loaded by the first test that wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import SparkSession

    from odradek.testing import Broker


_BROKER: pytest.StashKey[Broker] = pytest.StashKey()
_HAS_PASSED: pytest.StashKey[bool] = pytest.StashKey()
LAST_REQUESTS_MAX = 200


def __tracebackhide__(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """Have pytest leave these frames out of the traceback of a broker that has failed."""
    return type(raised.value).__name__ == "BrokerFailed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings of the fixtures' broker, in the ini file and on the command line."""
    parser.addini(
        "odradek_settings",
        "Settings of the broker behind the Odradek fixtures, one name=value a line.",
        type="linelist",
        default=[],
    )
    parser.addini(
        "odradek_tls",
        "Whether the broker behind the Odradek fixtures speaks TLS.",
        type="bool",
        default=False,
    )
    parser.addini(
        "odradek_sasl",
        "How clients log in at the broker behind the Odradek fixtures, such as SCRAM-SHA-512.",
        default="",
    )
    parser.addini(
        "odradek_acls",
        "What users may do there, one ACL a line: User:alice read,write topic:orders.",
        type="linelist",
        default=[],
    )
    parser.addini(
        "odradek_spark_conf",
        "Settings of the Spark session behind odradek_spark, one name=value a line.",
        type="linelist",
        default=[],
    )
    parser.getgroup("odradek").addoption(
        "--odradek-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="A setting of the broker behind the Odradek fixtures; goes before odradek_settings.",
    )


@pytest.fixture(scope="session")
def odradek_settings(pytestconfig: pytest.Config) -> dict[str, object]:
    """The settings of the session's broker; override this fixture to compute them."""
    lines = [*pytestconfig.getini("odradek_settings"), *pytestconfig.getoption("--odradek-set")]
    return dict(_pairs("odradek_settings", lines))


@pytest.fixture(scope="session")
def odradek_server(
    odradek_settings: dict[str, object], pytestconfig: pytest.Config
) -> Iterator[Broker]:
    """A broker for the whole session, in a process of its own; tests share its topics."""
    from odradek.testing import Broker

    with Broker(
        settings=odradek_settings,
        tls=pytestconfig.getini("odradek_tls"),
        sasl=pytestconfig.getini("odradek_sasl") or None,
        acls=pytestconfig.getini("odradek_acls") or None,
    ) as broker:
        yield broker


@pytest.fixture
def odradek(odradek_server: Broker, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The session's broker without any topic, and running, whatever earlier tests did to it.

    Rules for faults and the journal of requests end with the test. If it passes although a rule of
    its own has never acted, it fails, unless the rule is optional.
    """
    odradek_server.reset()
    odradek_server.faults.clear()
    odradek_server.journal.clear()
    request.node.stash[_BROKER] = odradek_server
    yield odradek_server
    unused = odradek_server.faults.end()
    if unused and request.node.stash.get(_HAS_PASSED, False):
        pytest.fail("rules that never acted:\n" + "\n".join(unused), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test has passed; if it has not, report what clients asked the broker."""
    report = yield
    broker = item.stash.get(_BROKER, None)
    if report.when == "call" and broker is not None:
        item.stash[_HAS_PASSED] = report.passed
        if report.failed:
            report.sections += _last_requests(broker)
    return report


def _last_requests(broker: Broker) -> list[tuple[str, str]]:
    """A section of a report; none if nothing was asked, or if the broker does not answer."""
    from odradek.testing import BrokerFailed

    try:
        requests = broker.journal.requests(limit=LAST_REQUESTS_MAX)
    except BrokerFailed:
        return []
    return [("last requests", "\n".join(map(str, requests)))] if requests else []


@pytest.fixture(scope="session")
def odradek_spark_conf(pytestconfig: pytest.Config) -> dict[str, str]:
    """The settings of the session's Spark; override this fixture to compute them."""
    return dict(_pairs("odradek_spark_conf", pytestconfig.getini("odradek_spark_conf")))


@pytest.fixture(scope="session")
def odradek_spark(odradek_spark_conf: dict[str, str]) -> Iterator[SparkSession]:
    """A session of the installed PySpark that reads and writes Kafka; all tests share it."""
    from odradek.pipeline.errors import PipelineError
    from odradek.pipeline.session import SparkOptions, start

    small = {"spark.master": "local[2]", "spark.ui.enabled": "false"}
    try:
        spark = start("odradek tests", SparkOptions(conf={**small, **odradek_spark_conf}))
    except PipelineError as error:
        pytest.fail(str(error), pytrace=False)
    yield spark
    spark.stop()


def _pairs(option: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"{option}: {line!r} is not name=value")
        yield name.strip(), value.strip()
