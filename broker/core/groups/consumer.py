"""ConsumerGroup: one group of the new protocol (KIP-848), driven by the members' heartbeats.

The broker assigns the partitions. Three epochs show the progress: the group epoch rises with every
change of members, subscriptions or topics; the assignment epoch follows as soon as a target
assignment is computed for it; each member's epoch follows when the member has revoked what the
target takes from it. Meanwhile it keeps consuming its other partitions.

    Empty        no members
    Assigning    the target assignment is older than the group epoch
    Reconciling  some member has not reached its target assignment
    Stable       all members have reached it
    Dead         (the coordinator's answer for an unknown group)

A decision is a `Draft` of records. The group changes when the log has taken the records, and the
response is sent when the high watermark has passed them. If the log refuses them, the group does
not change.  Source: behaviour of GroupMetadataManager in Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.k69_consumer_group_describe import DescribedGroup

from ..coordinator_codes import coordinator_code_of
from ..effects import Answer, AppendRecords, Caller, Effect, Reply
from ..journal import Journal
from .consumer_checks import check_commit, check_fetch, check_transactional_commit
from .consumer_describe import describe_group
from .consumer_lookup import check_size, leaving_member, member_of
from .consumer_member import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
    current_assignment_record,
)
from .consumer_patterns import PatternChange, PatternClock, put_pattern, resolve_patterns
from .consumer_records import group_tombstones
from .consumer_request import (
    answer_to,
    check_request,
    is_full_request,
    owned_by,
    refusal,
    updated_member,
)
from .consumer_state import INITIAL_EPOCH, Draft, GroupState, Timer
from .consumer_steps import (
    Terms,
    move_member,
    put_member,
    remove_members,
    update_epoch,
    update_target,
    why_rebalance,
)
from .deadlines import Deadlines
from .group import OffsetOwner, TopicPartition, TopicsImage
from .settings import ConsumerSettings

RETRY_MS: Final = 500
"""How soon fencing an overdue member is retried if its records could not be written."""

Finish = Callable[[ErrorCode], Sequence[Effect]]
"""What to do once the records are committed (NONE) or refused."""

Downgrade = Callable[["ConsumerGroup", frozenset[str], Finish, int, int], Sequence[Effect] | None]
"""Called before members are removed, with group, member ids, finish, now_ms and wall_ms.

