"""ConsumerGroupHeartbeat: checks of the request itself, the member it describes, the response."""

from dataclasses import replace
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

from ..effects import Caller
from .consumer_member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerMember
from .consumer_reconcile import Owned
from .settings import ConsumerSettings

OWN_MEMBER_ID_VERSION_FIRST: Final = 1


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, settings: ConsumerSettings
) -> None:
    """Check what does not depend on the group.  Raises: Refused."""
    named = version >= OWN_MEMBER_ID_VERSION_FIRST or request.member_epoch > JOIN_EPOCH
    if named or request.member_epoch == LEAVE_EPOCH:
        _refuse_empty(request.member_id, "MemberId")
    _refuse_empty(request.group_id, "GroupId")
    _refuse_empty(request.instance_id, "InstanceId")
    _refuse_empty(request.rack_id, "RackId")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid_request("Only a member with an InstanceId leaves with epoch -2.")
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise _invalid_request(f"MemberEpoch {request.member_epoch} is not one.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.assignors:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor[:200]} is not supported; these are: "
            f"{', '.join(settings.assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid_request("A member that joins must give its RebalanceTimeoutMs.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid_request("A member that joins must own no TopicPartitions.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid_request(
            "A member that joins must give SubscribedTopicNames or a SubscribedTopicRegex."
        )


def _refuse_empty(text: str | None, name: str) -> None:
    # Java's trim() also removes control characters.
    if text is not None and all(character <= " " for character in text):
        raise _invalid_request(f"{name} must not be empty.")


def _invalid_request(detail: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, detail)


def is_full_request(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, so that the response must have the assignment."""
    if request.member_epoch == JOIN_EPOCH:
        return True
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    owns = request.topic_partitions is not None
    return request.rebalance_timeout_ms != -1 and subscribes and owns


def updated_member(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """The member updated from the request; null fields change nothing."""
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=_given(request.instance_id, member.instance_id),
        rack_id=_given(request.rack_id, member.rack_id),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_given(request.server_assignor, member.server_assignor),
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else frozenset(names)
        ),
        subscribed_topic_regex=_given(
            request.subscribed_topic_regex, member.subscribed_topic_regex
        ),
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _given(new: str | None, old: str | None) -> str | None:
    return old if new is None else new


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """The partitions that the member reports as owned; None if it does not report them."""
    if request.topic_partitions is None:
        return None
    return {
        (topic.topic_id, partition)
        for topic in request.topic_partitions
        for partition in topic.partitions
    }


def answer_to(
    member: ConsumerMember, settings: ConsumerSettings, *, with_assignment: bool
) -> ConsumerGroupHeartbeatResponse:
    """The response to a member's heartbeat."""
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
    )
    if with_assignment:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
                for topic_id, epochs in sorted(member.assigned.items())
            ]
        )
    return response


def refusal(code: ErrorCode, detail: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """The response with an error."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=detail)
