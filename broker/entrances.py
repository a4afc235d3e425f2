"""Entrances: more sockets on which the brokers' first listener accepts, for a while.

A test has an entrance of its own. When the next one is opened, it is closed, and a client that the
test has left running can't come back, whatever it does: it knows no other address, since brokers
name their addresses on the same entrance. In all else, such as security and limits, an entrance is
the listener.
"""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .member.metadata import ENTRANCE, Address

if TYPE_CHECKING:
    from .server import Broker

HOST: Final = "127.0.0.1"
_numbers = itertools.count(1)


async def open_entrance(brokers: "Mapping[int, Broker]", ports: Mapping[int, int]) -> None:
    """Open an entrance with a port for each broker; close the last one.  Raises: OSError."""
    name = f"{ENTRANCE}{next(_numbers)}"
    for number, broker in brokers.items():
        await broker.open_entrance(name, HOST, ports[number])
    for broker in brokers.values():
        broker.node.metadata.open_entrance(
            name, {number: Address(HOST, port) for number, port in ports.items()}
        )
