"""Does the operations to a cluster and looks at it at every moment that they name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.kafka.java import JavaFailed, ToolRunner
from tests.kafka.process import ServerFailed

from .asking import metadata
from .brokers import KAFKA
from .cluster import PATIENT, Cluster
from .operations import ASKED, OPERATIONS, OWN_SETTINGS, QUESTIONS, Operation
from .tree import Comparable, Normaliser
from .waiting import QUIET_S, TIMEOUT_S


@dataclass(slots=True)
class Moment:
    """A cluster at rest: its tree, what its brokers tell clients, and what Kafka's tool prints."""

    name: str
    tree: Comparable
    metadata: dict[str, Any]
    described: dict[str, list[str]] = field(default_factory=dict)
    unsettled: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What became of one operation; `error` if it could not be done to its end."""

    operation: str
    moments: list[Moment] = field(default_factory=list)
    error: str | None = None


# What a cluster that does not do as it should makes an operation end in.
FAILURES: Final = (
    AssertionError,
    OSError,
    ServerFailed,
    JavaFailed,
    KazooException,
    KazooTimeoutError,
)


# Where retention comes from is told differently, and on purpose (docs/differences.md).
OF_RETENTION: Final = ", DEFAULT_CONFIG:log.retention.hours=168"


class Script:
    """One run of operations on a fresh cluster of one kind."""

    def __init__(self, lab: Cluster, tools: ToolRunner) -> None:
        self.lab = lab
        self.tools = tools
        ports = {process.port: broker for broker, process in lab.brokers.items()}
        self.normaliser = Normaliser(ports)

    def run(self, operation: Operation) -> Outcome:
        """Do one operation; what goes wrong stands in the outcome."""
        outcome = Outcome(operation.__name__)
        self.lab.history.note("begin", outcome.operation)
        try:
            for name in operation(self.lab):
                outcome.moments.append(self.look(outcome.operation, name))
        except FAILURES as error:
            outcome.error = f"{type(error).__name__}: {error}"
            self.lab.history.note("failed", outcome.operation, error=outcome.error)
        return outcome

    def look(self, operation: str, name: str) -> Moment:
        """Wait for rest, then read everything that is compared."""
        tree, unsettled = self.lab.rest(quiet_s=QUIET_S, timeout_s=TIMEOUT_S)
        self.lab.history.note("look", f"{operation}: {name}", unsettled=unsettled)
        comparable = self.normaliser.tree(tree)
        moment = Moment(name, comparable, self._metadata(), unsettled=unsettled)
        for what in ASKED.get((operation, name), ()):
            moment.described[what] = self._describe(*QUESTIONS[what])
        return moment

    def _metadata(self) -> dict[str, Any]:
        live = self.lab.live()
        try:
            return metadata(self.lab.brokers[live[-1]].address)
        except (OSError, IndexError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _describe(self, tool: str, *arguments: str) -> list[str]:
        server = ("--bootstrap-server", self.lab.bootstrap_servers)
        ended = self.tools.run(tool, *server, *arguments, check=False)
        lines = comparable_lines(self.normaliser.text(ended.stdout))
        return lines if ended.exit_code == 0 else [*lines, f"exit code {ended.exit_code}"]


def run_all(
    kind: str,
    *,
    directory: Path | None = None,
    operations: Sequence[Operation] = OPERATIONS,
    tell: Callable[[Outcome], None] = lambda outcome: None,
    keep_going: bool = False,
) -> list[Outcome]:
    """All operations on a fresh cluster; `tell` hears of each when it is done.

    The first that cannot be done to its end is the last, unless `keep_going`.
    """
    outcomes = []
    with (
        ToolRunner(KAFKA) as tools,
        Cluster(kind, directory=directory, settings=PATIENT, own_settings=OWN_SETTINGS) as lab,
    ):
        lab.start_zookeeper()
        script = Script(lab, tools)
        for operation in operations:
            outcomes.append(script.run(operation))
            tell(outcomes[-1])
            if outcomes[-1].error is not None and not keep_going:
                break
    return outcomes


def comparable_lines(text: str) -> list[str]:
    """A tool's lines, sorted, as are settings within them; what is indented tells its heading."""
    lines, heading = [], ""
    for line in text.replace(OF_RETENTION, "").splitlines():
        if line.startswith("  "):
            line = f"{heading} {line.strip()}"
        elif not line.startswith("\t"):
            heading = line
        for before_list, separator in (("Configs: ", ","), (" are ", ", ")):
            head, found, listed = line.partition(before_list)
            if found and "synonyms" not in line:
                line = f"{head}{found}{separator.join(sorted(listed.split(separator)))}"
        if line.strip():
            lines.append(line.rstrip())
    return sorted(lines)
