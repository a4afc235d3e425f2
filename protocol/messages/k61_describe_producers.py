"""DescribeProducers (API key 61): the producer state of partitions.

Source: DescribeProducersRequest.json, DescribeProducersResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, int64, string


class TopicRequest(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partition_indexes: list[int] = array("int32", "0+")


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    """The partitions whose producers to describe."""

    topics: list[TopicRequest] = array(TopicRequest, "0+")


class ProducerState(Struct):
    """A producer in the partition's producer state."""

    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState, "0+")


class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+")


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    """The producers, partition by partition."""

    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array(TopicResponse, "0+")
