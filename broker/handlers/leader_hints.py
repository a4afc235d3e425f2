"""The leaders' ids and addresses, for clients that asked the wrong broker (KIP-951)."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ..node import Node

EndpointT = TypeVar("EndpointT")


def current_leader(node: "Node", topic: str, partition: int) -> tuple[int, int]:
    """The leader's id and epoch as this broker knows them, or -1 and -1.

    A replica learns of a new leader before the metadata shows it.
    """
    replica = node.replicas.partitions.get((topic, partition))
    state = node.metadata.partition(topic, partition) if replica is None else replica.state
    return (-1, -1) if state is None else (state.leader, state.leader_epoch)


def endpoints(
    node: "Node", leaders: Iterable[int], listener_name: str, make: Callable[..., EndpointT]
) -> list[EndpointT]:
    """The addresses, on this listener, of the leaders that are alive."""
    found = []
    for leader in sorted(set(leaders)):
        broker = node.metadata.brokers.get(leader)
        endpoint: Any = None if broker is None else broker.endpoints.get(listener_name)
        if broker is not None and endpoint is not None:
            made = make(node_id=leader, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            found.append(made)
    return found
