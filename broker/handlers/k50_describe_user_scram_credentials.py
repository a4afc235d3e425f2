"""DescribeUserScramCredentials 0: which users can log in by SCRAM, and with how many iterations.

No part of a credential is shown.
"""

from collections import Counter

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

from ..administration.scram_users import Iterations
from ..net.call import Call
from ..node import Node


async def handle(
    request: DescribeUserScramCredentialsRequest, call: Call, node: Node
) -> DescribeUserScramCredentialsResponse:
    """Describe the named users, each once, or all."""
    try:
        if not request.users:
            everybody = await node.scram_users.describe_all()
            results = [_result(user, found) for user, found in sorted(everybody.items())]
        else:
            named = Counter(user.name for user in request.users)
            results = [await _describe(user, count, node) for user, count in named.items()]
    except Refused as refused:
        return DescribeUserScramCredentialsResponse(
            error_code=refused.code, error_message=refused.message
        )
    return DescribeUserScramCredentialsResponse(results=results)


def refuse(
    request: DescribeUserScramCredentialsRequest, version: int, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    """Refuse the request, and each user that it names."""
    return DescribeUserScramCredentialsResponse(
        error_code=code, results=[_failed(user.name, code, None) for user in request.users or ()]
    )


async def _describe(user: str, count: int, node: Node) -> DescribeUserScramCredentialsResult:
    if count > 1 and user:
        return _failed(
            user,
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{user}",
        )
    if not user:
        return _failed(user, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    try:
        found = await node.scram_users.describe(user)
    except Refused as refused:
        return _failed(user, refused.code, refused.message)
    if not found:
        return _failed(
            user,
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {user}",
        )
    return _result(user, found)


def _result(user: str, found: Iterations) -> DescribeUserScramCredentialsResult:
    infos = [CredentialInfo(mechanism=m.number, iterations=n) for m, n in found.items()]
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)


def _failed(user: str, code: ErrorCode, message: str | None) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
