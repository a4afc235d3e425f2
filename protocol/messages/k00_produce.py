"""Produce (API key 0): append record batches to partitions.

Source: ProduceRequest.json, ProduceResponse.json of Apache Kafka 3.9.2, v12 of 4.3.1.
"""

from ..schema import Message, Records, Struct, array, int16, int32, int64, records, string, struct


class PartitionProduceData(Struct):
    """The batch for one partition."""

    index: int = int32("0+")
    records: Records = records("0+", nullable="0+")


class TopicProduceData(Struct):
    """The batches for one topic."""

    name: str = string("0+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")


class ProduceRequest(Message, api_key=0, versions="0-12", flexible="9+"):
    """Append; `acks` is 0 (no response), 1 (leader) or -1 (in-sync replicas).

    v12 also adds the partitions to the transaction (KIP-890).
    """

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")

    def release(self) -> None:
        """Release the views of the records."""
        for topic in self.topic_data:
            for partition in topic.partition_data:
                if isinstance(partition.records, memoryview):
                    partition.records.release()


class BatchIndexAndErrorMessage(Struct):
    """A record because of which its batch was rejected."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    """The current leader, for a client that asked the wrong broker."""

    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    """The result for one batch."""

    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    """The results for the batches of one topic."""

    name: str = string("0+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    """The address of a leader named in this response."""

    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Message, api_key=0, versions="0-12", flexible="9+"):
    """One result per partition, in the order of the request."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
