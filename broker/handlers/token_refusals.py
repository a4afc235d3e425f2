"""Why no request about delegation tokens is granted: they are not built.

The codes are those of Kafka without `delegation.token.secret.key`, which tell clients so.
"""

from odradek.protocol.errors import ErrorCode

from ..net.call import ANONYMOUS, Call
from ..node import Node


def refusal_of_tokens(call: Call, node: Node) -> ErrorCode:
    """The code for a client: one without a name may not even ask."""
    client = call.client
    protocol = node.config.security_protocols[client.listener_name]
    is_nobody = protocol == "SSL" and client.principal == ANONYMOUS
    if protocol == "PLAINTEXT" or is_nobody:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
