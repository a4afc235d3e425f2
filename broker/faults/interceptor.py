"""Lets requests meet the rules, and notes them in the journal.

It stands in place of the access check and the handler (`access.answer_of`), and calls them, or, if
a rule acts on the request, has `carrying.py` do so.
"""

from typing import TYPE_CHECKING

from odradek.protocol.schema import Message

from ..access import answer_of
from ..handlers import Answer, Api
from ..journal.journal import Journal
from ..net.call import Call
from .faults import Faults
from .notes import Notes
from .seen import FIXTURE_CLIENT_ID, see

if TYPE_CHECKING:
    from ..node import Node
    from ..runtime import Runtime


class Interceptor:
    """What stands between the requests of all brokers of a process and their handlers."""

    def __init__(self, faults: Faults, notes: Notes) -> None:
        self.faults = faults
        self.notes = notes

    def answer(
        self, api: Api, request: Message, call: Call, node: "Node", frame: memoryview
    ) -> Answer:
        """Handle a request as the rules say.  Raises: CloseConnection."""
        if call.client_id == FIXTURE_CLIENT_ID:
            return answer_of(api, request, call, node)
        seen = see(api, request, call, node)
        plan = self.faults.plan(seen)
        noted = self.notes.begin(seen, plan, frame, node)
        if noted is not None:
            call.on_sent = noted.on_sent
        try:
            if plan is None:
                answer = answer_of(api, request, call, node)
            else:
                from .carrying import Carrying  # as `Faults` says

                answer = Carrying(plan, seen, request, call, node, frame).out()
        except Exception:
            self.notes.close(noted)
            raise
        return self.notes.end(noted, answer)


def interceptor_for(runtime: "Runtime", *, frames_bytes_max: int = 0) -> Interceptor:
    """An interceptor without rules, and with an empty journal."""
    journal = Journal(frames_bytes_max=frames_bytes_max)
    return Interceptor(Faults(runtime.random.getrandbits), Notes(journal))
