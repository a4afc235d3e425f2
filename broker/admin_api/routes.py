"""The table of the admin API: a route is a method and a path, its fields, and what it answers.

The table names what is in the files of the resources. It imports none of them: a file is imported
at the first request of a route that names it.

A resource is a function `(controls, path arguments, fields) -> what JSON can express`, or a
coroutine function. Its docstring is the summary in the OpenAPI document.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from .controls import Controls
from .fields import Field, Json
from .problems import Problem
from .schemas import Schema

PREFIX: Final = "/admin/v1"
PARAMETER: Final = re.compile(r"\{(\w+)\}")

Resource = Callable[[Controls, Mapping[str, str], Mapping[str, Any]], Json | Awaitable[Json]]


class Route(NamedTuple):
    """A route with its resource; the template is below PREFIX, `{name}` in it takes one segment of
    a path."""

    method: str
    template: str
    resource: Resource
    answer: Schema
    fields: tuple[Field, ...] = ()
    """In the body of a POST, in the query of a GET or DELETE."""
    status: int = 200

    @property
    def parameters(self) -> list[str]:
        """The names of the path arguments."""
        return PARAMETER.findall(self.template)


class Row(NamedTuple):
    """A route whose resource, answer and fields are names: `file.name`, in this room."""

    method: str
    template: str
    resource: str
    answer: str
    fields: str = ""
    status: int = 200

    def route(self) -> Route:
        """The route, with the files that it names imported."""
        fields = _named(self.fields) if self.fields else ()
        resource, answer = _named(self.resource), _named(self.answer)
        return Route(self.method, self.template, resource, answer, fields, self.status)


def _named(name: str) -> Any:
    file, _, attribute = name.partition(".")
    return getattr(import_module(f".{file}", __package__), attribute)


TABLE: Final = (
    Row("GET", "/openapi.json", "openapi.show", "openapi.DOCUMENT"),
    Row("GET", "/brokers", "brokers.show_all", "brokers.BROKERS"),
    Row("POST", "/brokers/{id}/start", "brokers.start", "brokers.BROKER"),
    Row("POST", "/brokers/{id}/stop", "brokers.stop", "brokers.BROKER"),
    Row("POST", "/brokers/{id}/kill", "brokers.kill", "brokers.BROKER", "brokers.KILL"),
    Row("POST", "/brokers/{id}/pause", "brokers.pause", "brokers.BROKER"),
    Row("POST", "/brokers/{id}/resume", "brokers.resume", "brokers.BROKER"),
    Row("POST", "/brokers/{id}/set_rack", "racks.set_rack", "brokers.BROKER", "racks.SET_RACK"),
    Row("GET", "/network", "network.show", "network.NETWORK"),
    Row("POST", "/network/split", "network.split", "network.NETWORK", "network.SPLIT"),
    Row("POST", "/network/isolate", "network.isolate", "network.NETWORK", "network.ISOLATE"),
    Row("POST", "/network/slow", "network.slow", "network.NETWORK", "network.SLOW"),
    Row("POST", "/network/heal", "network.heal", "network.NETWORK"),
    Row("POST", "/brokers/{id}/disk_full", "disks.fill", "brokers.BROKER", "disks.OF_BROKER"),
    Row("POST", "/brokers/{id}/fail_disk", "disks.fail", "brokers.BROKER", "disks.FAIL"),
    Row("POST", "/brokers/{id}/heal_disk", "disks.heal", "brokers.BROKER", "disks.OF_BROKER"),
    Row("GET", "/topics", "topics.show_all", "topics.TOPICS", "topics.LIST"),
    Row("POST", "/topics", "topics.create", "topics.TOPIC", "topics.CREATE", status=201),
    Row("GET", "/topics/{topic}", "topics.show", "topics.TOPIC"),
    Row("DELETE", "/topics/{topic}", "topics.delete", "schemas.NOTHING"),
    Row("GET", "/topics/{topic}/records", "records.read", "records.RECORDS", "records.READ"),
    Row(
        "POST",
        "/topics/{topic}/records",
        "records.write",
        "records.WRITTEN",
        "records.WRITE",
        status=201,
    ),
    Row(
        "POST",
        "/topics/{topic}/partitions/{partition}/move_leader",
        "leaders.move",
        "leaders.LEADER",
        "leaders.MOVE",
    ),
    Row("POST", "/shuffle_leaders", "leaders.shuffle", "leaders.LEADERS", "leaders.SHUFFLE"),
    Row("GET", "/groups", "groups.show_all", "groups.GROUPS"),
    Row("GET", "/groups/{group}", "groups.show", "groups.GROUP"),
    Row(
        "GET",
        "/coordinators/{id}",
        "groups.show_coordinator",
        "groups.COORDINATOR",
        "groups.SHOW_COORDINATOR",
    ),
    Row(
        "POST",
        "/coordinators/{id}/move",
        "leaders.move_coordinator",
        "groups.COORDINATOR",
        "leaders.MOVE_COORDINATOR",
    ),
    Row("GET", "/faults", "faults.show_all", "faults.FAULTS"),
    Row("POST", "/faults", "faults.add", "faults.FAULT", "faults.ADD", status=201),
    Row("DELETE", "/faults", "faults.clear", "faults.FAULTS"),
    Row("GET", "/faults/{id}", "faults.show", "faults.FAULT"),
    Row("DELETE", "/faults/{id}", "faults.remove", "schemas.NOTHING"),
    Row("GET", "/journal", "journal.show", "journal.REQUESTS", "journal.SHOW"),
    Row("DELETE", "/journal", "journal.clear", "schemas.NOTHING"),
    Row("GET", "/wait/topics/{topic}", "waits.topic", "topics.TOPIC", "waits.TOPIC"),
    Row("GET", "/wait/topics/{topic}/records", "waits.records", "waits.COUNT", "waits.RECORDS"),
    Row("GET", "/wait/groups/{group}", "waits.group", "groups.GROUP", "waits.GROUP"),
    Row("GET", "/wait/groups/{group}/lag", "waits.lag", "waits.LAG", "waits.GROUP_LAG"),
    Row("GET", "/clock", "clock.show", "clock.CLOCK"),
    Row("POST", "/clock/advance", "clock.advance", "clock.CLOCK", "clock.ADVANCE"),
    Row("POST", "/clock/freeze", "clock.freeze", "clock.CLOCK"),
    Row("POST", "/clock/resume", "clock.resume", "clock.CLOCK"),
    Row("POST", "/entrance", "entrance.open_another", "entrance.ENTRANCE", "entrance.OPEN"),
    Row("POST", "/snapshots", "snapshots.take", "snapshots.SNAPSHOT", status=201),
    Row(
        "POST",
        "/snapshots/{id}/restore",
        "snapshots.restore",
        "snapshots.RESTORED",
        "snapshots.RESTORE",
    ),
    Row("DELETE", "/snapshots/{id}", "snapshots.remove", "schemas.NOTHING"),
)
_PARTS: Final = [(row, row.template.strip("/").split("/")) for row in TABLE]


def all_routes() -> list[Route]:
    """All routes, in the order of the table."""
    return [row.route() for row in TABLE]


def find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route of a request, and its path arguments.  Raises: Problem (404, 405)."""
    segments = _segments(path)
    allowed = []
    for row, parts in _PARTS:
        arguments = None if segments is None else _match(parts, segments)
        if arguments is None:
            continue
        if row.method == method:
            return row.route(), arguments
        allowed.append(row.method)
    if not allowed:
        raise Problem(404, f"there is no {path[:200]!a}: see {PREFIX}/openapi.json")
    names = ", ".join(sorted(allowed))
    raise Problem(405, f"this path has no {method}, but {names}", headers={"Allow": names})


def _match(parts: list[str], segments: list[str]) -> dict[str, str] | None:
    """The path arguments, if these parts of a template fit these segments of a path."""
    if len(parts) != len(segments):
        return None
    arguments = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            arguments[part[1:-1]] = segment
        elif part != segment:
            return None
    return arguments


def _segments(path: str) -> list[str] | None:
    """The decoded segments below PREFIX; None if the path is another one, or not text."""
    if not path.startswith(f"{PREFIX}/"):
        return None
    parts = path.removeprefix(f"{PREFIX}/").split("/")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        return None
