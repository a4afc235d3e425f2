"""Requests of controllers of all ages, as values."""

import pytest

from odradek.broker.core.controller.requests import StoppedReplica
from odradek.broker.member.control_messages import (
    Sender,
    leader_and_isr_response,
    leader_and_isr_states,
    live_brokers,
    sender_of,
    stop_replica_response,
    stopped_replicas,
    update_metadata_states,
)
from odradek.broker.member.metadata import Address, BrokerInfo
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.k05_stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.primitives import ZERO_UUID

ID = bytes(range(16))


def lead(version: int) -> LeaderAndIsrRequest:
    """As it arrives."""
    state = LeaderAndIsrPartitionState(
        topic_name="t",
        partition_index=3,
        controller_epoch=4,
        leader=2,
        leader_epoch=5,
        partition_epoch=6,
        adding_replicas=[2],
        removing_replicas=[1],
        is_new=True,
        leader_recovery_state=1,
        isr=[1, 2],
        replicas=[2, 1],
    )
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=ID, partition_states=[state])
    request = LeaderAndIsrRequest(
        controller_id=7,
        controller_epoch=8,
        broker_epoch=9,
        ungrouped_partition_states=[state],
        topic_states=[topic],
    )
    return LeaderAndIsrRequest.decode(bytes(request.encode(version)), version)[0]


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr(version: int) -> None:
    request = lead(version)
    assert sender_of(request) == Sender(7, 8, 9 if version >= 2 else -1)
    (state,) = leader_and_isr_states(request)
    assert state.key == ("t", 3)
    assert state.topic_id == (ID if version >= 5 else ZERO_UUID)
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 5, 6)
    assert (state.isr, state.replicas, state.controller_epoch) == ((1, 2), (2, 1), 4)
    assert state.is_new == (version >= 1)
    moved = (state.adding_replicas, state.removing_replicas)
    assert moved == (((2,), (1,)) if version >= 3 else ((), ()))
    assert state.is_recovering == (version >= 6)
    code = ErrorCode.INCONSISTENT_TOPIC_ID
    answer = leader_and_isr_response(request, {state.key: code}.get)
    decoded, _ = LeaderAndIsrResponse.decode(bytes(answer.encode(version)), version)
    if version < 5:
        (error,) = decoded.partition_errors
        assert error.topic_name == "t"
    else:
        (topic,) = decoded.topics
        assert topic.topic_id == ID
        (error,) = topic.partition_errors
    assert (error.partition_index, error.error_code) == (3, code)


@pytest.mark.parametrize("version", range(5))
def test_stop_replica(version: int) -> None:
    state = StopReplicaPartitionState(partition_index=3, leader_epoch=5, delete_partition=True)
    request = StopReplicaRequest(
        broker_epoch=9,
        delete_partitions=True,
        ungrouped_partitions=[StopReplicaPartitionV0(topic_name="t", partition_index=3)],
        topics=[StopReplicaTopicV1(name="t", partition_indexes=[3])],
        topic_states=[StopReplicaTopicState(topic_name="t", partition_states=[state])],
    )
    decoded, _ = StopReplicaRequest.decode(bytes(request.encode(version)), version)
    assert sender_of(decoded).broker_epoch == (9 if version >= 1 else -1)
    epoch = 5 if version >= 3 else -1
    assert list(stopped_replicas(decoded)) == [StoppedReplica("t", 3, epoch, True)]
    (error,) = stop_replica_response({("t", 3): ErrorCode.FENCED_LEADER_EPOCH}).partition_errors
    assert (error.topic_name, error.partition_index, error.error_code) == ("t", 3, 74)


@pytest.mark.parametrize("version", range(9))
def test_update_metadata(version: int) -> None:
    state = UpdateMetadataPartitionState(
        topic_name="t",
        partition_index=3,
        controller_epoch=4,
        leader=2,
        leader_epoch=5,
        zk_version=6,
        offline_replicas=[1],
        isr=[1, 2],
        replicas=[2, 1],
    )
    endpoint = UpdateMetadataEndpoint(port=9, host="h", listener="INSIDE", security_protocol=2)
    request = UpdateMetadataRequest(
        ungrouped_partition_states=[state],
        topic_states=[
            UpdateMetadataTopicState(topic_name="t", topic_id=ID, partition_states=[state])
        ],
        live_brokers=[
            UpdateMetadataBroker(id=1, v0_host="h", v0_port=9, endpoints=[endpoint], rack="r")
        ],
    )
    decoded, _ = UpdateMetadataRequest.decode(bytes(request.encode(version)), version)
    (read,) = update_metadata_states(decoded)
    assert read.topic_id == (ID if version >= 7 else ZERO_UUID)
    assert (read.key, read.leader, read.leader_epoch, read.partition_epoch) == (("t", 3), 2, 5, 6)
    assert (read.isr, read.replicas) == ((1, 2), (2, 1))
    assert read.offline_replicas == ((1,) if version >= 4 else ())
    name = "PLAINTEXT" if version == 0 else "SASL_PLAINTEXT" if version < 3 else "INSIDE"
    address = Address("h", 9, 2 if version else 0)
    expected = BrokerInfo(1, "r" if version >= 2 else None, {name: address})
    assert live_brokers(decoded, version) == [expected]
