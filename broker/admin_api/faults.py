"""Faults: rules by which requests fail, wait, or lose their answer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.protocol.primitives import INT32_MAX, INT64_MAX

from .controls import Controls
from .fields import (
    BOOLEAN,
    DELAY,
    TEXT,
    Field,
    Json,
    Kind,
    either,
    nullable,
    number,
    whole,
)
from .problems import Problem, not_found
from .schemas import ANYTHING, INTEGER, NULL, STRING, array, mapping, members
from .schemas import either as any_of

if TYPE_CHECKING:
    from ..faults.matching import Fault

THROTTLE_MS_MAX: Final = 3_600_000
FIELDS_MAX: Final = 50


def _object(value: Json) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > FIELDS_MAX:
        raise ValueError
    return value


OBJECT: Final = Kind("an object", {"type": "object", "maxProperties": FIELDS_MAX}, _object)
NAME_OR_NUMBER: Final = either(whole(-1, INT32_MAX), TEXT)
COUNT: Final = nullable(whole(1, INT32_MAX))


def _optional(name: str, kind: Kind, doc: str) -> Field:
    return Field(name, nullable(kind), doc, None)


ADD: Final = (
    _optional("api", NAME_OR_NUMBER, "Requests of this API, by name or key."),
    _optional("topic", TEXT, "Requests about this topic; `*` and `?` are wildcards, as below."),
    _optional("partition", whole(0, INT32_MAX), "Requests about this partition."),
    _optional("client_id", TEXT, "Requests of clients with this id."),
    _optional("group", TEXT, "Requests about this group."),
    _optional("transactional_id", TEXT, "Requests about this transactional id."),
    _optional("principal", TEXT, "Requests of this principal, such as User:alice."),
    _optional("broker", whole(0, INT32_MAX), "Requests to the broker with this id."),
    Field("inter_broker", BOOLEAN, "Whether requests of other brokers match, too.", False),
    Field("nth", COUNT, "Act on the nth request that matches, only.", None),
    Field("every", COUNT, "Act on every nth request that matches.", None),
    _optional("probability", number(0, 1), "Act on this share of the requests that match."),
    _optional("seed", whole(0, INT64_MAX), "The same seed gives the same choices and jitter."),
    Field("times", COUNT, "Act so often at most.", None),
    Field("optional", BOOLEAN, "Whether it is no mistake if the rule never acts.", False),
    _optional("error", NAME_OR_NUMBER, "Answer this error of Kafka, by name or number."),
    Field(
        "applied", BOOLEAN, "Whether error and close act after the request has its effect.", False
    ),
    Field("delay", DELAY, "Answer so much later.", 0.0),
    Field("jitter", DELAY, "Add a random part of this to the delay.", 0.0),
    Field("throttle_ms", whole(0, THROTTLE_MS_MAX), "Throttle the client, as a quota does.", 0),
    Field("close", BOOLEAN, "Close the connection instead of handling the request.", False),
    Field("drop_response", BOOLEAN, "Handle the request, then close without an answer.", False),
    Field("half_response", BOOLEAN, "Handle it, answer half a response, and close.", False),
    _optional("answer", OBJECT, "Fields to set in the response, by name."),
)

FAULT: Final = members(
    id=STRING,
    hits=INTEGER,
    matched=INTEGER,
    optional={"type": "boolean"},
    nearest_miss=any_of(STRING, NULL),
    seed=INTEGER,
    rule=mapping(ANYTHING),
)
FAULTS: Final = members(faults=array(FAULT))


def show_all(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """List the rules in force, with how often each has acted."""
    return {"faults": [_shown(fault) for fault in controls.interceptor.faults.all()]}


def add(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Put a rule in force: which requests it is about, and what happens to them."""
    from ..faults.rule import BadRule, make_rule  # as `Faults` says

    given = dict(fields)
    broker = given["broker"]
    if broker is not None and broker not in controls.broker_ids:
        known = ", ".join(map(str, controls.broker_ids))
        raise Problem(
            400, f"broker: there is no broker {broker} in this process, which has {known}"
        )
    delay_s, jitter_s = given.pop("delay"), given.pop("jitter")
    try:
        rule = make_rule(**given, delay_s=delay_s, jitter_s=jitter_s)
        fault = controls.interceptor.faults.add(rule)
    except BadRule as error:
        raise Problem(400, str(error)) from None
    return _shown(fault)


def clear(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """End all rules; the answer has them as they were at the end."""
    ended = show_all(controls, path, fields)
    controls.interceptor.faults.clear()
    return ended


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Show one rule, and how often it has acted."""
    fault = controls.interceptor.faults.get(path["id"])
    if fault is None:
        raise _absent(path["id"])
    return _shown(fault)


def remove(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """End one rule."""
    if controls.interceptor.faults.remove(path["id"]) is None:
        raise _absent(path["id"])
    return {}


def _absent(fault_id: str) -> Problem:
    return not_found(f"rule {fault_id[:20]!a}")


def _shown(fault: "Fault") -> Json:
    return {
        "id": fault.id,
        "hits": fault.hits,
        "matched": fault.matched,
        "optional": fault.rule.optional,
        "nearest_miss": fault.nearest_miss,
        "seed": fault.seed,
        "rule": fault.rule.given(),
    }
