"""Requests of this broker to itself: no connection, the handler is called."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from odradek.protocol.schema import Message

from ..handlers import APIS
from ..net.call import ANONYMOUS, Call

if TYPE_CHECKING:
    from ..node import Node

AskSelf = Callable[[Message, int], Awaitable[Message]]
"""Has the handler of this broker answer a request of this version."""


class OwnProcess:
    """The client, as handlers see it, when a broker asks itself."""

    host = "127.0.0.1"
    principal = ANONYMOUS

    def __init__(self, listener_name: str) -> None:
        self.listener_name = listener_name

    def note_software(self, software: str) -> None:
        """Nobody needs to be told."""


async def ask_self(node: "Node", request: Message, version: int) -> Message:
    """What the handler of this broker answers."""
    client = OwnProcess(node.config.broker_listeners.of_controller)
    call = Call(version, str(node.broker_id), client)
    answer: Any = APIS[request.API_KEY].handle(request, call, node)
    found: Message = await answer if isinstance(answer, Awaitable) else answer
    return found
