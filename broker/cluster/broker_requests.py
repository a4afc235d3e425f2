"""Building LeaderAndIsr, UpdateMetadata and StopReplica requests from what procedures decide.

Large batches are split into requests of about PARTITIONS_MAX partitions, so that none keeps an
event loop busy for long. Replicas are unaffected, because each partition is handled by itself.
UpdateMetadata never splits a topic, however many partitions it has: clients would take the part
for the whole, and map keys and groups to partitions by a wrong partition count.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.k04_leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.k05_stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

from ..coordination.broker_registration import SECURITY_PROTOCOLS
from ..core.controller.context import LiveBroker
from ..core.controller.requests import BrokerRequests, StoppedReplica
from ..core.partition_state import PartitionState, TopicPartition
from ..member.control_messages import (
    FULL_UPDATE,
    LOSS_ACCEPTED_TAG,
    MORE_TO_COME_TAG,
    UNKNOWN_UPDATE,
    ControlRequest,
)

PARTITIONS_MAX: Final = 500

Errors = dict[TopicPartition, ErrorCode]
T = TypeVar("T", PartitionState, StoppedReplica)


class ActiveController(NamedTuple):
    """The controller that sends the requests."""

    controller_id: int
    controller_epoch: int
    listener_name: str
    """The inter-broker listener, for the live leaders in LeaderAndIsr."""


def build_requests(
    asked: BrokerRequests, sender: ActiveController, broker_epoch: int, live: Sequence[LiveBroker]
) -> Iterator[ControlRequest]:
    """Yield the requests for one broker, in order; each is built only when it is needed."""
    for states in _slices(asked.leader_and_isr):
        yield _leader_and_isr(states, sender, broker_epoch, live)
    if asked.update_metadata is not None:
        brokers = [_live_broker(broker) for broker in live]
        slices = _slices(asked.update_metadata, cut_topics=False) or [[]]
        for number, states in enumerate(slices, 1):
            request = UpdateMetadataRequest(
                type=FULL_UPDATE if asked.is_full else UNKNOWN_UPDATE,
                controller_id=sender.controller_id,
                controller_epoch=sender.controller_epoch,
                broker_epoch=broker_epoch,
                topic_states=_updated_topics(states),
                live_brokers=brokers,
            )
            if number < len(slices):
                request.tagged_fields = {MORE_TO_COME_TAG: b""}
            yield request
    for replicas in _slices(asked.stop_replicas):
        yield StopReplicaRequest(
            controller_id=sender.controller_id,
            controller_epoch=sender.controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=_stopped_topics(replicas),
        )


def _slices(items: Sequence[T], *, cut_topics: bool = True) -> list[list[T]]:
    """Slices of up to PARTITIONS_MAX; without `cut_topics` a larger topic stays whole."""
    slices: list[list[T]] = []
    for of_topic in _by_topic(items).values():
        if slices and len(slices[-1]) + len(of_topic) <= PARTITIONS_MAX:
            slices[-1] += of_topic
            continue
        size = PARTITIONS_MAX if cut_topics else len(of_topic)
        slices += [of_topic[at : at + size] for at in range(0, len(of_topic), size)]
    return slices


def _by_topic(items: Iterable[T]) -> dict[str, list[T]]:
    topics: dict[str, list[T]] = {}
    for item in items:
        topics.setdefault(item.topic, []).append(item)
    return topics


# --- LeaderAndIsr


def _leader_and_isr(
    states: Sequence[PartitionState],
    sender: ActiveController,
    broker_epoch: int,
    live: Sequence[LiveBroker],
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=of_topic[0].topic_id,
                partition_states=[_role(state) for state in of_topic],
            )
            for topic, of_topic in _by_topic(states).items()
        ],
        live_leaders=list(_live_leaders(states, sender.listener_name, live)),
    )


def _role(state: PartitionState) -> LeaderAndIsrPartitionState:
    role = LeaderAndIsrPartitionState(
        partition_index=state.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
        is_new=state.is_new,
        leader_recovery_state=int(state.is_recovering),
    )
    if state.is_loss_accepted:
        role.tagged_fields = {LOSS_ACCEPTED_TAG: b""}
    return role


def _live_leaders(
    states: Iterable[PartitionState], listener_name: str, live: Sequence[LiveBroker]
) -> Iterator[LeaderAndIsrLiveLeader]:
    leaders = {state.leader for state in states}
    for broker in live:
        if broker.broker_id not in leaders:
            continue
        for endpoint in broker.endpoints:
            if endpoint.listener_name == listener_name:
                yield LeaderAndIsrLiveLeader(
                    broker_id=broker.broker_id, host_name=endpoint.host, port=endpoint.port
                )
                break


def leader_and_isr_errors(request: LeaderAndIsrRequest, response: LeaderAndIsrResponse) -> Errors:
    """The error code of each partition; empty if the broker refused the whole request."""
    if response.error_code:
        return {}
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    return {
        (names[topic.topic_id], partition.partition_index): error_code(partition.error_code)
        for topic in response.topics
        if topic.topic_id in names
        for partition in topic.partition_errors
    }


# --- UpdateMetadata


def _updated_topics(states: Iterable[PartitionState]) -> list[UpdateMetadataTopicState]:
    return [
        UpdateMetadataTopicState(
            topic_name=topic,
            topic_id=of_topic[0].topic_id,
            partition_states=[_metadata(state) for state in of_topic],
        )
        for topic, of_topic in _by_topic(states).items()
    ]


def _metadata(state: PartitionState) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=state.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(state.replicas),
        offline_replicas=list(state.offline_replicas),
    )


def _live_broker(broker: LiveBroker) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(
            port=endpoint.port,
            host=endpoint.host,
            listener=endpoint.listener_name,
            security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
        )
        for endpoint in broker.endpoints
    ]
    return UpdateMetadataBroker(id=broker.broker_id, endpoints=endpoints, rack=broker.rack)


# --- StopReplica


def _stopped_topics(replicas: Iterable[StoppedReplica]) -> list[StopReplicaTopicState]:
    return [
        StopReplicaTopicState(
            topic_name=topic,
            partition_states=[
                StopReplicaPartitionState(
                    partition_index=replica.partition,
                    leader_epoch=replica.leader_epoch,
                    delete_partition=replica.delete,
                )
                for replica in of_topic
            ],
        )
        for topic, of_topic in _by_topic(replicas).items()
    ]


def deletion_errors(request: StopReplicaRequest, response: StopReplicaResponse) -> Errors:
    """The error code of each replica to delete; replicas that are not in the answer are missing."""
    refused = error_code(response.error_code)
    told = {
        (error.topic_name, error.partition_index): error_code(error.error_code)
        for error in response.partition_errors
    }
    asked = [
        (topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    ]
    if refused:
        return dict.fromkeys(asked, refused)
    return {key: told[key] for key in asked if key in told}
