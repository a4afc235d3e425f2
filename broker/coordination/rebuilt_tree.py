"""Rebuilds a cluster's tree from its partition directories, when ZooKeeper and store are lost.

The directories hold topic ids, partition counts, leader epochs and producer ids, but no settings,
quotas, users or ACLs.  A topic whose settings are lost must not lose its records too: it gets
settings under which nothing is deleted.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.protocol.primitives import uuid_text

from ..core.topic_names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, is_topic_name
from . import znodes
from .plain_tree import named, with_parents
from .transfer import Transfer, TransferRefused

PRODUCER_IDS_IN_BLOCK: Final = 1000
PRODUCER_IDS_SKIPPED: Final = 1_000_000
"""Ids skipped above the highest one found: a producer that has an id but has written nothing
leaves no trace, and every broker start takes a new block."""
INTERNAL_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    GROUP_OFFSETS_TOPIC: {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
    },
    TRANSACTION_STATE_TOPIC: {
        "unclean.leader.election.enable": "false",
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
    },
}
"""The configs with which Kafka creates these topics, adapted to one replica."""

KEEP_ALL: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
TOPIC_ID_BYTES: Final = 16


class FoundPartition(NamedTuple):
    """A partition as found in its directory."""

    topic: str
    partition: int
    directory: str
    topic_id: bytes | None
    leader_epoch: int
    """The last leader epoch, or -1."""
    producer_id: int
    """The highest producer id, or -1."""


def rebuilt(
    found: Iterable[FoundPartition],
    *,
    broker_id: int,
    cluster_id: str,
    create_missing: bool,
    randbytes: Callable[[int], bytes],
) -> Transfer:
    """Build the tree of a cluster that consists of this one broker.

    `create_missing`: a partition without a directory, if a higher partition number exists, begins
    empty.  Raises: TransferRefused.
    """
    topics: dict[str, list[FoundPartition]] = defaultdict(list)
    for partition in found:
        topics[partition.topic].append(partition)
    warnings: list[str] = []
    missing = [name for topic in sorted(topics) for name in _missing(topic, topics[topic])]
    if missing and not create_missing:
        raise TransferRefused(
            f"partitions have no directory: {named(missing)}: bring them back, or let them begin "
            "empty with --create-missing"
        )
    if missing:
        warnings.append(f"partitions without a directory begin empty: {named(missing)}")
    nodes = {
        znodes.CLUSTER_ID: znodes.encode_cluster_id(cluster_id),
        znodes.CONTROLLER_EPOCH: znodes.encode_controller_epoch(0),
    }
    for topic in sorted(topics):
        nodes |= _topic_nodes(topic, topics[topic], broker_id, randbytes, warnings)
    highest = max((p.producer_id for ps in topics.values() for p in ps), default=-1)
    block = _block_with(highest + PRODUCER_IDS_SKIPPED, broker_id)
    nodes[znodes.PRODUCER_ID_BLOCK] = block.encode()
    warnings += _lost(sorted(set(topics) - set(INTERNAL_CONFIGS)))
    return Transfer(with_parents(nodes, znodes.STARTUP_PATHS), warnings)


def _missing(topic: str, partitions: list[FoundPartition]) -> list[str]:
    """The missing partitions.

    Raises: TransferRefused (a partition exists twice, or the name is no valid topic name).
    """
    if not is_topic_name(topic):
        raise TransferRefused(f"{partitions[0].directory} is not named after a topic")
    by_number: dict[int, FoundPartition] = {}
    for partition in partitions:
        other = by_number.setdefault(partition.partition, partition)
        if other is not partition:
            raise TransferRefused(
                f"partition {topic}-{partition.partition} is there twice: in {other.directory} and "
                f"in {partition.directory}"
            )
    return [f"{topic}-{n}" for n in range(max(by_number)) if n not in by_number]


def _topic_nodes(
    topic: str,
    partitions: list[FoundPartition],
    broker_id: int,
    randbytes: Callable[[int], bytes],
    warnings: list[str],
) -> dict[str, bytes]:
    topic_id = _topic_id(topic, partitions)
    if topic_id is None:
        topic_id = randbytes(TOPIC_ID_BYTES)
        warnings.append(f"no partition of {topic} names a topic id: it gets a new one")
    epochs = {p.partition: p.leader_epoch for p in partitions}
    count = max(epochs) + 1
    replicas = dict.fromkeys(range(count), (broker_id,))
    nodes = {
        znodes.topic_path(topic): znodes.TopicAssignment(replicas, topic_id).encode(),
        znodes.topic_config_path(topic): znodes.encode_config(
            INTERNAL_CONFIGS.get(topic, KEEP_ALL)
        ),
    }
    for partition in range(count):
        state = znodes.PartitionStateNode(
            leader=broker_id,
            leader_epoch=epochs.get(partition, -1) + 1,
            isr=(broker_id,),
            controller_epoch=0,
        )
        nodes[znodes.partition_state_path(topic, partition)] = state.encode()
    return nodes


def _topic_id(topic: str, partitions: list[FoundPartition]) -> bytes | None:
    """The id found in the directories.  Raises: TransferRefused if they differ."""
    known: FoundPartition | None = None
    for partition in partitions:
        if partition.topic_id is None:
            continue
        if known is not None and partition.topic_id != known.topic_id:
            raise TransferRefused(
                f"{known.directory} and {partition.directory} are of two topics of this name: "
                f"their ids are {uuid_text(known.topic_id or b'')} and "
                f"{uuid_text(partition.topic_id)}; take the wrong one out of the data directory"
            )
        known = known or partition
    return None if known is None else known.topic_id


def _block_with(producer_id: int, broker_id: int) -> znodes.ProducerIdBlock:
    """The block that contains an id, as the last allocated one."""
    first = producer_id - producer_id % PRODUCER_IDS_IN_BLOCK
    return znodes.ProducerIdBlock(broker_id, first, first + PRODUCER_IDS_IN_BLOCK - 1)


def _lost(topics: list[str]) -> list[str]:
    sentences = [
        "settings of brokers, quotas, users and ACLs cannot be found in the directories: "
        "set them again"
    ]
    if topics:
        sentences.append(
            "settings of topics are lost; to lose no record, these topics keep everything "
            "(cleanup.policy=delete, retention.ms=-1, retention.bytes=-1) until they are set: "
            + named(topics)
        )
    return sentences
