"""The access check of every request before its handler: whether the client may send it at all.

It knows the API, the listener and the principal. Without an authorizer only the listener counts.

Requests between brokers are accepted from brokers only. A connection to a listener for brokers
counts as a broker; if clients use the same listener, they can't be distinguished from brokers
without an authorizer. With one, brokers need ClusterAction as in Kafka.

A broker without a cluster accepts no requests from brokers. The exception is Fetch with a replica
id: its handler answers, like Kafka's, that the replica is not a follower here.

With an authorizer the client needs the rights in `rights/needed.py`. A request for which a right is
missing is refused here as a whole, or else by the handler module's `guarded` in part.
"""

import logging
from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from .core.acls.hosts import host_in_acls
from .core.acls.terms import CLUSTER_NAME, Operation, ResourceType
from .handlers import Answer, Api, Need
from .net.call import Call, Client
from .net.endpoints import PRIVATE
from .rights.needed import NEEDED, Right
from .rights.rights import REFUSAL, Rights

if TYPE_CHECKING:
    from .administration.acls import Acls
    from .node import Node

logger = logging.getLogger(__name__)


def refusal(api: Api, request: Message, call: Call, node: "Node") -> Message | None:
    """The error response if the listener is not for the request; None: handle it."""
    if api.is_for_all or _is_taken_for_broker(api.need, call.client, node):
        return None
    answer = api.refuse(request, call.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if answer is not None:
        client = call.client
        logger.debug(
            "request refused api=%s principal=%s host=%s listener=%s",
            api.name,
            client.principal,
            client.host,
            client.listener_name,
        )
    return answer


def _is_taken_for_broker(need: Need, client: Client, node: "Node") -> bool:
    has_others = need is Need.BROKER_TO_FOLLOW or not node.local.is_alone
    return has_others and client.listener_name in node.broker_listeners


def answer_of(api: Api, request: Message, call: Call, node: "Node") -> Answer:
    """Handle a request as far as its client may send it."""
    if node.acls is not None:
        return answer_with_rights(api, request, call, node, node.acls)
    refused = None if api.is_for_all else refusal(api, request, call, node)
    answer: Answer = api.handle(request, call, node) if refused is None else refused
    return answer


def answer_with_rights(
    api: Api, request: Message, call: Call, node: "Node", acls: "Acls"
) -> Answer:
    """Handle a request as far as the rights of its client reach."""
    client = call.client
    if client.listener_name == PRIVATE.name:  # only brokers of this process can log in there
        return api.handle(request, call, node)  # type: ignore[no-any-return]
    rights = Rights(
        acls.authorizer,
        acls.audit,
        principal=str(client.principal),
        host=host_in_acls(client.host),
        api_name=api.name,
    )
    answer = refusal(api, request, call, node)
    if answer is None and not api.is_for_all:
        answer = _refusal_of_no_broker(api, request, call, rights)
    if answer is None:
        for right in NEEDED[api.key].whole:
            if not rights.may(right.operation, right.kind, _name_in(request, right)):
                return api.refuse(request, call.version, REFUSAL[right.kind])
        answer = api.guarded(request, call, node, rights)
    return answer


def _refusal_of_no_broker(api: Api, request: Message, call: Call, rights: Rights) -> Message | None:
    """The error response to what only some requests of the API need, as they are of brokers."""
    if rights.cluster(Operation.CLUSTER_ACTION, quietly=True):
        return None
    answer = api.refuse(request, call.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if answer is not None:
        rights.cluster(Operation.CLUSTER_ACTION)  # for the audit log
    return answer


def _name_in(request: Message, right: Right) -> str:
    """The name of the resource that a whole request is about."""
    if right.kind is ResourceType.CLUSTER:
        return CLUSTER_NAME
    name = getattr(request, right.field)
    return name if isinstance(name, str) else ""
