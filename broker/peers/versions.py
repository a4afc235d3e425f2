"""The versions in which brokers ask each other: one table by `inter.broker.protocol.version`.

As with Kafka none of them but AlterPartition and AllocateProducerIds is negotiated: the others are
sent as the table says, as the first request on a fresh connection. All brokers of a cluster
therefore need the same setting.

Source: the versions that Kafka 3.9's MetadataVersion gives; requests recorded between its brokers.
"""

from typing import Final, NamedTuple


class InterBrokerVersions(NamedTuple):
    """One version for each kind of request."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    fetch: int
    fetch_by_name: int
    """If any topic in it has no id."""
    list_offsets: int
    controlled_shutdown: int
    alter_partition: int
    """Negotiated: at most this."""
    alter_partition_by_name: int
    """If any topic in it has no id.  Negotiated: at most this."""
    allocate_producer_ids: int
    """Negotiated."""


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
)

BY_PROTOCOL_VERSION: Final = {"3.9": _3_9, "3.9-IV0": _3_9}
"""By `inter.broker.protocol.version`."""