Returns the effects to perform instead (the group becomes a classic group), or None.
"""


class ConsumerGroup:
    """A group whose partitions the broker assigns; satisfies `Group`."""

    type_name = "consumer"
    protocol_type = "consumer"

    def __init__(
        self,
        group_id: str,
        settings: Callable[[], ConsumerSettings],
        topics: TopicsImage,
        new_member_id: Callable[[], str],
    ) -> None:
        self.group_id = group_id
        self.journal = Journal()
        self.state = GroupState(group_id)
        self.deadlines: Deadlines[tuple[Timer, str]] = Deadlines()
        self.downgrade: Downgrade | None = None
        self._settings = settings
        self._topics = topics
        self._new_member_id = new_member_id
        self._patterns = PatternClock()
        # The version of the topics when the epoch was last checked; None after loading.
        self._epoch_version: int | None = None

    @property
    def state_name(self) -> str:
        """The state as ListGroups names it."""
        return self.state.name

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.state.members

    @property
    def is_unused(self) -> bool:
        """Whether the group was created for a request that was refused: the log has no record."""
        return not self.state.members and self.state.group_epoch == INITIAL_EPOCH

    @property
    def metadata_bytes(self) -> int:
        """The size of the metadata that the members have sent."""
        return self.state.metadata_bytes

    @property
    def wake_ms(self) -> int | None:
        """When to call `on_time` next, or None."""
        return self.deadlines.wake_ms

    # Loading.

    def apply(self, record: GroupRecord) -> None:
        """Apply a record of this group, while loading or when it is converted."""
        self.state.apply(record)

    def loaded(self, now_ms: int) -> None:
        """All records have been applied: start the members' timers."""
        for member in self.state.members.values():
            self.set_timer(Timer.SESSION, member.member_id, self._session_ms(member), now_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                delay_ms = member.rebalance_timeout_ms
                self.set_timer(Timer.REBALANCE, member.member_id, delay_ms, now_ms)
        self.journal.note("loaded", f"{len(self.state.members)} members, {self.state.name}")

    def _session_ms(self, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._settings().session_timeout_ms

    # Heartbeats.

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        reply: Reply,
        now_ms: int,
        wall_ms: int,
    ) -> Sequence[Effect]:
        """A member joins, stays or leaves."""
        settings = self._settings()
        try:
            check_request(request, caller.version, settings)
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                return self._leave(request, reply, now_ms, wall_ms)
            draft = Draft(self.state)
            terms = self.terms(wall_ms)
            response = self._stay(draft, terms, request, caller)
        except Refused as refused:
            return [Answer(reply, refusal(refused.code, refused.message))]
        member_id = response.member_id
        assert member_id is not None
        draft.time(Timer.SESSION, member_id, settings.session_timeout_ms)
        # Checked before the records are applied: they may delete the pattern that was resolved
        # last, and with it the time.
        may_resolve = self._patterns.may_look_up(self.state, terms)

        def finish(code: ErrorCode) -> Sequence[Effect]:
            if code != ErrorCode.NONE:
                return [Answer(reply, refusal(coordinator_code_of(code)))]
            resolving = self.resolve(caller, now_ms, wall_ms) if may_resolve else ()
            return [Answer(reply, response), *resolving]

        version = self._topics.version

        def after() -> None:
            self._epoch_version = version

        return self.commit(draft, finish, now_ms, after=after)

    def terms(self, wall_ms: int) -> Terms:
        """The settings, topics and time for a decision."""
        return Terms(self._settings(), self._topics, wall_ms)

    def commit(
        self,
        draft: Draft,
        finish: Finish,
        now_ms: int,
        *,
        after: Callable[[], None] = lambda: None,
    ) -> Sequence[Effect]:
        """Write a decision, apply it, call `after`, and then `finish`; at once if it is empty."""

        def appended() -> None:
            for record in draft.records:
                self.state.apply(record)
            for note in draft.notes:
                self.journal.note(*note)
            for timer, member_id, delay_ms in draft.timers:
                self.set_timer(timer, member_id, delay_ms, now_ms)
            after()

        if draft.records:
            return [AppendRecords(draft.records, finish, appended)]
        appended()
        return finish(ErrorCode.NONE)

    def set_timer(self, timer: Timer, member_id: str, delay_ms: int | None, now_ms: int) -> None:
        """Set or (None) clear a timer of a member."""
        if delay_ms is None:
            self.deadlines.clear((timer, member_id))
        else:
            self.deadlines.set((timer, member_id), now_ms + delay_ms)

    def _stay(
        self,
        draft: Draft,
        terms: Terms,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
    ) -> ConsumerGroupHeartbeatResponse:
        """Draft the changes of a heartbeat, and return the response.  Raises: Refused."""
        check_size(self.state, terms.settings, request.member_id)
        before = member_of(draft, request, self._new_member_id)
        after = updated_member(before, request, caller)
        names_changed = put_member(draft, after)
        pattern = put_pattern(draft, before.subscribed_topic_regex, after.subscribed_topic_regex)
        self.update_assignment(
            draft,
            terms,
            why=why_rebalance(self.state, after.member_id)
            if names_changed or pattern is PatternChange.RESOLVED
            else None,
        )
        member = move_member(
            draft,
            terms,
            after.member_id,
            owned_by(request),
            subscription_changed=names_changed or pattern is not PatternChange.NONE,
        )
        changed = member.assigned != before.assigned
        return answer_to(
            member, terms.settings, with_assignment=changed or is_full_request(request)
        )

    def update_assignment(self, draft: Draft, terms: Terms, *, why: str | None) -> None:
        """Bump the group epoch if there is a reason or topics have changed; update the target."""
        if why is not None or self._epoch_version != self._topics.version:
            update_epoch(draft, terms, why=why)
        update_target(draft, terms)

    # Leaving.

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, reply: Reply, now_ms: int, wall_ms: int
    ) -> Sequence[Effect]:
        """Raises: Refused."""
        member = leaving_member(self.state, request)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )

        def finish(code: ErrorCode) -> Sequence[Effect]:
            if code != ErrorCode.NONE:
                return [Answer(reply, refusal(coordinator_code_of(code)))]
            return [Answer(reply, response)]

        if request.member_epoch == LEAVE_EPOCH:
            return self.remove({member.member_id: "left"}, finish, now_ms, wall_ms)
        draft = Draft(self.state)
        away = replace(
            member,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned={
                topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()
            },
            pending_revocation={},
        )
        draft.add(current_assignment_record(self.group_id, away))
        draft.note("left", f"for a while; {member.instance_id} is expected back", member.member_id)
        return self.commit(draft, finish, now_ms)

    def remove(
        self, reasons: dict[str, str], finish: Finish, now_ms: int, wall_ms: int
    ) -> Sequence[Effect]:
        """Remove members; `reasons` holds for each id "left" or what the member failed to do."""
        member_ids = frozenset(reasons)
        if self.downgrade is not None:
            instead = self.downgrade(self, member_ids, finish, now_ms, wall_ms)
            if instead is not None:
                return instead
        draft = Draft(self.state)
        for member_id, reason in reasons.items():
            left = reason == "left"
            draft.note("left" if left else "fenced", "" if left else reason, member_id)
        first = next(iter(reasons))
        others = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        remove_members(draft, self.terms(wall_ms), reasons, f"{first}{others} is gone")
        return self.commit(draft, finish, now_ms)

    def on_time(self, now_ms: int, wall_ms: int) -> Sequence[Effect]:
        """Fence the members whose timers have expired."""
        overdue: dict[str, str] = {}
        for timer, member_id in self.deadlines.due(now_ms):
            member = self.state.members.get(member_id)
            revoked = member is not None and (
                member.is_static_and_away or member.state is not MemberState.UNREVOKED_PARTITIONS
            )
            if member is None or (timer is Timer.REBALANCE and revoked):
                continue
            overdue.setdefault(member_id, timer.value)
            # A retry if the records can't be written; otherwise it is cleared.
            self.set_timer(timer, member_id, RETRY_MS, now_ms)
        if not overdue:
            return []
        return self.remove(overdue, lambda _code: [], now_ms, wall_ms)

    # Patterns.

    def resolve(self, caller: Caller, now_ms: int, wall_ms: int) -> Sequence[Effect]:
        """Resolve the patterns if necessary, and if the last time is long enough ago.

        This is a separate decision, made once the records of the heartbeat that required it are
        committed. As in Kafka, which resolves in the background, a member with a new pattern gets
        its assignment with a later heartbeat.  And as in Kafka, all patterns match what the
        caller may describe.
        """
        terms = self.terms(wall_ms)
        search = self._patterns.look_up(self.state, terms, caller.may_describe)
        if search is None:
            return []
        draft = Draft(self.state)
        resolve_patterns(draft, terms, search)
        version = self._topics.version

        def after() -> None:
            self._epoch_version = version
            self._patterns.done(search.need)

        return self.commit(draft, lambda _code: [], now_ms, after=after)

    # The interface of any group.

    def describe(self) -> DescribedGroup:
        """The group for ConsumerGroupDescribe."""
        return describe_group(self.state, self._settings(), self._topics)

    def check_offset_commit(
        self, owner: OffsetOwner, partitions: Iterable[TopicPartition], now_ms: int
    ) -> None:
        """Check a commit; an older epoch is valid for partitions owned since then (KIP-1251).

        Raises: Refused.
        """
        check_commit(self.state, self._topics, owner, partitions)

    def check_transactional_commit(
        self, owner: OffsetOwner, partitions: Iterable[TopicPartition]
    ) -> None:
        """Check a commit in a transaction.  Raises: Refused."""
        check_transactional_commit(self.state, self._topics, owner, partitions)

    def check_offset_fetch(self, owner: OffsetOwner) -> None:
        """Check that a member may read offsets.  Raises: Refused."""
        check_fetch(self.state, owner)

    def check_offset_delete(self) -> None:
        """Allow the request; `is_subscribed_to` excludes the topics of members."""

    def check_delete(self) -> None:
        """Check that the group is empty.  Raises: Refused (NON_EMPTY_GROUP)."""
        if self.state.members:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by a resolved pattern."""
        state = self.state
        return any(
            text in state.patterns and topic in found.topics
            for text, found in state.regexes.items()
        ) or any(topic in member.subscribed_topic_names for member in state.members.values())

    def offsets_expire_since_ms(self, commit_wall_ms: int) -> int | None:
        """The commit time: each offset's retention time begins at its own commit."""
        return commit_wall_ms

    def tombstones(self) -> list[GroupRecord]:
        """The records that delete the group, except those for its offsets."""
        return group_tombstones(self.state)
