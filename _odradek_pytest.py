"""The pytest plugin: the fixtures `odradek`, `odradek_server` and `odradek_spark`.

pytest imports this module in every run where Odradek is installed. So it stands alone at the top
level and imports nothing but pytest: the broker's code is loaded by the first test that wants it.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from pyspark.sql import SparkSession

    from odradek.cli.given_access import GivenAccess
    from odradek.testing import Broker
    from odradek.testing.marker import Topics, Wanted
    from odradek.testing.servers import Load, Server, Servers

T = TypeVar("T")
SCOPES = ("session", "package", "module", "class", "function")
MARKER = (
    "odradek(brokers=1, topics={}, settings={}, auto_create=True, tls=False, sasl=None, "
    "acls=None, like=None, share=True): the broker and the topics that a test with the fixture "
    "`odradek` wants."
)
# The name in the ini file, after `odradek_`; its type and default; the command line's option, after
# `--odradek-`, and its metavar; and what it is.
SETTINGS: tuple[tuple[str, str, Any, str, str, str], ...] = (
    ("settings", "linelist", [], "set", "NAME=VALUE", "A setting of the broker"),
    ("topics", "linelist", [], "topic", "NAME[:N]", "A topic that each test finds"),
    ("load", "linelist", [], "load", "FILE", "A file of topics and records that each test finds"),
    ("brokers", "string", "1", "brokers", "N", "How many brokers there are"),
    ("auto_create", "string", "", "auto-create", "BOOL", "Whether clients create topics by use"),
    ("tls", "bool", False, "tls", "BOOL", "Whether the broker speaks TLS"),
    ("sasl", "string", "", "sasl", "MECHANISM", "How clients log in, such as SCRAM-SHA-512"),
    ("acls", "linelist", [], "acl", "ACL", "What users may do: User:alice read,write topic:orders"),
    ("like", "string", "", "like", "RELEASE", "The release of Kafka whose versions are served"),
    ("in_process", "bool", False, "in-process", "BOOL", "Whether it runs in the tests' process"),
    ("scope", "string", "function", "scope", "SCOPE", "For how long the fixture odradek stays"),
    ("keep", "string", "none", "keep", "WHICH", "Whose files are kept: none, failed"),
    ("external", "string", "", "external", "SERVERS", "Brokers that already run; true: see env"),
    ("external_admin", "string", "", "external-admin", "URL", "The admin API of those brokers"),
    ("external_config", "string", "", "external-config", "FILE", "Properties of their clients"),
    ("share", "bool", False, "share", "BOOL", "Whether all workers of a run use one broker"),
    ("prefix", "string", "", "prefix", "TEXT", "What names begin with at brokers of others"),
)


_BROKER: pytest.StashKey[Broker] = pytest.StashKey()
_BEGAN_S: pytest.StashKey[float] = pytest.StashKey()
_REQUESTS_BEFORE: pytest.StashKey[frozenset[tuple[int, int]]] = pytest.StashKey()
_FACTORY: pytest.StashKey[pytest.TempPathFactory] = pytest.StashKey()
_RESULTS: pytest.StashKey[list[bool]] = pytest.StashKey()
"""Whether each test has passed that ran with the broker of its node."""
CLUSTER_SIZE = 3
KEEPS = ("none", "failed")
NAME_MAX = 60
EXTERNAL_VARIABLE = "ODRADEK_BOOTSTRAP_SERVERS"
TOKEN_VARIABLE = "ODRADEK_ADMIN_TOKEN"


def __tracebackhide__(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """Have pytest leave these frames out of the traceback of a broker that has failed."""
    return type(raised.value).__name__ == "BrokerFailed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings of the fixtures' broker, in the ini file and on the command line."""
    group = parser.getgroup("odradek")
    for name, kind, default, option, metavar, what in SETTINGS:
        is_list = kind == "linelist"
        parser.addini(
            f"odradek_{name}",
            f"{what}, for the Odradek fixtures{'; one a line.' if is_list else '.'}",
            type=kind,  # type: ignore[arg-type]
            default=default,
        )
        group.addoption(
            f"--odradek-{option}",
            dest=f"odradek_{name}",
            action="append" if is_list else "store",
            default=[] if is_list else None,
            metavar=metavar,
            help=f"{what}; goes before odradek_{name} in the ini file.",
        )
    parser.addini(
        "odradek_spark_conf",
        "Settings of the Spark session behind odradek_spark, one name=value a line.",
        type="linelist",
        default=[],
    )


