"""A small cluster's tree, as an embedded store holds it or as Kafka leaves it in ZooKeeper."""

from typing import Final

from odradek.broker.coordination import znodes
from odradek.broker.coordination.plain_tree import with_parents
from odradek.broker.coordination.znodes import (
    PartitionStateNode,
    ProducerIdBlock,
    TopicAssignment,
    encode_cluster_id,
    encode_config,
)

CLUSTER_ID: Final = "b2RyYWRlay10ZXN0cy0wMQ"
TOPIC_ID: Final = bytes(range(16))


def topic_nodes(
    name: str,
    replicas: dict[int, tuple[int, ...]],
    *,
    isr: tuple[int, ...] | None = None,
    config: dict[str, str] | None = None,
    leader_epoch: int = 3,
) -> dict[str, bytes]:
    """A topic whose partitions are led by their first replicas."""
    nodes = {
        znodes.topic_path(name): TopicAssignment(replicas, TOPIC_ID).encode(),
        znodes.topic_config_path(name): encode_config(config or {}),
    }
    for partition, assigned in replicas.items():
        state = PartitionStateNode(assigned[0], leader_epoch, isr or assigned, 7)
        nodes[znodes.partition_state_path(name, partition)] = state.encode()
    return nodes


def cluster(*topics: dict[str, bytes], controller_epoch: int = 7) -> dict[str, bytes]:
    """A cluster of these topics, with something of every kind."""
    nodes = {
        znodes.CLUSTER_ID: encode_cluster_id(CLUSTER_ID),
        znodes.CONTROLLER_EPOCH: znodes.encode_controller_epoch(controller_epoch),
        znodes.PRODUCER_ID_BLOCK: ProducerIdBlock(0, 2000, 2999).encode(),
        znodes.broker_config_path(None): encode_config({"log.retention.ms": "1"}),
        "/config/users/u%20ser/clients/%2A": encode_config({"producer_byte_rate": "9"}),
        "/config/clients/<default>": encode_config({"consumer_byte_rate": "8"}),
    }
    for topic in topics:
        nodes |= topic
    return with_parents(nodes, znodes.STARTUP_PATHS)
