"""UpdateMetadata (API key 6): the controller sends a broker the metadata for clients.

Source: UpdateMetadataRequest.json, UpdateMetadataResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class UpdateMetadataPartitionState(Struct):
    """Leader and replicas of one partition; `zk_version` is its epoch."""

    topic_name: str = string("0-4")
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("int32", "0+")
    zk_version: int = int32("0+")
    replicas: list[int] = array("int32", "0+")
    offline_replicas: list[int] = array("int32", "4+")


class UpdateMetadataTopicState(Struct):
    """The partitions of one topic that have changed."""

    topic_name: str = string("5+")
    topic_id: bytes = uuid("7+")
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Struct):
    """The address of one listener of a broker."""

    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+")
    security_protocol: int = int16("1+")


class UpdateMetadataBroker(Struct):
    """A live broker."""

    id: int = int32("0+")
    v0_host: str = string("0")
    v0_port: int = int32("0")
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+")
    rack: str | None = string("2+", nullable="0+")


class UpdateMetadataRequest(Message, api_key=6, versions="0-8", flexible="6+"):
    """All live brokers, and the changed partitions."""

    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("8+", default=False)
    type: int = int8("8+", default=0, tag=0, tagged="8+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker, "0+")


class UpdateMetadataResponse(Message, api_key=6, versions="0-8", flexible="6+"):
    """Whether the broker accepted the update."""

    error_code: int = int16("0+")
