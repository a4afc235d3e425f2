"""The client of a request, in the form that the machines of coordinators keep."""

from collections.abc import Callable

from ..core.effects import Caller, any_topic
from ..net.call import Call


def caller_of(call: Call, may_describe: Callable[[str], bool] = any_topic) -> Caller:
    """The client of a request."""
    return Caller(call.client_id or "", f"/{call.client.host}", call.version, may_describe)
