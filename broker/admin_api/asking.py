"""Requests of the admin API to the brokers of its process, by direct calls of their handlers.

They need no connection, no login and no right, and nothing that watches the requests of clients
sees them.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from ..core.partition_state import NO_LEADER, PartitionState
from ..member.metadata import TopicInfo
from ..network.conditions import STORE
from ..node import Node
from ..peers.own import ask_self
from ..peers.peer import PeerFailed
from .controls import Controls
from .problems import Problem, not_found

TIMEOUT_S: Final = 15.0
TIMEOUT_MS: Final = int(TIMEOUT_S * 1000)
RETRY_S: Final = 0.1
_NOT_FOUND: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_INVALID: Final = (
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST,
)


def any_node(controls: Controls) -> Node:
    """A broker that runs: the controller, which hears of changes first, if it is here.

    A broker that a test has cut off from the store may think that it is still the controller.
    Raises: Problem.
    """
    awake = _awake(controls)
    near = [node for node in awake if not controls.is_cut(node.broker_id, STORE)] or awake
    return next((node for node in near if node.controller.is_active), near[0])


def _awake(controls: Controls) -> list[Node]:
    """The brokers that run and are not paused.  Raises: Problem if there is none."""
    awake = [broker.node for broker in controls.brokers.values() if not broker.is_paused]
    if not awake:
        is_paused = "every broker of this process is paused: resume one"
        nobody = "no broker of this process is running"
        raise Problem(409, is_paused if controls.brokers else nobody)
    return awake


async def ask_controller(controls: Controls, request: Message, version: int) -> Any:
    """The controller's answer; after it has failed or was paused, that of the next one.

    Raises: Problem.
    """
    node = any_node(controls)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            if node.config.zookeeper_connect is not None:  # it may be in another process
                return await _ask_any_controller(controls, node.broker_id, request, version)
            await node.metadata.wait_until(lambda: any_node(controls).controller.is_active)
            return await ask_self(any_node(controls), request, version)
    except TimeoutError:
        raise Problem(504, f"no controller answered within {TIMEOUT_S:g} s") from None


async def _ask_any_controller(
    controls: Controls, broker_id: int, request: Message, version: int
) -> Any:
    """Ask the controller, wherever it is, until a broker answers that is it."""
    while True:
        try:
            answer = await controls.brokers[broker_id].ask_controller(request, version)
        except PeerFailed:
            pass
        else:
            if ErrorCode.NOT_CONTROLLER not in _codes(answer):
                return answer
        await asyncio.sleep(RETRY_S)


def _codes(answer: Any) -> Iterator[int]:
    """The error codes of an answer, at its top level or of its topics."""
    yield getattr(answer, "error_code", ErrorCode.NONE)
    for name in ("topics", "responses"):
        for result in getattr(answer, name, ()):
            yield getattr(result, "error_code", ErrorCode.NONE)


def leader_node(controls: Controls, topic: str, partition: int) -> Node:
    """The broker of this process that leads a partition.  Raises: Problem."""
    state = state_of(controls, topic, partition)
    name = f"{topic}-{partition}"
    if state.leader == NO_LEADER:
        raise Problem(409, f"{name} has no leader")
    broker = controls.brokers.get(state.leader)
    if broker is None and state.leader in controls.broker_ids:
        raise Problem(409, f"broker {state.leader}, which leads {name}, is down")
    if broker is None:
        raise Problem(421, f"broker {state.leader}, which leads {name}, is not in this process")
    if broker.is_paused:
        raise Problem(409, f"broker {state.leader}, which leads {name}, is paused")
    return broker.node


def state_of(controls: Controls, topic: str, partition: int) -> PartitionState:
    """What is known of a partition.  Raises: Problem."""
    states = states_of(controls, topic)
    for state in states:
        if state.partition == partition:
            return state
    raise not_found(f"partition {partition} of {topic}, which has {len(states)}")


def states_of(controls: Controls, topic: str) -> list[PartitionState]:
    """What is known of the partitions of a topic.  Raises: Problem."""
    return list(topic_of(controls, topic).partitions)


def topic_of(controls: Controls, name: str) -> TopicInfo:
    """What is known of a topic.  Raises: Problem."""
    info = any_node(controls).metadata.topics.get(name)
    if info is None:
        raise not_found(f"topic {name[:250]!a}")
    return info


async def wait_for_all(controls: Controls, done: Callable[[Node], bool], what: str) -> None:
    """Return once `done` is true of the metadata of every broker here that hears of it: it runs,
    reads, and is reached by the controller.

    Raises: Problem.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            teller = any_node(controls)
            for node in _awake(controls):
                if node is not teller and controls.is_cut(teller.broker_id, node.broker_id):
                    continue
                await node.metadata.wait_until(lambda node=node: done(node))  # type: ignore[misc]
    except TimeoutError:
        raise Problem(504, f"{what} did not happen within {TIMEOUT_S:g} s") from None


def check(code: int, message: str | None, about: str) -> None:
    """Raise the problem that an error code of Kafka is; none if it is NONE.  Raises: Problem."""
    if code == ErrorCode.NONE:
        return
    name = ErrorCode(code).name
    status = 404 if code in _NOT_FOUND else 400 if code in _INVALID else 409
    raise Problem(status, f"{about}: {name}" + (f": {message}" if message else ""))


def partition_in(path: Mapping[str, str]) -> int:
    """The partition that a path names.  Raises: Problem."""
    text = path["partition"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise not_found(f"partition {text[:20]!a}")
    return int(text)