class OdradekFinder:
    """Finds the broker's modules before pytest's own finder is asked.

    pytest rewrites the asserts of all modules of a distribution with a plugin, and compiles them
    for that, which takes a second, in each run if no bytecode is written.  And it compares the name
    of each module with patterns, which takes a tenth of the time of the imports.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the package and what is in it, as Python itself does."""
        if name.partition(".")[0] != "odradek":
            return None
        return PathFinder.find_spec(name, path, target)


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker."""
    sys.meta_path.insert(0, OdradekFinder)
    config.add_cleanup(lambda: sys.meta_path.remove(OdradekFinder))
    if _given(config, "keep") not in KEEPS:
        raise pytest.UsageError(f"odradek_keep: {_given(config, 'keep')!r} is none of none, failed")
    config.addinivalue_line("markers", MARKER)
    if not _given(config, "external"):
        for name in ("external_admin", "external_config"):
            if _given(config, name):
                raise pytest.UsageError(f"odradek_{name}: give odradek_external, too")
        if _given(config, "prefix") and not _is_true(config, "share"):
            raise pytest.UsageError(
                "odradek_prefix is for brokers with other users: give odradek_external or "
                "odradek_share, too"
            )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker that says nothing sensible, or that would have no effect."""
    of_last_run: tuple[pytest.StashKey[Any], ...] = (_BROKER, _RESULTS)
    for key in of_last_run:  # if a test runs again
        if key in item.stash:
            del item.stash[key]
    if item.get_closest_marker("odradek") is not None:
        _marked(item, *_or_fail(lambda: _usual(item.config)))
        scope = _given(item.config, "scope")
        if scope != "function" and any(m.name == "odradek" for m in item.own_markers):
            pytest.fail(
                f"@pytest.mark.odradek at a test has no effect with odradek_scope={scope}",
                pytrace=False,
            )


@pytest.fixture(scope="session")
def odradek_settings(pytestconfig: pytest.Config) -> dict[str, object]:
    """The settings of the session's broker; override this fixture to compute them."""
    return _or_fail(lambda: dict(_pairs("odradek_settings", _given(pytestconfig, "settings"))))


@pytest.fixture(scope="session")
def odradek_load(pytestconfig: pytest.Config) -> Sequence[Load]:
    """What each server is filled with, once; override this fixture to give functions, too."""
    loads: list[Load] = [pytestconfig.rootpath / path for path in _given(pytestconfig, "load")]
    return loads


@pytest.fixture(scope="session")
def _odradek_servers(
    odradek_settings: dict[str, object],
    odradek_load: Sequence[Load],
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Servers]:
    pytestconfig.stash[_FACTORY] = tmp_path_factory
    servers = _or_fail(
        lambda: _servers(pytestconfig, odradek_settings, odradek_load, tmp_path_factory)
    )
    yield servers
    servers.close()


def _servers(
    config: pytest.Config,
    settings: dict[str, object],
    loads: Sequence[Load],
    temporary: pytest.TempPathFactory,
) -> Servers:
    """The servers that the settings ask for.  Raises: Refused, UsageError."""
    from odradek.testing.servers import Servers

    usual, topics = _usual(config)
    usual = usual.with_settings(settings)
    if _given(config, "external"):
        return _external(config, usual, topics, loads)
    if _is_true(config, "share") and _worker(config):
        return _shared(config, usual, topics, loads, temporary)
    return Servers(usual, topics, loads)


def _external(
    config: pytest.Config, usual: Wanted, topics: Topics, loads: Sequence[Load]
) -> Servers:
    """The servers, which others have started."""
    from odradek.client_configs import OPEN
    from odradek.testing.external_servers import ExternalServers, external_broker

    servers, access = str(_given(config, "external")), _given_access(config)
    if servers.lower() == "true":  # only if asked for: the command line uses this variable, too
        in_file = "" if access is None else access.bootstrap_servers
        servers = in_file or os.environ.get(EXTERNAL_VARIABLE, "")
        if not servers:
            raise pytest.UsageError(f"odradek_external=true: {EXTERNAL_VARIABLE} is not set")
    if access is not None:
        _or_usage_error("external_config", lambda: access.check_reachable(servers))
    try:
        broker = external_broker(
            servers,
            access=OPEN if access is None else access,
            admin_url=_given(config, "external_admin"),
            admin_token=os.environ.get(TOKEN_VARIABLE, ""),
            prefix=_given(config, "prefix"),
            worker=_worker(config),
        )
    except ValueError as error:
        raise pytest.UsageError(f"odradek_external: {error}") from None
    return ExternalServers(usual, topics, loads, broker)


