"""The few requests that the fixture needs, sent without any Kafka client installed."""

import contextlib
import time
from typing import Final

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse

from .access import ClientAccess
from .connection import Connection
from .door import AdminClient, NotFound
from .errors import BrokerFailed, hides
from .ready import Address

__tracebackhide__ = hides
# Of the versions since which no topic is created by being asked for, the one that all releases have
# which `odradek.compatibility` knows.
METADATA_VERSION: Final = 4


def delete_all_topics(admin: AdminClient, *, timeout_s: float) -> None:
    """Delete all topics, and return when the broker knows none.  Raises: BrokerFailed."""
    deadline_s = time.monotonic() + timeout_s
    while topics := admin.get("topics", internal=True)["topics"]:
        names = [topic["name"] for topic in topics]
        if time.monotonic() > deadline_s:  # a client that a test left behind creates them again
            raise BrokerFailed(f"topics do not go away: {', '.join(names)}")
        for name in names:
            with contextlib.suppress(NotFound):
                admin.delete("topics", name)


def read_metadata(address: Address, access: ClientAccess, *, timeout_s: float) -> MetadataResponse:
    """A broker's metadata of the brokers and of all topics.  Raises: OSError."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    with Connection(address, access, timeout_s=timeout_s) as connection:
        return connection.ask(request, METADATA_VERSION, MetadataResponse)
