"""JoinGroup from a member with the classic protocol, to a consumer group with members.

It acts as a full heartbeat. The subscription embedded in it holds the topics and the partitions
that the member still owns, and so shows what it has revoked. The generation in the response is the
member's epoch. There is no leader, and no member waits for the others.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from odradek.protocol.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.group_records.consumer import ClassicMemberMetadata, ClassicProtocol
from odradek.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse

from ..coordinator_codes import coordinator_code_of
from ..effects import Answer, Caller, Effect, Reply
from .classic_answers import join_refused
from .classic_joining import Joining
from .classic_records import CONSUMER
from .consumer import ConsumerGroup
from .consumer_lookup import check_size, static_member
from .consumer_member import ConsumerMember
from .consumer_patterns import PatternChange, put_pattern
from .consumer_reconcile import Owned
from .consumer_state import Draft, GroupState, Timer
from .consumer_steps import (
    Terms,
    move_member,
    put_member,
    replace_member,
    update_epoch,
    why_rebalance,
)
from .embedded import read_subscription
from .group import TopicsImage
from .migration import Migration


def join(
    group: ConsumerGroup,
    migration: Migration,
    request: JoinGroupRequest,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    wall_ms: int,
) -> Sequence[Effect]:
    """A member with the classic protocol joins, or joins again."""
    joining = Joining.read(request, caller, reply)
    try:
        member_id = joining.member_id or migration.new_member_id()
        _check_join(group.state, migration, joining, member_id)
        if joining.is_to_get_an_id:
            code = ErrorCode.MEMBER_ID_REQUIRED
            return [Answer(reply, join_refused(caller.version, code, member_id))]
        return _join(group, migration, joining, member_id, now_ms, wall_ms)
    except Refused as refused:
        return [Answer(reply, _join_refused(refused.code, joining))]


def _check_join(state: GroupState, migration: Migration, joining: Joining, member_id: str) -> None:
    """Raises: Refused."""
    settings = migration.settings(state.group_id)
    classic, consumer = settings.classic, settings.consumer
    if not classic.allows_session(joining.session_timeout_ms):
        raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
    if consumer.migration_policy == "disabled":
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The migration is disabled.")
    check_size(state, consumer, member_id)
    if joining.protocol_type != CONSUMER or not _shares_protocol(state, joining):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "No protocol in common.")


def _shares_protocol(state: GroupState, joining: Joining) -> bool:
    """Whether it supports a protocol of all classic members (including its own former entry)."""
    supporters: Counter[str] = Counter()
    if state.classic_count:
        for member in state.members.values():
            if member.classic is not None:
                supporters.update({one.name for one in member.classic.supported_protocols})
    return any(supporters[name] == state.classic_count for name, _ in joining.protocols)


def _join(
    group: ConsumerGroup,
    migration: Migration,
    joining: Joining,
    member_id: str,
    now_ms: int,
    wall_ms: int,
) -> Sequence[Effect]:
    """Raises: Refused."""
    draft, terms = Draft(group.state), group.terms(wall_ms)
    held = group.state.static_member(joining.instance_id)
    before = _member_of(draft, joining, held, member_id)
    subscription = _subscription(joining)
    after = _updated(before, joining, subscription)
    names_changed = put_member(draft, after)
    pattern = put_pattern(draft, before.subscribed_topic_regex, after.subscribed_topic_regex)
    changed = names_changed or pattern is not PatternChange.NONE
    why = why_rebalance(group.state, member_id) if changed else None
    owned = _owned(subscription, terms.topics)
    if migration.may_replace_last(group.state, held):
        effects = _join_downgraded(
            group, migration, joining, draft, terms, after, owned, now_ms, why=why
        )
        if effects is not None:
            return effects
    group.update_assignment(draft, terms, why=why)
    member = move_member(draft, terms, member_id, owned, subscription_changed=changed)
    draft.time(Timer.JOIN, member_id, None)
    draft.time(Timer.SESSION, member_id, joining.session_timeout_ms)
    draft.time(Timer.SYNC, member_id, joining.rebalance_timeout_ms)

    def finish(code: ErrorCode) -> Sequence[Effect]:
        answer = _join_answer(code, member, joining)
        if code is not ErrorCode.NONE:
            return [answer]
        return [answer, *group.resolve(joining.caller, now_ms, wall_ms)]

    return group.commit(draft, finish, now_ms)


def _join_downgraded(
    group: ConsumerGroup,
    migration: Migration,
    joining: Joining,
    draft: Draft,
    terms: Terms,
    after: ConsumerMember,
    owned: Owned,
    now_ms: int,
    *,
    why: str | None,
) -> Sequence[Effect] | None:
    """Downgrade the group: its last member with the new protocol returns with the classic one.

    Returns None if the group can't be converted.
    """
    update_epoch(draft, terms, why=why)
    member, rebalance = after, "downgraded with an assignment that was not up to date"
    is_stale = draft.state.assignment_epoch < draft.state.group_epoch
    if not is_stale:
        changed = why is not None
        member = move_member(draft, terms, after.member_id, owned, subscription_changed=changed)
    return migration.convert(
        group,
        draft,
        list(draft.state.members.values()),
        lambda code: [_join_answer(code, member, joining)],
        now_ms,
        terms.wall_ms,
        rebalance=rebalance if is_stale else None,
    )


def _member_of(
    draft: Draft, joining: Joining, held: ConsumerMember | None, member_id: str
) -> ConsumerMember:
    """The member in its state before the request; a static one may replace an earlier one.

    Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID).
    """
    instance_id = joining.instance_id
    if instance_id is not None and joining.member_id:
        return static_member(draft.state, instance_id, joining.member_id)
    if held is not None:
        new = replace(held, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        replace_member(draft, held, new)
        came_back = f"again as {instance_id}, in place of {held.member_id}{joining.reason}"
        draft.note("joined", came_back, member_id)
        return new
    known = draft.state.members.get(member_id)
    what = "new member" if known is None else "joined again"
    draft.note("joined", f"{what}, with the classic protocol{joining.reason}", member_id)
    return known or ConsumerMember(member_id=member_id)


def _subscription(joining: Joining) -> ConsumerProtocolSubscription:
    """The subscription, which is the same in all protocols of a member.

    Raises: Refused (UNKNOWN_SERVER_ERROR).
    """
    try:
        return read_subscription(joining.protocols[0][1])
    except MalformedMessage as error:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        raise Refused(code, f"Its subscription cannot be read: {error}.") from error


def _updated(
    member: ConsumerMember, joining: Joining, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    timeout_ms = joining.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if joining.instance_id is None else joining.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=joining.caller.client_id,
        client_host=joining.caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=joining.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=data) for name, data in joining.protocols
            ],
        ),
    )


def _owned(subscription: ConsumerProtocolSubscription, topics: TopicsImage) -> Owned:
    images = (
        (topics.get(topic.topic), topic.partitions) for topic in subscription.owned_partitions
    )
    return {
        (image.topic_id, partition)
        for image, partitions in images
        if image is not None
        for partition in partitions
    }


def _join_answer(code: ErrorCode, member: ConsumerMember, joining: Joining) -> Answer:
    if code is not ErrorCode.NONE:
        return Answer(joining.parked.reply, _join_refused(coordinator_code_of(code), joining))
    response = JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER,
        protocol_name=joining.protocols[0][0],
        member_id=member.member_id,
    )
    return Answer(joining.parked.reply, response)


def _join_refused(code: ErrorCode, joining: Joining) -> JoinGroupResponse:
    named = code is ErrorCode.INVALID_SESSION_TIMEOUT
    return join_refused(joining.parked.version, code, joining.member_id if named else "")
