"""A tree of nodes as a mapping from paths to data: queries, and the changes between two trees.

It holds persistent nodes; a tree read from ZooKeeper also has ephemeral ones, such as broker
registrations. Null data and empty data are not distinguished.
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
    """The nodes, `roots`, and all parents that these need."""
    complete = dict(nodes)
    for path in (*nodes, *roots):
        while path != "/" and complete.setdefault(path, b"") is not None:
            path = split_path(path)[0]
    return complete


def differences(there: Nodes, nodes: Nodes, *, tops: Collection[str]) -> list[Change]:
    """The changes from `there` to `nodes`, in order; only nodes below `tops` are deleted."""
    ops: list[Change] = []
    cluster = split_path(znodes.CLUSTER_ID)[0]
    # The cluster's id comes first, so that an incomplete tree can be recognized.
    for path in sorted(nodes, key=lambda path: (not is_below(path, (cluster,)), path)):
        if path not in there:
            ops.append(Create(path, nodes[path]))
        elif there[path] != nodes[path]:
            ops.append(Set(path, nodes[path]))
    gone = [path for path in there if path not in nodes and is_below(path, tops)]
    return ops + [Delete(path) for path in sorted(gone, reverse=True)]


# Queries on a cluster's nodes.


def has_cluster(nodes: Nodes) -> bool:
    """Whether there is a cluster, or a remnant of one."""
    return znodes.CLUSTER_ID in nodes or bool(topics_of(nodes))


def topics_of(nodes: Nodes) -> list[str]:
    """The names of all topics, sorted."""
    return children_of(nodes, znodes.BROKER_TOPICS)


def assignment_of(nodes: Nodes, topic: str) -> znodes.TopicAssignment:
    """The assignment of a topic.  Raises: MalformedZnode."""
    return decoded(nodes, znodes.topic_path(topic), znodes.TopicAssignment.decode)


def state_of(nodes: Nodes, topic: str, partition: int) -> znodes.PartitionStateNode | None:
    """The state of a partition; None if it has never had a leader.

    Raises: MalformedZnode.
    """
    path = znodes.partition_state_path(topic, partition)
    return decoded(nodes, path, znodes.PartitionStateNode.decode) if nodes.get(path) else None


def controller_epoch_of(nodes: Nodes) -> int:
    """The controller epoch; 0 if there is none.  Raises: MalformedZnode."""
    data = nodes.get(znodes.CONTROLLER_EPOCH)
    return znodes.decode_controller_epoch(data) if data else 0


def producer_id_block_of(nodes: Nodes) -> znodes.ProducerIdBlock | None:
    """The last allocated block of producer ids.  Raises: MalformedZnode."""
    data = nodes.get(znodes.PRODUCER_ID_BLOCK)
    return znodes.ProducerIdBlock.decode(data) if data else None


def decoded(nodes: Nodes, path: str, decode: Callable[[bytes], T]) -> T:
    """Decode a node's value.  Raises: MalformedZnode, which names the path."""
    try:
        return decode(nodes[path])
    except MalformedZnode as error:
        raise MalformedZnode(f"{path}: {error}") from error


def named(names: Collection[object]) -> str:
    """Format names for a sentence; only the first NAMED_MAX are listed."""
    shown = [str(name) for name in list(names)[:NAMED_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
