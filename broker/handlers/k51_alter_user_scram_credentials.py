"""AlterUserScramCredentials 0: set and delete what users log in with by SCRAM.

The client has stretched the password; what is stored is made from that. Only the controller does
it, as in Kafka.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

from ..administration.scram_users import BY_NUMBER, Change
from ..net.call import Call
from ..node import Node
from ..sasl import scram


async def handle(
    request: AlterUserScramCredentialsRequest, call: Call, node: Node
) -> AlterUserScramCredentialsResponse:
    """Change one user after the other."""
    try:
        node.controller.require_active()
    except Refused as refused:
        return refuse(request, call.version, refused.code)
    changes = [Change(each.name, each.mechanism, None) for each in request.deletions]
    changes += [Change(each.name, each.mechanism, _credential(each)) for each in request.upsertions]
    results = await node.scram_users.alter(changes)
    return AlterUserScramCredentialsResponse(
        results=[_result(user, refused) for user, refused in results.items()]
    )


def _credential(asked: ScramCredentialUpsertion) -> scram.Credential:
    # With an unknown mechanism, the change is refused.
    mechanism = BY_NUMBER.get(asked.mechanism, scram.SHA_256)
    return scram.credential(
        mechanism, asked.salted_password, salt=asked.salt, iterations=asked.iterations
    )


def _result(user: str, refused: Refused | None) -> AlterUserScramCredentialsResult:
    if refused is None:
        return AlterUserScramCredentialsResult(user=user)
    return AlterUserScramCredentialsResult(
        user=user, error_code=refused.code, error_message=refused.message
    )


def refuse(
    request: AlterUserScramCredentialsRequest, version: int, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    """Answer every user with `code`."""
    named = [each.name for each in request.deletions]
    named += [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[_result(user, Refused(code)) for user in dict.fromkeys(named)]
    )
