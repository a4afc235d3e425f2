"""The gauges of the replicas on this broker, by Kafka's names.

Source: the meters and gauges of ReplicaManager and Partition in Kafka 3.9.
"""

from collections.abc import Iterator, Mapping

from ..core.partition import Partition
from ..core.replica_status import Presence
from ..metrics.metrics import Gauge
from .replicas import Replicas


def replica_gauges(replicas: Replicas) -> Mapping[str, Gauge]:
    """The gauges by name; each is computed from all replicas when it is read."""

    def led() -> Iterator[Partition]:
        return (each for each in replicas.partitions.values() if each.is_leader)

    def count(found: Iterator[object]) -> int:
        return sum(1 for _ in found)

    return {
        "partition_count": lambda: len(replicas.partitions),
        "leader_count": lambda: count(led()),
        "under_replicated_partitions": lambda: count(
            each for each in led() if len(each.in_sync.isr) < len(each.state.replicas)
        ),
        "under_min_isr_partition_count": lambda: count(
            each for each in led() if len(each.in_sync.isr) < each.min_isr
        ),
        "offline_replica_count": lambda: count(
            replicas.statuses.where(Presence.OFFLINE, Presence.UNMADE)
        ),
        "offline_log_directory_count": lambda: (
            len(replicas.log_dirs.paths) - len(replicas.log_dirs.online)
        ),
    }
