"""Applying a request to change configs to its resources: topics, brokers, loggers, groups.

AlterConfigs and IncrementalAlterConfigs differ only in how they derive the new settings from the
current ones. Permitted resources, order of validation and effects are the same.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from odradek.protocol.errors import ErrorCode, Refused

from ..config import BUILT
from ..node import Node
from ..settings.changes import ConfigChange, Operation, changed, check_form
from ..settings.described import Declared, all_declared
from ..settings.groups import GROUP_CONFIGS
from ..settings.resources import ResourceType
from ..settings.topic_config import TOPIC_SETTINGS
from .dynamic_configs import Texts


class _Answer(Protocol):
    error_code: int
    error_message: str | None


A = TypeVar("A", bound=_Answer)


class ResourceChange(NamedTuple):
    """The requested changes of one resource."""

    resource_type: int
    name: str
    changes: Sequence[ConfigChange]
    replaces: bool
    """Whether settings that are not named are deleted."""


async def change_resources(
    all_asked: Sequence[ResourceChange],
    node: Node,
    answer: Callable[..., A],
    *,
    validate_only: bool,
) -> list[A]:
    """Change resources one after the other; return their answers once this broker uses the changes.

    `answer` is the struct in the response, which has the same fields for both requests.
    """
    named = Counter((asked.resource_type, asked.name) for asked in all_asked)
    answers = []
    for asked in all_asked:
        result = answer(
            error_message=None, resource_type=asked.resource_type, resource_name=asked.name
        )
        answers.append(result)
        try:
            if named[asked.resource_type, asked.name] > 1:
                raise _invalid_request("this resource is named twice")
            await _change_resource(asked, node, validate_only=validate_only)
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message
    return answers


async def _change_resource(asked: ResourceChange, node: Node, *, validate_only: bool) -> None:
    check_form(asked.changes)
    kind = asked.resource_type
    if kind == ResourceType.TOPIC:
        if not asked.name:
            raise _invalid_request("there are no configs of all topics: name one")
        change = _change(asked, TOPIC_SETTINGS)
        await node.dynamic_configs.change_topic(asked.name, change, validate_only=validate_only)
    elif kind == ResourceType.BROKER:
        is_cluster = asked.name == ""
        if not is_cluster:
            check_broker_id(asked.name, node)
        await node.dynamic_configs.change_broker(
            _change(asked, all_declared(BUILT)), is_cluster=is_cluster, validate_only=validate_only
        )
    elif kind == ResourceType.GROUP:
        if not asked.name:
            raise _invalid_request("there are no configs of all groups: name one")
        change = _change(asked, GROUP_CONFIGS)
        await node.dynamic_configs.change_group(asked.name, change, validate_only=validate_only)
    elif kind == ResourceType.BROKER_LOGGER and not asked.replaces:
        check_broker_id(asked.name, node)
        _change_loggers(asked.changes, node, validate_only=validate_only)
    else:
        raise _invalid_request(f"configs of resource type {kind} cannot be changed by this request")


def check_broker_id(name: str, node: Node) -> None:
    """Check that a name is this broker's id, in any notation.  Raises: Refused."""
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise _invalid_request(f"a broker is named by its number, not by {name[:100]!r}")
    if int(name) != node.broker_id:
        raise _invalid_request(f"this is broker {node.broker_id}, not {name}: ask that one")


def _change(asked: ResourceChange, declared: Declared) -> Callable[[Texts], Texts]:
    if asked.replaces:
        return lambda current: changed({}, asked.changes, declared)
    return lambda current: changed(current, asked.changes, declared)


def _change_loggers(changes: Sequence[ConfigChange], node: Node, *, validate_only: bool) -> None:
    for name, operation, level in changes:
        if operation not in (Operation.SET, Operation.DELETE):
            raise _invalid_request("the level of a logger can only be set or deleted")
        node.loggers.check(name, None if operation == Operation.DELETE else level)
    for name, operation, level in () if validate_only else changes:
        if operation == Operation.DELETE:
            node.loggers.reset(name)
        else:
            assert level is not None
            node.loggers.set_level(name, level)


def _invalid_request(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
