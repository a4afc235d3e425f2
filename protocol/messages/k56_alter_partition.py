"""AlterPartition (API key 56): a leader has its in-sync replicas changed by the controller.

Source: AlterPartitionRequest.json, AlterPartitionResponse.json of Apache Kafka 3.9.2. Two pairs of
its structs share a name; the response's carry their message's name in front.
"""

from ..schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class BrokerState(Struct):
    """A replica that is to be in sync; -1: its epoch is not to be checked."""

    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class PartitionData(Struct):
    """The in-sync replicas that a leader wants, and the epochs that it knows."""

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
    """Changes that one leader asks for."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[TopicData] = array(TopicData, "0+")


class AlterPartitionResponsePartitionData(Struct):
    """What counts now, or why nothing was changed."""

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
    """What became of each change."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData, "0+")
