"""One partition of `__consumer_offsets`: its groups and their offsets, and the requests to them.

The shard finds the group of each request, creates or converts it if necessary, and passes the
request to the method for its type. The rest is done by the group itself and by `Offsets`.
"""

from collections.abc import Callable, Iterable, Sequence

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.messages.k08_offset_commit import OffsetCommitRequest
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from odradek.protocol.messages.k11_join_group import JoinGroupRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest
from odradek.protocol.messages.k15_describe_groups import DescribedGroup
from odradek.protocol.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from odradek.protocol.messages.k47_offset_delete import OffsetDeleteRequest
from odradek.protocol.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from odradek.protocol.messages.k69_consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)

from ..coordinator_codes import coordinator_code_of
from ..effects import Answer, AppendRecords, Caller, Effect, Reply
from ..moment import Moment
from . import consumer_classic, consumer_classic_join
from .classic import ClassicGroup
from .classic_answers import join_refused, leave_answer, members_of, sync_refused
from .classic_state import ClassicState
from .consumer import ConsumerGroup
from .consumer_checks import CONSUMER_GROUPS_VERSION_FIRST
from .consumer_member import JOIN_EPOCH
from .consumer_request import check_request, refusal
from .group import Group, OffsetOwner, TopicPartition, TopicsImage
from .loading import LoadingGroups
from .makers import GroupMakers
from .member_ids import MemberIds
from .migration import Migration
from .offsets import Offsets, OffsetWrite
from .offsets_answers import refuse_commit, refuse_delete, refuse_txn_commit, there_in
from .settings import GroupSettings


