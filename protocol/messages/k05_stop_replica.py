"""StopReplica (API key 5): the controller makes a broker stop replicas, or delete them.

Source: StopReplicaRequest.json, StopReplicaResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string


class StopReplicaPartitionV0(Struct):
    """One replica."""

    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Struct):
    """Replicas of one topic."""

    name: str = string("1-2")
    partition_indexes: list[int] = array("int32", "1-2")


class StopReplicaPartitionState(Struct):
    """One replica, the epoch it was stopped in, and whether to delete its log."""

    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


class StopReplicaTopicState(Struct):
    """Replicas of one topic."""

    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


class StopReplicaRequest(Message, api_key=5, versions="0-4", flexible="2+"):
    """The replicas to stop; up to v2 all of them are deleted, or none."""

    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("4+", default=False)
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("1+", default=-1)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Struct):
    """The result for one replica."""

    topic_name: str = string("0+")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class StopReplicaResponse(Message, api_key=5, versions="0-4", flexible="2+"):
    """One code for each replica."""

    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+")
