"""A controller's requests, of all versions, as values; and the answers to them.

Partitions are iterators, so that those of a request that is refused are not made in vain.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.k05_stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from odradek.protocol.primitives import ZERO_UUID

from ..coordination.broker_registration import SECURITY_PROTOCOLS
from ..core.controller.requests import LEADER_EPOCH_UNKNOWN, StoppedReplica
from ..core.partition_state import PartitionState, TopicPartition
from .metadata import Address, BrokerInfo

DEFAULT_LISTENER: Final = "PLAINTEXT"
LOSS_ACCEPTED_TAG: Final = 20_001
"""A tagged field of a partition in LeaderAndIsr. It is Odradek's own; Apache's brokers ignore
unknown tags."""
UNKNOWN_UPDATE: Final = 0
"""The type of an UpdateMetadata that may omit what has not changed, as sent by Kafka's controllers
in ZooKeeper mode."""
FULL_UPDATE: Final = 2
"""The type of an UpdateMetadata that names every partition. Kafka's brokers honor it only if a
KRaft controller sends it."""
MORE_TO_COME_TAG: Final = 20_002
"""A tagged field of an UpdateMetadata that is followed by another one: it is not complete alone."""

Codes = Mapping[TopicPartition, ErrorCode]


class Sender(NamedTuple):
    """The sender of a control request, and the receiver's registration that it is meant for."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int = -1
    """-1: the sender does not know it, and it is not checked."""
    is_kraft: bool = False


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


def sender_of(request: ControlRequest) -> Sender:
    """The sender of a request."""
    return Sender(
        request.controller_id,
        request.controller_epoch,
        request.broker_epoch,
        request.is_k_raft_controller,
    )


def _told(
    request: LeaderAndIsrRequest | UpdateMetadataRequest,
) -> Iterator[tuple[str, bytes, Any]]:
    """The topic, its id and the state of each partition; older versions do not group by topic."""
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


# LeaderAndIsr.


def leader_and_isr_states(request: LeaderAndIsrRequest) -> Iterator[PartitionState]:
    """The partitions of a request of any version."""
    return (
        PartitionState(
            topic=name,
            topic_id=topic_id,
            partition=state.partition_index,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(state.isr),
            replicas=tuple(state.replicas),
            partition_epoch=state.partition_epoch,
            controller_epoch=state.controller_epoch,
            is_new=state.is_new,
            adding_replicas=tuple(state.adding_replicas),
            removing_replicas=tuple(state.removing_replicas),
            is_recovering=state.leader_recovery_state == 1,
            is_loss_accepted=LOSS_ACCEPTED_TAG in (state.tagged_fields or ()),
        )
        for name, topic_id, state in _told(request)
    )


def leader_and_isr_response(
    request: LeaderAndIsrRequest,
    code_of: Callable[[TopicPartition], ErrorCode | None],
    error_code: ErrorCode = ErrorCode.NONE,
) -> LeaderAndIsrResponse:
    """The answer in all versions: codes by topic id, and by name up to v4.

    `code_of` says None of a partition that the answer does not name.
    """
    response = LeaderAndIsrResponse(error_code=error_code)
    topics: dict[bytes, LeaderAndIsrTopicError] = {}
    for name, topic_id, state in _told(request):
        code = code_of((name, state.partition_index))
        if code is None:
            continue
        error = LeaderAndIsrPartitionError(
            topic_name=name, partition_index=state.partition_index, error_code=code
        )
        response.partition_errors.append(error)
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = LeaderAndIsrTopicError(topic_id=topic_id)
        topic.partition_errors.append(error)
    response.topics = list(topics.values())
    return response


# UpdateMetadata.


def update_metadata_states(request: UpdateMetadataRequest) -> Iterator[PartitionState]:
    """The partitions of a request of any version."""
    return (
        PartitionState(
            topic=name,
            topic_id=topic_id,
            partition=state.partition_index,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(state.isr),
            replicas=tuple(state.replicas),
            partition_epoch=state.zk_version,
            controller_epoch=state.controller_epoch,
            offline_replicas=tuple(state.offline_replicas),
        )
        for name, topic_id, state in _told(request)
    )


def live_brokers(request: UpdateMetadataRequest, version: int) -> list[BrokerInfo]:
    """The live brokers of a request of any version."""
    return [_broker_info(broker, version) for broker in request.live_brokers]


def _broker_info(broker: UpdateMetadataBroker, version: int) -> BrokerInfo:
    if version == 0:
        endpoints = {DEFAULT_LISTENER: Address(broker.v0_host, broker.v0_port)}
    else:
        endpoints = {
            _listener_of(endpoint, version): Address(
                endpoint.host, endpoint.port, endpoint.security_protocol
            )
            for endpoint in broker.endpoints
        }
    return BrokerInfo(broker.id, broker.rack or None, endpoints)


def _listener_of(endpoint: UpdateMetadataEndpoint, version: int) -> str:
    """The endpoint's listener; before version 3 it had the name of its security protocol."""
    if version >= 3:
        return endpoint.listener
    number = endpoint.security_protocol
    known = 0 <= number < len(SECURITY_PROTOCOLS)
    return SECURITY_PROTOCOLS[number] if known else DEFAULT_LISTENER


# StopReplica.


def stopped_replicas(request: StopReplicaRequest) -> Iterator[StoppedReplica]:
    """The replicas of a request of any version."""
    keys = [(one.topic_name, one.partition_index) for one in request.ungrouped_partitions]
    keys += [(topic.name, p) for topic in request.topics for p in topic.partition_indexes]
    for key in keys:
        yield StoppedReplica(*key, LEADER_EPOCH_UNKNOWN, request.delete_partitions)
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield StoppedReplica(
                topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition
            )


def stop_replica_response(
    codes: Codes, error_code: ErrorCode = ErrorCode.NONE
) -> StopReplicaResponse:
    """One code for each replica."""
    return StopReplicaResponse(
        error_code=error_code,
        partition_errors=[
            StopReplicaPartitionError(topic_name=topic, partition_index=partition, error_code=code)
            for (topic, partition), code in codes.items()
        ],
    )
