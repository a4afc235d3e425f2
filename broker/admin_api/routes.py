"""The table of the admin API: a route is a method and a path, its fields, and what it answers.

A resource is a function `(controls, path arguments, fields) -> what JSON can express`, or a
coroutine function. Its docstring is the summary in the OpenAPI document.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from . import (
    brokers,
    clock,
    disks,
    entrance,
    faults,
    groups,
    journal,
    leaders,
    network,
    openapi,
    racks,
    records,
    snapshots,
    topics,
    waits,
)
from .controls import Controls
from .fields import Field, Json
from .problems import Problem
from .schemas import NOTHING, Schema

PREFIX: Final = "/admin/v1"
PARAMETER: Final = re.compile(r"\{(\w+)\}")

Resource = Callable[[Controls, Mapping[str, str], Mapping[str, Any]], Json | Awaitable[Json]]


class Route(NamedTuple):
    """One row; the template is below PREFIX, `{name}` in it takes one segment of a path."""

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


def _show_openapi(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Describe this API in OpenAPI."""
    return openapi.document(ROUTES, PREFIX)


ROUTES: Final = (
    Route("GET", "/openapi.json", _show_openapi, {"type": "object"}),
    Route("GET", "/brokers", brokers.show_all, brokers.BROKERS),
    Route("POST", "/brokers/{id}/start", brokers.start, brokers.BROKER),
    Route("POST", "/brokers/{id}/stop", brokers.stop, brokers.BROKER),
    Route("POST", "/brokers/{id}/kill", brokers.kill, brokers.BROKER, (brokers.EXPIRE,)),
    Route("POST", "/brokers/{id}/pause", brokers.pause, brokers.BROKER),
    Route("POST", "/brokers/{id}/resume", brokers.resume, brokers.BROKER),
    Route("POST", "/brokers/{id}/set_rack", racks.set_rack, brokers.BROKER, (racks.RACK,)),
    Route("GET", "/network", network.show, network.NETWORK),
    Route("POST", "/network/split", network.split, network.NETWORK, network.SPLIT),
    Route("POST", "/network/isolate", network.isolate, network.NETWORK, network.ISOLATE),
    Route("POST", "/network/slow", network.slow, network.NETWORK, network.SLOW),
    Route("POST", "/network/heal", network.heal, network.NETWORK),
    Route("POST", "/brokers/{id}/disk_full", disks.fill, brokers.BROKER, (disks.LOG_DIR,)),
    Route(
        "POST",
        "/brokers/{id}/fail_disk",
        disks.fail,
        brokers.BROKER,
        (disks.LOG_DIR, brokers.EXPIRE),
    ),
    Route("POST", "/brokers/{id}/heal_disk", disks.heal, brokers.BROKER, (disks.LOG_DIR,)),
    Route("GET", "/topics", topics.show_all, topics.TOPICS, topics.LIST),
    Route("POST", "/topics", topics.create, topics.TOPIC, topics.CREATE, status=201),
    Route("GET", "/topics/{topic}", topics.show, topics.TOPIC),
    Route("DELETE", "/topics/{topic}", topics.delete, NOTHING),
    Route("GET", "/topics/{topic}/records", records.read, records.RECORDS, records.READ),
    Route("POST", "/topics/{topic}/records", records.write, records.WRITTEN, records.WRITE, 201),
    Route(
        "POST",
        "/topics/{topic}/partitions/{partition}/move_leader",
        leaders.move,
        leaders.LEADER,
        leaders.MOVE,
    ),
    Route("POST", "/shuffle_leaders", leaders.shuffle, leaders.LEADERS, leaders.SHUFFLE),
    Route("GET", "/groups", groups.show_all, groups.GROUPS),
    Route("GET", "/groups/{group}", groups.show, groups.GROUP),
    Route(
        "GET",
        "/coordinators/{id}",
        groups.show_coordinator,
        groups.COORDINATOR,
        (groups.OF,),
    ),
    Route(
        "POST",
        "/coordinators/{id}/move",
        leaders.move_coordinator,
        groups.COORDINATOR,
        leaders.MOVE_COORDINATOR,
    ),
    Route("GET", "/faults", faults.show_all, faults.FAULTS),
    Route("POST", "/faults", faults.add, faults.FAULT, faults.ADD, status=201),
    Route("DELETE", "/faults", faults.clear, faults.FAULTS),
    Route("GET", "/faults/{id}", faults.show, faults.FAULT),
    Route("DELETE", "/faults/{id}", faults.remove, NOTHING),
    Route("GET", "/journal", journal.show, journal.REQUESTS, journal.SHOW),
    Route("DELETE", "/journal", journal.clear, NOTHING),
    Route("GET", "/wait/topics/{topic}", waits.topic, topics.TOPIC, waits.TOPIC),
    Route("GET", "/wait/topics/{topic}/records", waits.records, waits.COUNT, waits.RECORDS),
    Route("GET", "/wait/groups/{group}", waits.group, groups.GROUP, waits.GROUP),
    Route("GET", "/wait/groups/{group}/lag", waits.lag, waits.LAG, waits.GROUP_LAG),
    Route("GET", "/clock", clock.show, clock.CLOCK),
    Route("POST", "/clock/advance", clock.advance, clock.CLOCK, (clock.BY,)),
    Route("POST", "/clock/freeze", clock.freeze, clock.CLOCK),
    Route("POST", "/clock/resume", clock.resume, clock.CLOCK),
    Route("POST", "/entrance", entrance.open_another, entrance.ENTRANCE, (entrance.PORTS,)),
    Route("POST", "/snapshots", snapshots.take, snapshots.SNAPSHOT, status=201),
    Route(
        "POST",
        "/snapshots/{id}/restore",
        snapshots.restore,
        snapshots.RESTORED,
        (snapshots.PORTS, snapshots.FORGETS_REQUESTS),
    ),
    Route("DELETE", "/snapshots/{id}", snapshots.remove, NOTHING),
)
_PARTS: Final = [(route, route.template.strip("/").split("/")) for route in ROUTES]


def find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route of a request, and its path arguments.  Raises: Problem (404, 405)."""
    segments = _segments(path)
    allowed = []
    for route, parts in _PARTS:
        arguments = None if segments is None else _match(parts, segments)
        if arguments is None:
            continue
        if route.method == method:
            return route, arguments
        allowed.append(route.method)
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
