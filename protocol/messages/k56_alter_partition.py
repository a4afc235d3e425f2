"""AlterPartition (API key 56): a leader asks the controller to change its ISR.

Source: AlterPartitionRequest.json, AlterPartitionResponse.json of Apache Kafka 3.9.2. Two pairs of
its structs share a name; the response's carry their message's name in front.
"""

from ..schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class BrokerState(Struct):
    """A member of the new ISR; -1: do not check its epoch."""

    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class PartitionData(Struct):
    """The new ISR that a leader asks for, and the epochs that it knows."""

    partition_index: int = int32("0+")
    leader_epoch: int = int32("0+")
    new_isr: list[int] = array("int32", "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32("0+")


class TopicData(Struct):
    """Partitions of one topic; by id from v2 on."""

    topic_name: str = string("0-1")
    topic_id: bytes = uuid("2+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


class AlterPartitionRequest(Message, api_key=56, versions="0-3", flexible="0+"):
    """The changes that one leader asks for."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[TopicData] = array(TopicData, "0+")


class AlterPartitionResponsePartitionData(Struct):
    """The partition's current state, or why it was not changed."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("int32", "0+")
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32("0+")


class AlterPartitionResponseTopicData(Struct):
    """Partitions of one topic."""

    topic_name: str = string("0-1")
    topic_id: bytes = uuid("2+")
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData, "0+"
    )


class AlterPartitionResponse(Message, api_key=56, versions="0-3", flexible="0+"):
    """One result per partition, topic by topic."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData, "0+")
