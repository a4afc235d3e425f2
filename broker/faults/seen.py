"""What rules and the journal get to know of a request."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.schema import Message

from ..handlers import Api, Need
from ..net.call import Call
from ..net.endpoints import PRIVATE
from .targets import Target, TopicName, targets_of

if TYPE_CHECKING:
    from ..node import Node

FIXTURE_CLIENT_ID: Final = "odradek.testing"
"""The fixture's own requests: no rule and no journal ever sees them."""
FETCH_KEY: Final = 1
BY_ID_VERSION_FIRST: Final = 13
BATCHED_VERSION_FIRST: Final = 4
WRITE_TXN_MARKERS_KEY: Final = 27


class Seen(NamedTuple):
    """A request, as rules see it."""

    api: Api
    version: int
    client_id: str | None
    principal: str
    broker_id: int
    is_inter_broker: bool
    targets: Sequence[Target]
    """Never empty."""


def see(api: Api, request: Message, call: Call, node: "Node") -> Seen:
    """Look at a request."""
    return Seen(
        api=api,
        version=call.version,
        client_id=call.client_id,
        principal=str(call.client.principal),
        broker_id=node.broker_id,
        is_inter_broker=_is_of_broker(api, request, call, node),
        targets=_targets(api, request, call.version, node),
    )


def _is_of_broker(api: Api, request: Message, call: Call, node: "Node") -> bool:
    listener = call.client.listener_name
    if listener == PRIVATE.name or listener in node.quotas.exempt_listeners:
        return True
    if api.need is Need.BROKER or not api.is_advertised or api.key == WRITE_TXN_MARKERS_KEY:
        return True
    if api.need is Need.BROKER_TO_BATCH:
        return call.version >= BATCHED_VERSION_FIRST
    state = getattr(request, "replica_state", None)
    replica_id = getattr(request, "replica_id", -1)
    return replica_id >= 0 or (state is not None and state.replica_id >= 0)


def topic_names(node: "Node") -> TopicName:
    """The names of topics by their ids."""
    return node.metadata.topic_name


def _targets(api: Api, request: Message, version: int, node: "Node") -> list[Target]:
    topic_name = topic_names(node)
    found = targets_of(request, version, topic_name)
    session_id = getattr(request, "session_id", 0) if api.key == FETCH_KEY else 0
    session = node.fetch_sessions.slots.sessions.get(session_id) if session_id else None
    if session is None:
        return found
    return _with_session(request, version, found, list(session.partitions), topic_name)


def _with_session(
    request: Message,
    version: int,
    found: list[Target],
    session: list[tuple[str | bytes, int]],
    topic_name: TopicName,
) -> list[Target]:
    """A Fetch is about its session's partitions, too, unless it removes them."""
    by_id = version >= BY_ID_VERSION_FIRST
    forgotten = {
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data  # type: ignore[attr-defined]  # a Fetch
        for partition in topic.partitions
    }
    targets = dict.fromkeys(target for target in found if target.partition is not None)
    for key in session:
        topic, partition = key
        if key in forgotten:
            continue
        if isinstance(topic, bytes):
            target = Target(topic=topic_name(topic), partition=partition, topic_id=topic)
        else:
            target = Target(topic=topic, partition=partition)
        targets[target] = None
    return list(targets) or found