def _given_access(config: pytest.Config) -> GivenAccess | None:
    """How clients reach brokers that others have started, if a file says so."""
    path = _given(config, "external_config")
    if not path:
        return None
    from odradek.cli.given_access import GivenAccess

    return _or_usage_error("external_config", lambda: GivenAccess(config.rootpath / path))


def _or_usage_error(name: str, ask: Callable[[], T]) -> T:
    """What a command of Odradek would do; what it refuses is an error of this setting."""
    from odradek.cli.errors import CommandError

    try:
        return ask()
    except CommandError as error:
        raise pytest.UsageError(f"odradek_{name}: {error.format_message()}") from None


def _shared(
    config: pytest.Config,
    usual: Wanted,
    topics: Topics,
    loads: Sequence[Load],
    temporary: pytest.TempPathFactory,
) -> Servers:
    """The servers of a worker, of which the usual one is that of all."""
    from odradek.testing.external_servers import SharedServers

    directory = temporary.getbasetemp().parent / "odradek"  # workers have directories below it
    prefix = f"{_given(config, 'prefix')}{_worker(config)}."
    return SharedServers(usual, topics, loads, directory=directory, prefix=prefix)


def _worker(config: pytest.Config) -> str:
    """The id of this worker of pytest-xdist; empty without it."""
    return str(getattr(config, "workerinput", {}).get("workerid", ""))


@pytest.fixture(scope="session")
def odradek_server(_odradek_servers: Servers) -> Broker:
    """A broker for the whole session, in a process of its own; tests share its topics."""
    return _server(_odradek_servers, _odradek_servers.usual).broker


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    scope = _given(config, "scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"odradek_scope: {scope!r} is none of {', '.join(SCOPES)}")
    return scope


@pytest.fixture(scope=_scope)
def odradek(request: pytest.FixtureRequest, _odradek_servers: Servers) -> Iterator[Broker]:
    """The session's broker, or that of the marker, in the state of its start, and running.

    Rules for faults and the journal of requests end with the test. If it passes although a rule of
    its own has never acted, it fails, unless the rule is optional.
    """
    wanted, topics = _marked(request.node, _odradek_servers.usual, ())
    yield from _clean(request.node, _odradek_servers, wanted, topics)


@pytest.fixture(scope=_scope)
def odradek_cluster(request: pytest.FixtureRequest, _odradek_servers: Servers) -> Iterator[Broker]:
    """Three brokers, or as many as are set if that is more than one; otherwise as `odradek`."""
    wanted, topics = _marked(request.node, _odradek_servers.usual, ())
    if wanted.brokers == 1:
        wanted = wanted._replace(brokers=CLUSTER_SIZE)
    yield from _clean(request.node, _odradek_servers, wanted, topics)


def _clean(node: Any, servers: Servers, wanted: Wanted, topics: Topics) -> Iterator[Broker]:
    server = _server(servers, wanted)
    server.clean(topics)
    broker = server.broker
    node.stash.setdefault(_BROKER, broker)
    node.stash.setdefault(_RESULTS, [])
    yield broker
    _fail_if_unused(node, server.end())


@pytest.fixture
def odradek_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Broker]]:
    """Starts more brokers, with the arguments of `Broker`; they are closed after the test.

    Settings of the session do not apply to them. Of rules that never acted the same is true as of
    those of `odradek`.
    """
    from odradek.testing import Broker

    stash = request.node.stash
    stash.setdefault(_RESULTS, [])
    has_other = not {"odradek", "odradek_cluster"}.isdisjoint(request.fixturenames)
    made: list[Broker] = []
    with ExitStack() as stack:

        def start(**arguments: Any) -> Broker:
            broker = stack.enter_context(Broker(**arguments))
            made.append(broker)
            if not has_other:  # otherwise a test that fails reports of that one
                stash.setdefault(_BROKER, broker)
            return broker

        yield start
        unused = []
        for broker in made:
            if broker.running:
                broker._wake()
                unused += broker.faults.end()
    _fail_if_unused(request.node, unused)


