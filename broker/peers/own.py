"""Requests from this broker to itself, by direct calls of the handlers."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from odradek.protocol.schema import Message

from ..handlers import APIS
from ..net.call import ANONYMOUS, Call

if TYPE_CHECKING:
    from ..core.refused_batches import RefusedBatches
    from ..node import Node

AskSelf = Callable[[Message, int], Awaitable[Message]]
"""Has this broker's handler answer a request in the given version."""


class OwnProcess:
    """The client that handlers see when a broker sends itself a request."""

    host = "127.0.0.1"
    principal = ANONYMOUS
    refused_batches: "RefusedBatches | None" = None

    def __init__(self, listener_name: str) -> None:
        self.listener_name = self.entrance = listener_name

    def note_software(self, software: str) -> None:
        """Do nothing: the software is this broker's own."""

    def keep_memory(self, size_bytes: int) -> None:
        """Do nothing: the budget is that of received requests."""

    def let_go_memory(self, size_bytes: int) -> None:
        """Do nothing, as `keep_memory`."""


def call_self(node: "Node", request: Message, version: int) -> Message | Awaitable[Message]:
    """Call this broker's handler; its answer, if it is known at once."""
    client = OwnProcess(node.config.broker_listeners.of_controller)
    call = Call(version, str(node.broker_id), client)
    answer: Message | Awaitable[Message] = APIS[request.API_KEY].handle(request, call, node)
    return answer


async def ask_self(node: "Node", request: Message, version: int) -> Message:
    """Call this broker's handler and return its answer."""
    answer = call_self(node, request, version)
    return await answer if isinstance(answer, Awaitable) else answer
