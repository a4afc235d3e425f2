"""LeaderAndIsr 0-7: the controller tells this broker which partitions it leads and follows."""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

from ..coordination.interface import CoordinationError
from ..member.control_messages import leader_and_isr_response, leader_and_isr_states, sender_of
from ..net.call import Call, CloseConnection
from ..node import Node


async def handle(request: LeaderAndIsrRequest, call: Call, node: Node) -> LeaderAndIsrResponse:
    """Take on the roles."""
    try:
        codes = await node.control.leader_and_isr(
            sender_of(request), leader_and_isr_states(request)
        )
    except Refused as refused:
        return refuse(request, call.version, refused.code)
    except CoordinationError as error:  # the controller sends it again
        raise CloseConnection(f"the store can't be asked for topic settings: {error}") from error
    return leader_and_isr_response(request, codes.get)


def refuse(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """Refuse the whole request, with the code for every partition too."""
    return leader_and_isr_response(request, lambda partition: code, code)
