"""The versions of inter-broker requests, one table by `inter.broker.protocol.version`.

As in Kafka, only AlterPartition and AllocateProducerIds are negotiated. Other requests are sent in
the table's version, even as the first request on a new connection. All brokers of a cluster
therefore need the same setting.

Source: Kafka 3.9's MetadataVersion, and requests recorded between its brokers.
"""

from typing import Final, NamedTuple


class InterBrokerVersions(NamedTuple):
    """One version for each type of request."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    fetch: int
    fetch_by_name: int
    """For a Fetch with any topic that has no id."""
    list_offsets: int
    controlled_shutdown: int
    alter_partition: int
    """Negotiated: at most this."""
    alter_partition_by_name: int
    """For a request with any topic that has no id.  Negotiated: at most this."""
    allocate_producer_ids: int
    """Negotiated."""
    write_txn_markers: int
    add_partitions_to_txn: int


_3_9: Final = InterBrokerVersions(
    leader_and_isr=7,
    update_metadata=8,
    stop_replica=4,
    fetch=17,
    fetch_by_name=12,
    list_offsets=9,
    controlled_shutdown=3,
    alter_partition=3,
    alter_partition_by_name=1,
    allocate_producer_ids=0,
    write_txn_markers=1,
    add_partitions_to_txn=5,
)

BY_PROTOCOL_VERSION: Final = {"3.9": _3_9, "3.9-IV0": _3_9}
"""By `inter.broker.protocol.version`."""