class Shard:
    """The groups of one partition."""

    def __init__(
        self,
        partition: int,
        *,
        settings: Callable[[str], GroupSettings],
        topics: TopicsImage,
        member_ids: MemberIds,
    ) -> None:
        """`settings`: returns the settings of a group."""
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets(lambda: settings("").offsets)
        self._makers = GroupMakers(settings, topics, member_ids)
        self._migration = Migration(self.groups, self._makers)
        self._topics = topics
        self._loading: LoadingGroups | None = LoadingGroups(self._makers, self.offsets)
        self.metadata_bytes = 0
        """The size of the metadata that the members of all groups have sent."""
        self._metadata_bytes: dict[str, int] = {}

    # Members of classic groups.

    def join(
        self, request: JoinGroupRequest, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """JoinGroup."""
        group = self._found(request.group_id, moment)
        if isinstance(group, ConsumerGroup):
            if group.is_empty:
                return self._migration.join_empty(group, request, caller, reply, *moment)
            return consumer_classic_join.join(
                group, self._migration, request, caller, reply, *moment
            )
        if group is None and request.member_id:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            return [Answer(reply, join_refused(caller.version, code, request.member_id))]
        if group is None:
            group = self._new_classic(request.group_id, moment)
        assert isinstance(group, ClassicGroup)
        return group.join(request, caller, reply, *moment)

    def sync(
        self, request: SyncGroupRequest, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """SyncGroup."""
        group = self._found(request.group_id, moment)
        if isinstance(group, ClassicGroup):
            return group.sync(request, caller, reply, *moment)
        if isinstance(group, ConsumerGroup):
            return consumer_classic.sync(group, request, caller, reply, *moment)
        return [Answer(reply, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))]

    def heartbeat(
        self, request: HeartbeatRequest, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """Heartbeat."""
        group = self._found(request.group_id, moment)
        if isinstance(group, ClassicGroup):
            code = group.heartbeat(request, moment.now_ms)
        elif isinstance(group, ConsumerGroup):
            code = consumer_classic.heartbeat(group, request, moment.now_ms)
        else:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        return [Answer(reply, HeartbeatResponse(error_code=code))]

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """LeaveGroup."""
        group = self._found(request.group_id, moment)
        if isinstance(group, ClassicGroup):
            return group.leave(request, caller, reply, *moment)
        if isinstance(group, ConsumerGroup):
            return consumer_classic.leave(group, request, caller, reply, *moment)
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(members_of(request, caller.version))
        return [Answer(reply, leave_answer(request, caller.version, codes))]

    # Members of consumer groups.

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        reply: Reply,
        moment: Moment,
    ) -> Sequence[Effect]:
        """ConsumerGroupHeartbeat."""
        group = self._found(request.group_id, moment)
        if request.member_epoch == JOIN_EPOCH:
            if isinstance(group, ClassicGroup):
                return self._migration.upgrade(group, request, caller, reply, *moment)
            if group is None:
                group = self._migration.consumer_group(request.group_id)
                group.journal.wall_ms = moment.wall_ms
                self.groups[group.group_id] = group
        if isinstance(group, ConsumerGroup):
            return group.heartbeat(request, caller, reply, *moment)
        try:
            check_request(request, caller.version, self._makers.settings(request.group_id).consumer)
        except Refused as refused:
            return [Answer(reply, refusal(refused.code, refused.message))]
        detail = f"there is no consumer group {request.group_id!r}"
        return [Answer(reply, refusal(ErrorCode.GROUP_ID_NOT_FOUND, detail))]

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe of one group.  Raises: Refused."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id!r}")
        return group.describe()

    # Offsets.

    def commit_offsets(
        self, request: OffsetCommitRequest, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """OffsetCommit."""
        if partitions := there_in(request, self._exists):
            owner = OffsetOwner(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                caller.version,
            )
            try:
                self._check_commit(request.group_id, owner, partitions, moment)
            except Refused as refused:
                return [Answer(reply, refuse_commit(request, refused.code, self._exists))]
        return self.offsets.commit(
            request.group_id, request, reply, exists=self._exists, wall_ms=moment.wall_ms
        )

    def _check_commit(
        self,
        group_id: str,
        owner: OffsetOwner,
        partitions: Sequence[TopicPartition],
        moment: Moment,
    ) -> None:
        """Raises: Refused."""
        group = self._found(group_id, moment)
        if group is not None:
            group.check_offset_commit(owner, partitions, moment.now_ms)
        elif owner.generation_or_epoch >= 0:
            newer = owner.version >= CONSUMER_GROUPS_VERSION_FIRST
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND if newer else ErrorCode.ILLEGAL_GENERATION)
        else:  # the client only stores offsets here, and assigns its partitions itself
            self._new_classic(group_id, moment)

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """TxnOffsetCommit; the caller has verified that the transaction includes the group."""
        if partitions := there_in(request, self._exists):
            owner = OffsetOwner(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                caller.version,
            )
            group = self._found(request.group_id, moment)
            if group is None:  # the member is unknown then, if the request names one
                group = self._new_classic(request.group_id, moment)
            try:
                group.check_transactional_commit(owner, partitions)
            except Refused as refused:
                return [Answer(reply, refuse_txn_commit(request, refused.code, self._exists))]
        return self.offsets.commit_in_transaction(
            request.group_id, request, reply, exists=self._exists, wall_ms=moment.wall_ms
        )

    def fetch_offsets(
        self,
        asked: OffsetFetchRequestGroup,
        caller: Caller,
        *,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup:
        """OffsetFetch of one group; the handler converts older versions to this form."""
        group = self.groups.get(asked.group_id)
        is_member = asked.member_id is not None or asked.member_epoch >= 0
        owner = OffsetOwner(asked.member_id or "", None, asked.member_epoch, caller.version)
        answer = OffsetFetchResponseGroup(group_id=asked.group_id)
        try:
            if group is not None and is_member:
                group.check_offset_fetch(owner)
            elif asked.member_id is not None and asked.member_epoch >= 0:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        except Refused as refused:
            answer.error_code = refused.code
        else:
            answer.topics = self.offsets.fetch(
                asked.group_id, asked.topics, require_stable=require_stable
            )
        return answer

    def delete_offsets(
        self, request: OffsetDeleteRequest, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """OffsetDelete."""
        group = self._found(request.group_id, moment)
        try:
            if group is None:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
            group.check_offset_delete()
        except Refused as refused:
            return [Answer(reply, refuse_delete(refused.code))]
        effects = self.offsets.delete(
            request.group_id,
            request,
            reply,
            exists=self._exists,
            is_subscribed=group.is_subscribed_to,
        )
        if isinstance(group, ClassicGroup):  # deleted together with its last offset
            effects.append(self._end_if_done(group))
        return effects

    def _exists(self, topic: str, partition: int) -> bool:
        image = self._topics.get(topic)
        return image is not None and 0 <= partition < image.partition_count

    # Administration.

    def describe(self, group_id: str) -> DescribedGroup:
        """DescribeGroups of one group; an unknown group, or a consumer group, is Dead."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.describe()
        return DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)

    def delete(
        self, group_id: str, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """DeleteGroups of one group: its offsets are deleted first, in one or more batches."""
        group = self._found(group_id, moment)
        try:
            if group is None:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
            group.check_delete()
        except Refused as refused:
            return [_deleted(reply, group_id, refused.code)]
        *others, last = self.offsets.delete_all(group_id)

        def appended() -> None:
            last.appended()
            self.groups.pop(group_id, None)

        def then(code: ErrorCode) -> list[Effect]:
            last.settled(code)
            return [_deleted(reply, group_id, coordinator_code_of(code))]

        end = AppendRecords([*last.records, *group.tombstones()], then, appended)
        return [*map(_keep, others), end]

    # Time.

    @property
    def ids(self) -> Iterable[str]:
        """The ids of all groups."""
        return self.groups

    def wake_ms(self, group_id: str) -> int | None:
        """When to call `on_time` for a group next, or None."""
        group = self.groups.get(group_id)
        return None if group is None else group.wake_ms

    def on_time(self, group_id: str, moment: Moment) -> Sequence[Effect]:
        """Handle a group's deadlines that have passed."""
        group = self._found(group_id, moment)
        return () if group is None else group.on_time(*moment)

    def expire(self, moment: Moment) -> list[Effect]:
        """Remove expired offsets, and empty groups that have no offsets left."""
        effects: list[Effect] = []
        for group_id, group in list(self.groups.items()):
            writes = self.offsets.expired(
                group_id,
                since_ms=group.offsets_expire_since_ms,
                is_subscribed=group.is_subscribed_to,
                wall_ms=moment.wall_ms,
            )
            effects += map(_keep, writes)
            effects.append(self._end_if_done(group))
        return effects

    def _end_if_done(self, group: Group) -> Effect:
        """Delete a group if, when the effect runs, it has neither members nor offsets."""

        def then(code: ErrorCode) -> Sequence[Effect]:
            is_there = self.groups.get(group.group_id) is group
            done = is_there and group.is_empty and not self.offsets.has(group.group_id)
            return [self._end(group)] if done else ()

        return AppendRecords((), then)

    def _end(self, group: Group) -> Effect:
        def appended() -> None:
            if self.groups.get(group.group_id) is group and group.is_empty:
                del self.groups[group.group_id]

        return AppendRecords(group.tombstones(), lambda code: (), appended)

    def forget_topic(self, topic: str) -> list[Effect]:
        """Delete the offsets of a topic that was deleted."""
        return [_keep(write) for write in self.offsets.forget_topic(topic)]

    # Loading.

    def load(self, record: GroupRecord) -> None:
        """Apply a record that was read from the log, in log order."""
        assert self._loading is not None
        self._loading.apply(record)

    def loaded(self, moment: Moment) -> None:
        """All records have been read: start the groups."""
        assert self._loading is not None
        for group in self._loading.finish(moment):
            self.groups[group.group_id] = group
            if isinstance(group, ConsumerGroup):
                self._migration.watch(group)
            self._note_metadata(group.group_id)
        self._loading = None

    def unload(self) -> list[Effect]:
        """Another broker leads now: answer the waiting requests with NOT_COORDINATOR."""
        groups = list(self.groups.values())
        self.groups.clear()
        return [
            effect
            for group in groups
            if isinstance(group, ClassicGroup)
            for effect in group.answer_all(ErrorCode.NOT_COORDINATOR)
        ]

    def _found(self, group_id: str, moment: Moment) -> Group | None:
        group = self.groups.get(group_id)
        if group is not None:
            group.journal.wall_ms = moment.wall_ms
        return group

    def set_clocks(self, group_id: str, moment: Moment) -> None:
        """Tell a group the time, before the `then` of one of its effects continues."""
        group = self._found(group_id, moment)
        if isinstance(group, ClassicGroup):
            group.now_ms = moment.now_ms

    def settled(self, group_id: str) -> None:
        """A request was handled: drop the group if it was created for it and is unused."""
        group = self.groups.get(group_id)
        if group is not None and group.is_unused and not self.offsets.has(group_id):
            del self.groups[group_id]
        self._note_metadata(group_id)

    def _note_metadata(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        kept_bytes = 0 if group is None else group.metadata_bytes
        self.metadata_bytes += kept_bytes - self._metadata_bytes.pop(group_id, 0)
        if kept_bytes:
            self._metadata_bytes[group_id] = kept_bytes

    def _new_classic(self, group_id: str, moment: Moment) -> ClassicGroup:
        group = self.groups[group_id] = self._makers.classic(group_id, moment.wall_ms)
        group.journal.wall_ms = moment.wall_ms
        return group


def delete_answer(group_id: str, code: ErrorCode) -> DeleteGroupsResponse:
    """The DeleteGroups response for one group."""
    result = DeletableGroupResult(group_id=group_id, error_code=code)
    return DeleteGroupsResponse(results=[result])


def _deleted(reply: Reply, group_id: str, code: ErrorCode) -> Answer:
    return Answer(reply, delete_answer(group_id, code))


def _keep(write: OffsetWrite) -> AppendRecords:
    def then(code: ErrorCode) -> Sequence[Effect]:
        write.settled(code)
        return ()

    return AppendRecords(write.records, then, write.appended)
