"""Version negotiation with a broker that may run another release."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from odradek import __version__
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.schema import Message, Versions

from .connection import PeerFailed

VERSION = 4
"""The version of ApiVersions that Kafka 3.9's brokers send."""


class Negotiated(NamedTuple):
    """The versions that the other broker serves, by API key."""

    ranges: dict[int, Versions]

    def version_for(self, request: Message, wanted: int) -> int:
        """`wanted`, or the highest version below it that the other serves.  Raises: PeerFailed."""
        served = self.ranges.get(request.API_KEY, Versions.parse("none"))
        version = min(wanted, served.last)
        if version not in served or version not in request.VERSIONS:
            name = type(request).__name__.removesuffix("Request")
            raise PeerFailed(f"does not serve {name} {wanted} or an earlier version that we speak")
        return version


async def negotiate(ask: Callable[[Message, int], Awaitable[Message]]) -> Negotiated:
    """Ask the other broker for its versions.  Raises: PeerFailed."""
    request = ApiVersionsRequest(
        client_software_name="odradek", client_software_version=__version__
    )
    answer = await ask(request, VERSION)
    assert isinstance(answer, ApiVersionsResponse)
    if answer.error_code:
        raise PeerFailed(f"refuses ApiVersions {VERSION} with {answer.error_code}")
    return Negotiated(
        {key.api_key: Versions(key.min_version, key.max_version) for key in answer.api_keys}
    )
