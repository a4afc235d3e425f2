"""The znodes below /admin in which tools leave requests for the controller."""

from collections.abc import Mapping
from typing import Final

from ..coordination.json_fields import MalformedZnode, decode_object, encode_object
from ..core.partition_state import TopicPartition

REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"


def encode_reassignments(partitions: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """Encode /admin/reassign_partitions: the target replicas of each partition."""
    wanted = [
        {"topic": topic, "partition": partition, "replicas": replicas}
        for (topic, partition), replicas in partitions.items()
    ]
    return encode_object({"version": 1, "partitions": wanted})


def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Decode /admin/reassign_partitions.  Raises: MalformedZnode."""
    wanted = {}
    for fields in decode_object("reassignment", data).mappings("partitions"):
        replicas = fields.int32s("replicas")
        if not replicas or len(set(replicas)) < len(replicas):
            raise MalformedZnode(f"reassignment: replicas are {list(replicas)[:100]}")
        wanted[fields.text("topic"), fields.int32("partition")] = replicas
    return wanted


def encode_preferred_elections(partitions: list[TopicPartition]) -> bytes:
    """Encode /admin/preferred_replica_election."""
    asked = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode_object({"version": 1, "partitions": asked})


def decode_preferred_elections(data: bytes) -> list[TopicPartition]:
    """Decode /admin/preferred_replica_election.  Raises: MalformedZnode."""
    asked = decode_object("preferred replica election", data).mappings("partitions")
    return list(
        dict.fromkeys((fields.text("topic"), fields.int32("partition")) for fields in asked)
    )
