"""CreateDelegationToken 0-3: refused, as delegation tokens are not built."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k38_create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

from ..core.acls.terms import Operation, ResourceType
from ..net.call import Call, Principal
from ..node import Node
from ..rights.rights import Rights
from .token_refusals import refusal_of_tokens

USER = "User"
NO_TIME = -1


def handle(
    request: CreateDelegationTokenRequest, call: Call, node: Node
) -> CreateDelegationTokenResponse:
    """Say why there is no token."""
    code = refusal_of_tokens(call, node)
    if code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED and any(
        renewer.principal_type != USER for renewer in request.renewers
    ):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    return _answer(request, call, code)


def guarded(
    request: CreateDelegationTokenRequest, call: Call, node: Node, rights: Rights
) -> CreateDelegationTokenResponse:
    """The same; for others only those may ask who may create tokens for them."""
    owner = _owner(request, call)
    is_own = owner == call.client.principal
    code = refusal_of_tokens(call, node)
    if code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED and not (
        is_own or rights.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner))
    ):
        return _answer(request, call, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return handle(request, call, node)


def _owner(request: CreateDelegationTokenRequest, call: Call) -> Principal:
    if not request.owner_principal_name:
        return call.client.principal
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def _answer(
    request: CreateDelegationTokenRequest, call: Call, code: ErrorCode
) -> CreateDelegationTokenResponse:
    owner, requester = _owner(request, call), call.client.principal
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
