"""Conversion of groups between the classic and the consumer type, in both directions (KIP-848).

empty       an empty group takes the type of the next member that joins.
upgrade     a member joins a classic group with members by ConsumerGroupHeartbeat. The others stay,
            as members with the classic protocol; their epoch is the generation, and they keep
            their assignments. In later epochs they are reconciled like any member
            (`consumer_classic`).
downgrade   the last member with the new protocol leaves, or its instance id returns with the
            classic one. The remaining members become a classic group, and rebalance if necessary.

The records of both types are written as one batch; the group is replaced once the log has them.

Source: behaviour of GroupMetadataManager in Apache Kafka 4.3.1.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.consumer import ClassicMemberMetadata, ClassicProtocol
from odradek.protocol.messages.k11_join_group import JoinGroupRequest
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

from ..coordinator_codes import coordinator_code_of
from ..effects import Answer, AppendRecords, Caller, Effect, Reply
from .classic import ClassicGroup
from .classic_answers import join_refused
from .classic_member import ClassicMember
from .classic_rebalance import prepare
from .classic_records import CONSUMER, generation_tombstone, subscribed_topics
from .classic_state import ClassicState
from .consumer import ConsumerGroup, Finish
from .consumer_member import (
    ConsumerMember,
    current_assignment_record,
    member_record,
    partitions_of,
)
from .consumer_records import (
    group_epoch_record,
    group_tombstones,
    target_epoch_record,
    target_record,
)
from .consumer_request import check_request, refusal
from .consumer_state import Draft, GroupState, Timer
from .consumer_steps import hash_of
from .embedded import read_assignment, read_subscription, read_version, write_assignment
from .group import Group
from .makers import GroupMakers

logger = logging.getLogger(__name__)

_UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
_DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})


class Migration:
    """Converts groups between the types, in `groups`, and creates consumer groups."""

    def __init__(self, groups: dict[str, Group], makers: GroupMakers) -> None:
        self._groups = groups
        self.makers = makers
        self.settings = makers.settings
        self.topics = makers.topics

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """A new consumer group, not yet in `groups`."""
        group = self.makers.consumer(group_id)
        self.watch(group)
        return group

    def watch(self, group: ConsumerGroup) -> None:
        """Set the hook that is called before members of the group are removed."""
        group.downgrade = self.downgrade

    def new_member_id(self) -> str:
        """An id for a classic member of a consumer group."""
        return self.makers.member_ids.consumer()

    # Classic groups become consumer groups.

    def upgrade(
        self,
        classic: ClassicGroup,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        reply: Reply,
        now_ms: int,
        wall_ms: int,
    ) -> Sequence[Effect]:
        """A member joins a classic group by ConsumerGroupHeartbeat (epoch 0)."""
        try:
            settings = self.settings(classic.group_id).consumer
            check_request(request, caller.version, settings)
            before = self._upgrade_records(classic)
        except Refused as refused:
            return [Answer(reply, refusal(refused.code, refused.message))]
        group = self.consumer_group(classic.group_id)
        group.journal = classic.journal
        for record in before[1:]:
            group.apply(record)
        effects = group.heartbeat(request, caller, reply, now_ms, wall_ms)

        def appended() -> None:
            self._groups[group.group_id] = group
            for member in group.state.members.values():
                if member.classic is not None:
                    session_ms = member.classic.session_timeout_ms
                    group.set_timer(Timer.SESSION, member.member_id, session_ms, now_ms)
            group.journal.note("upgraded", "it was a classic group")

        def answers() -> list[Effect]:
            return classic.answer_all(ErrorCode.REBALANCE_IN_PROGRESS)

        return _with_conversion(effects, before, appended, answers)

    def _upgrade_records(self, classic: ClassicGroup) -> list[GroupRecord]:
        """The classic group's tombstone, then the consumer group's records.  Raises: Refused."""
        tombstone = generation_tombstone(classic.group_id)
        if classic.is_empty:
            return [tombstone]
        settings = self.settings(classic.group_id).consumer
        why: str | None = None
        if settings.migration_policy not in _UPGRADES:
            why = "its group.consumer.migration.policy does not allow it while it has members"
        elif classic.protocol_type != CONSUMER:
            why = "its members are no consumers"
        elif len(classic.roster) > settings.group_size_max:
            why = "it has more members than group.consumer.max.size"
        if why is not None:
            raise _not_upgradable(classic, why)
        try:
            return [tombstone, *self._members_as_records(classic)]
        except MalformedMessage as error:
            logger.warning("upgrade refused group=%s reason=%s", classic.group_id, error)
            raise _not_upgradable(classic, "what its members wrote cannot be read") from error

    def _members_as_records(self, classic: ClassicGroup) -> list[GroupRecord]:
        """Raises: MalformedMessage, Refused."""
        group_id, epoch = classic.group_id, classic.generation_id
        members = [self._upgraded(classic, member) for member in classic.roster]
        names = {name for member in members for name in member.subscribed_topic_names}
        return [
            *(member_record(group_id, member) for member in members),
            group_epoch_record(group_id, epoch, hash_of(names, self.topics)),
            *(
                target_record(group_id, member.member_id, partitions_of(member.assigned))
                for member in members
            ),
            target_epoch_record(group_id, epoch, 0),
            *(current_assignment_record(group_id, member) for member in members),
        ]

    def _upgraded(self, classic: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        """Raises: MalformedMessage, Refused."""
        assigned: dict[bytes, dict[int, int]] = {}
        if member.assignment:
            assignment = read_assignment(member.assignment)
            if assignment.user_data:
                raise _not_upgradable(classic, "its assignor keeps user data, which would be lost")
            for topic in assignment.assigned_partitions:
                image = self.topics.get(topic.topic)
                if image is not None and topic.partitions:
                    epochs = dict.fromkeys(topic.partitions, classic.generation_id)
                    assigned[image.topic_id] = epochs
        # Before the first generation no protocol is selected; a member's metadata is the same in
        # all of its protocols.
        protocol = classic.protocol_name or member.protocols[0][0]
        subscription = read_subscription(member.metadata(protocol))
        return ConsumerMember(
            member_id=member.member_id,
            member_epoch=classic.generation_id,
            previous_member_epoch=classic.generation_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            subscribed_topic_names=frozenset(subscription.topics),
            assigned=assigned,
            classic=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=data) for name, data in member.protocols
                ],
            ),
        )

    # Consumer groups become classic groups.

    def join_empty(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        reply: Reply,
        now_ms: int,
        wall_ms: int,
    ) -> Sequence[Effect]:
        """Convert an empty consumer group that gets a JoinGroup to a classic group."""
        assert group.is_empty
        if request.member_id:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            return [Answer(reply, join_refused(caller.version, code, request.member_id))]
        classic = self.makers.classic(group.group_id, wall_ms)
        classic.journal = group.journal

        def appended() -> None:
            self._groups[classic.group_id] = classic
            classic.journal.note("downgraded", "it was a consumer group without members")

        def then(code: ErrorCode) -> Sequence[Effect]:
            if code is not ErrorCode.NONE:
                return [Answer(reply, join_refused(caller.version, coordinator_code_of(code)))]
            return classic.join(request, caller, reply, max(now_ms, classic.now_ms), wall_ms)

        return [AppendRecords(group_tombstones(group.state), then, appended)]

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: frozenset[str],
        finish: Finish,
        now_ms: int,
        wall_ms: int,
    ) -> Sequence[Effect] | None:
        """The hook of ConsumerGroup: convert the group instead of only removing members.

        Returns None unless the leaving members are the last with the new protocol, others stay,
        and the settings allow it.
        """
        state = group.state
        stay = [member for member_id, member in state.members.items() if member_id not in leaving]
        if not stay or any(member.classic is None for member in stay):
            return None
        if not self._may_downgrade(group.group_id, len(stay)):
            return None
        reason = f"{', '.join(sorted(leaving))} left, the last with the new protocol"
        return self.convert(group, Draft(state), stay, finish, now_ms, wall_ms, rebalance=reason)

    def may_replace_last(self, state: GroupState, held: ConsumerMember | None) -> bool:
        """Whether the group becomes classic if this static member returns as a classic one."""
        return (
            held is not None
            and held.classic is None
            and state.classic_count == len(state.members) - 1
            and self._may_downgrade(state.group_id, len(state.members))
        )

    def _may_downgrade(self, group_id: str, size: int) -> bool:
        settings = self.settings(group_id)
        enabled = settings.consumer.migration_policy in _DOWNGRADES
        return enabled and size <= settings.classic.group_size_max

    def convert(
        self,
        group: ConsumerGroup,
        draft: Draft,
        members: Sequence[ConsumerMember],
        finish: Finish,
        now_ms: int,
        wall_ms: int,
        *,
        rebalance: str | None,
    ) -> Sequence[Effect] | None:
        """Convert the group to a classic one with these members, after the changes in `draft`.

        `rebalance`: the reason for a rebalance; None: they keep their assignments.
        Returns None if a member's bytes, which an older broker wrote, can't be decoded, or if the
        members' records have no protocol in common.
        """
        classic = self.makers.classic(group.group_id, wall_ms)
        try:
            self._fill(classic, group, draft.state, members)
        except MalformedMessage as error:
            logger.warning("downgrade refused group=%s reason=%s", group.group_id, error)
            return None
        kept = {member.member_id: member.assignment for member in classic.roster}
        written = classic.record(kept)

        def appended() -> None:
            self._groups[classic.group_id] = classic
            classic.journal = group.journal
            for note in draft.notes:
                classic.journal.note(*note)
            classic.journal.note("downgraded", "it was a consumer group")
            classic.begin(now_ms, wall_ms)
            for member in classic.roster:
                classic.restart_session(member)
            if rebalance is not None:
                prepare(classic, rebalance)

        def then(code: ErrorCode) -> Sequence[Effect]:
            return [*classic.take_effects(), *finish(code)]

        tombstones = group_tombstones(draft.state)
        return [AppendRecords([*draft.records, *tombstones, written], then, appended)]

    def _fill(
        self,
        classic: ClassicGroup,
        group: ConsumerGroup,
        state: GroupState,
        members: Sequence[ConsumerMember],
    ) -> None:
        """Raises: MalformedMessage."""
        classic.state = ClassicState.STABLE
        classic.generation_id = group.state.group_epoch
        classic.protocol_type = CONSUMER
        for member in members:
            classic.roster.add(_as_classic(member))
        if not classic.roster.can_all_do_one_of(classic.members[0].protocols):
            raise MalformedMessage("its members have no protocol in common")
        classic.protocol_name = classic.roster.select_protocol()
        for one in classic.roster:
            version = read_version(one.metadata(classic.protocol_name))
            target = state.target_of(one.member_id)
            one.assignment = write_assignment(target, version, self.topics)
        classic.topics = subscribed_topics(CONSUMER, classic.protocol_name, classic.roster)


def _as_classic(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type=CONSUMER,
        # Another broker may have written a record that names a protocol twice.
        protocols=list({p.name: p.metadata for p in member.classic.supported_protocols}.items()),
    )


def _not_upgradable(classic: ClassicGroup, why: str) -> Refused:
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"classic group {classic.group_id!r} cannot become a consumer group: {why}",
    )


def _with_conversion(
    effects: Sequence[Effect],
    before: Sequence[GroupRecord],
    converted: Callable[[], None],
    answers: Callable[[], Sequence[Effect]],
) -> Sequence[Effect]:
    """Prepend records to those of a decision; a decision without records converts nothing."""
    found: list[Effect] = []
    for effect in effects:
        if isinstance(effect, AppendRecords):
            effect = _converting(effect, before, converted, answers)
        found.append(effect)
    return found


def _converting(
    append: AppendRecords,
    before: Sequence[GroupRecord],
    converted: Callable[[], None],
    answers: Callable[[], Sequence[Effect]],
) -> AppendRecords:
    is_converted = False

    def appended() -> None:
        nonlocal is_converted
        is_converted = True
        converted()
        if append.appended is not None:
            append.appended()

    def then(code: ErrorCode) -> Sequence[Effect]:
        return [*(answers() if is_converted else ()), *append.then(code)]

    return AppendRecords([*before, *append.records], then, appended)
