"""LeaderAndIsr (API key 4): the controller tells a broker which replicas it leads and follows.

Source: LeaderAndIsrRequest.json, LeaderAndIsrResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class LeaderAndIsrPartitionState(Struct):
    """The controller's decision about one partition."""

    topic_name: str = string("0-1")
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("int32", "0+")
    partition_epoch: int = int32("0+")
    replicas: list[int] = array("int32", "0+")
    adding_replicas: list[int] = array("int32", "3+")
    removing_replicas: list[int] = array("int32", "3+")
    is_new: bool = boolean("1+", default=False)
    leader_recovery_state: int = int8("6+", default=0)


class LeaderAndIsrTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = string("2+")
    topic_id: bytes = uuid("5+")
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    """The address of a leader."""

    broker_id: int = int32("0+")
    host_name: str = string("0+")
    port: int = int32("0+")


class LeaderAndIsrRequest(Message, api_key=4, versions="0-7", flexible="4+"):
    """Partitions of one broker; up to v1 each with its topic's name, then by topic."""

    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("7+", default=False)
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1"
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader, "0+")


class LeaderAndIsrPartitionError(Struct):
    """The result for one partition."""

    topic_name: str = string("0-4")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class LeaderAndIsrTopicError(Struct):
    """The partitions of one topic."""

    topic_id: bytes = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


class LeaderAndIsrResponse(Message, api_key=4, versions="0-7", flexible="4+"):
    """One code for each partition; from v5 on by topic id."""

    error_code: int = int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")
