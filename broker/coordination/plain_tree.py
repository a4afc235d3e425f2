"""A tree as a mapping of paths to data: what is in it, and how to make one of another.

Persistent nodes only, but for the registrations of brokers where a tree was read from ZooKeeper.
A node with null data and one with empty data are the same.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from . import znodes
from .interface import Create, Delete, Set
from .json_fields import MalformedZnode
from .paths import split_path

T = TypeVar("T")
Nodes = Mapping[str, bytes]
Change = Create | Set | Delete
NAMED_MAX: Final = 20


def is_below(path: str, tops: Collection[str]) -> bool:
    """Whether a node is one of `tops` or lies below one."""
    while path != "/":
        if path in tops:
            return True
        path = split_path(path)[0]
    return False


def children_of(nodes: Nodes, parent: str) -> list[str]:
    """The names of a node's children, sorted."""
    start = f"{parent}/"
    below = (path[len(start) :] for path in nodes if path.startswith(start))
    return sorted({path.partition("/")[0] for path in below})


def with_parents(nodes: Nodes, roots: Collection[str] = ()) -> dict[str, bytes]:
    """The nodes, `roots`, and whatever node these need above them."""
    complete = dict(nodes)
    for path in (*nodes, *roots):
        while path != "/" and complete.setdefault(path, b"") is not None:
            path = split_path(path)[0]
    return complete


def differences(there: Nodes, nodes: Nodes, *, tops: Collection[str]) -> list[Change]:
    """What makes `nodes` of `there`, in order; nodes that are not below `tops` are not deleted."""
    ops: list[Change] = []
    cluster = split_path(znodes.CLUSTER_ID)[0]
    # The cluster's id first: half a tree is then known for what it is.
    for path in sorted(nodes, key=lambda path: (not is_below(path, (cluster,)), path)):
        if path not in there:
            ops.append(Create(path, nodes[path]))
        elif there[path] != nodes[path]:
            ops.append(Set(path, nodes[path]))
    gone = [path for path in there if path not in nodes and is_below(path, tops)]
    return ops + [Delete(path) for path in sorted(gone, reverse=True)]


# A cluster's nodes.


def has_cluster(nodes: Nodes) -> bool:
    """Whether there is a cluster, or what looks like the rest of one."""
    return znodes.CLUSTER_ID in nodes or bool(topics_of(nodes))


def topics_of(nodes: Nodes) -> list[str]:
    """The names of all topics, sorted."""
    return children_of(nodes, znodes.BROKER_TOPICS)


def assignment_of(nodes: Nodes, topic: str) -> znodes.TopicAssignment:
    """The replicas of a topic.  Raises: MalformedZnode."""
    return decoded(nodes, znodes.topic_path(topic), znodes.TopicAssignment.decode)


def state_of(nodes: Nodes, topic: str, partition: int) -> znodes.PartitionStateNode | None:
    """Leader and in-sync replicas of a partition, if it has ever had some.

    Raises: MalformedZnode.
    """
    path = znodes.partition_state_path(topic, partition)
    return decoded(nodes, path, znodes.PartitionStateNode.decode) if nodes.get(path) else None


def controller_epoch_of(nodes: Nodes) -> int:
    """How often a controller was elected.  Raises: MalformedZnode."""
    data = nodes.get(znodes.CONTROLLER_EPOCH)
    return znodes.decode_controller_epoch(data) if data else 0


def producer_id_block_of(nodes: Nodes) -> znodes.ProducerIdBlock | None:
    """The block of producer ids that was handed out last.  Raises: MalformedZnode."""
    data = nodes.get(znodes.PRODUCER_ID_BLOCK)
    return znodes.ProducerIdBlock.decode(data) if data else None


def decoded(nodes: Nodes, path: str, decode: Callable[[bytes], T]) -> T:
    """A node's value.  Raises: MalformedZnode, which names the path."""
    try:
        return decode(nodes[path])
    except MalformedZnode as error:
        raise MalformedZnode(f"{path}: {error}") from error


def named(names: Collection[object]) -> str:
    """Names in a sentence; of many, the first ones."""
    shown = [str(name) for name in list(names)[:NAMED_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
