"""Controllers for handlers: one that is none, and one that answers what a test wants."""

from collections.abc import Callable, Generator
from typing import Any

from odradek.broker.core.controller.context import Context
from odradek.protocol.errors import ErrorCode, Refused


class Inactive:
    """Of a broker that is not the controller."""

    is_active = False

    def lost(self) -> None:
        pass

    def require_active(self) -> None:
        raise Refused(ErrorCode.NOT_CONTROLLER)

    async def ask(self, make: Callable[[Context], Generator[Any, Any, Any]]) -> Any:
        self.require_active()

    async def elect_leaders(self, partitions: object, kind: object) -> Any:
        self.require_active()

    def reassignments(self) -> Any:
        self.require_active()


class Active:
    """Runs procedures on a context; nobody performs their effects."""

    is_active = True

    def lost(self) -> None:
        pass

    def __init__(self, context: Context) -> None:
        self.context = context

    def require_active(self) -> None:
        pass

    async def ask(self, make: Callable[[Context], Generator[Any, Any, Any]]) -> Any:
        procedure = make(self.context)
        try:
            while True:
                next(procedure)
        except StopIteration as stop:
            return stop.value
