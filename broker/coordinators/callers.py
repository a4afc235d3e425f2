"""The client of a request, in the form that the machines of coordinators keep."""

from ..core.effects import Caller
from ..net.call import Call


def caller_of(call: Call) -> Caller:
    """The client of a request."""
    return Caller(call.client_id or "", f"/{call.client.host}", call.version)