def _fail_if_unused(node: Any, unused: list[str]) -> None:
    """Fail what has passed although these rules never acted."""
    results = node.stash[_RESULTS]
    if unused and results and all(results):
        pytest.fail("rules that never acted:\n" + "\n".join(unused), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test has passed; if it has not, report what happened at the broker."""
    report = yield
    if report.when == "setup":
        item.stash[_BEGAN_S] = call.start
    node = _node_with_broker(item)
    if report.when == "setup" and node is not None and node is not item:
        from odradek.testing.report import known_requests

        item.stash[_REQUESTS_BEFORE] = known_requests(node.stash[_BROKER])
    if report.when == "call" and not report.skipped:
        for each in item.listchain():
            if _RESULTS in each.stash:
                each.stash[_RESULTS].append(report.passed)
        if report.failed and node is not None:
            report.sections += _sections(item, node)
    return report


def _node_with_broker(item: pytest.Item) -> Any:
    """The test, or what it is in, to which the fixture has given a broker; None without one."""
    return next((node for node in reversed(item.listchain()) if _BROKER in node.stash), None)


def _sections(item: pytest.Item, node: Any) -> list[tuple[str, str]]:
    """What a failed test reports; with odradek_keep, also where a copy of its files is."""
    from odradek.testing.report import Report, keep

    broker = node.stash[_BROKER]
    before = frozenset() if node is item else item.stash.get(_REQUESTS_BEFORE, frozenset())
    sections = Report(broker, item.stash[_BEGAN_S], before).sections()
    if _given(item.config, "keep") == "failed":
        factory: pytest.TempPathFactory = item.config.stash[_FACTORY]
        name = re.sub(r"\W", "_", f"odradek-{item.name}")[:NAME_MAX]
        sections.append(keep(broker, factory.mktemp(name)))
    return sections


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
    spark, reason = None, ""
    try:
        spark = start("odradek tests", SparkOptions(conf={**small, **odradek_spark_conf}))
    except PipelineError as error:
        reason = str(error)
    if spark is None:  # outside of `except`, or the report would have the error behind it, too
        pytest.fail(f"odradek_spark: {reason}", pytrace=False)
    yield spark
    spark.stop()


def _given(config: pytest.Config, name: str) -> Any:
    """A setting: that of the command line, or else that of the ini file; lists have both."""
    ini, option = config.getini(f"odradek_{name}"), config.getoption(f"odradek_{name}")
    if isinstance(ini, list):
        return [*ini, *option]
    return ini if option is None else option


def _is_true(config: pytest.Config, name: str) -> bool:
    value = _given(config, name)
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise pytest.UsageError(f"odradek_{name}: {value!r} is neither true nor false")
    return str(value).lower() == "true"


def _usual(config: pytest.Config) -> tuple[Wanted, Topics]:
    """The server and topics of tests without a marker, but for the settings.

    Raises: Refused, UsageError.
    """
    from odradek.testing.marker import AUTO_CREATE, Wanted, read_topics

    brokers = _given(config, "brokers")
    if not brokers.isdecimal():
        raise pytest.UsageError(f"odradek_brokers: {brokers!r} is not a number")
    wanted = Wanted(
        brokers=int(brokers),
        tls=_is_true(config, "tls"),
        sasl=_given(config, "sasl") or None,
        acls=tuple(_given(config, "acls")) or None,
        in_process=_is_true(config, "in_process"),
    )
    if _given(config, "auto_create"):
        wanted = wanted.with_settings({AUTO_CREATE: _is_true(config, "auto_create")})
    if release := _given(config, "like"):
        wanted = wanted.like(release)
    return wanted, read_topics(_given(config, "topics"))


def _marked(node: Any, wanted: Wanted, topics: Topics) -> tuple[Wanted, Topics]:
    """What the markers of a test want; those nearer to it go before the others."""
    from odradek.testing.marker import read_markers

    markers = [(marker.args, marker.kwargs) for marker in node.iter_markers("odradek")]
    return _or_fail(lambda: read_markers(markers, wanted, topics))


def _server(servers: Servers, wanted: Wanted) -> Server:
    return _or_fail(lambda: servers.get(wanted))


def _or_fail(ask: Callable[[], T]) -> T:
    """What is asked for; if it is refused, the test fails with that sentence alone."""
    from odradek.testing.marker import Refused

    reason = ""
    try:
        return ask()
    except (Refused, pytest.UsageError) as refused:
        reason = str(refused)
    pytest.fail(reason, pytrace=False)


def _pairs(option: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"{option}: {line!r} is not name=value")
        yield name.strip(), value.strip()
