"""Conversations about groups: members on connections of their own, whose answers may be parked.

    talk = GroupTalk(server, "two_members")
    a, b = talk.member("a"), talk.member("b")
    a.join("a joins")                   # asks and notes the answer
    b.send_join()                       # parked until a joins again
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.join("a again")
    b.answer("b joins")

Ids that brokers invent are shown as whose they are, so that two brokers' answers can be compared.
An id is known once its owner has read its own answer: let followers read before the leader does.
"""

import itertools
import re
import select
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from odradek.protocol.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.group_records import GroupRecord, decode_record
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberResponse
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.records import iter_batches, iter_records
from odradek.protocol.schema import Message
from tests.support.connections import HungUp, RawConnection
from tests.support.frames import answer_in, request_bytes, response_class
from tests.support.waiting import until
from tests.wire.servers import Server
from tests.wire.talk import CLOSED, Plain, Talk, shown_time

UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SHORT_UUID: Final = re.compile(r"[\w-]{22}")
OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_PARTITIONS: Final = 4
# A session or a rebalance that is meant to end: what is said before that has the time to be said,
# even where the machine stops for a moment.
SHORT_MS: Final = 5_000
RECORDS_BYTES_MAX: Final = 1 << 24
NOT_READY: Final = frozenset({14, 15, 16})
# Sets and maps of Kafka's.
UNORDERED: Final = frozenset(
    {"members", "partitions", "subscribed_topic_names", "topic_partitions"}
)
TIMES: Final = frozenset(
    {"assignment_timestamp", "commit_timestamp", "current_state_timestamp", "expire_timestamp"}
)
MACHINE: Final = frozenset({"metadata_hash", "version"})  # of Kafka's own metadata

M = TypeVar("M", bound="Member")
Protocols = Sequence[tuple[str, bytes]]


def subscription(*topics: str, version: int = 1, **more: Any) -> bytes:
    """What a consumer puts into a join."""
    wanted = ConsumerProtocolSubscription(topics=list(topics), **more)
    return version.to_bytes(2, "big") + bytes(wanted.encode(version))


RANGE: Final[Protocols] = (("range", subscription("some-topic")),)


class GroupTalk(Talk):
    """A conversation with one broker about groups; asks from outside them itself."""

    def __init__(self, server: Server, topic_prefix: str) -> None:
        super().__init__(server, topic_prefix)
        self.ids: dict[str, str] = {}
        self._members: list[Member] = []

    def group(self, stem: str = "g") -> str:
        """The id of a group of this conversation."""
        return self.topic(stem)

    def member(
        self, name: str, stem: str = "g", *, instance: str | None = None, version: int = 9
    ) -> "Member":
        """Someone who will join a group, with a connection of their own."""
        member = Member(self, name, self.group(stem), instance, version)
        return self.include(member)

    def include(self, member: "M") -> "M":
        """Hang up with this member too when the conversation ends."""
        self._members.append(member)
        return member

    def close(self) -> None:
        """Hang up, every member too."""
        super().close()
        for member in self._members:
            member.hang_up()

    def exchange(self, request: Message, version: int) -> Any:
        """Send a request and return the answer, or None if the broker hung up."""
        correlation_id = next(self._correlation_ids)
        frame = self.ask_frame(request_bytes(request, version, correlation_id))
        if frame is None:
            return None
        return answer_in(frame, response_class(type(request)), version, correlation_id)

    def learn(self, member_id: str, name: str) -> None:
        """From now on show this id as its owner's."""
        if member_id in self.ids:
            return
        pattern = UUID if UUID.search(member_id) else SHORT_UUID
        shown = pattern.sub(f"(id of {name})", member_id)
        if shown != member_id:
            again = sum(known.startswith(shown[:-1]) for known in self.ids.values())
            self.ids[member_id] = f"{shown[:-1]}, {again + 1})" if again else shown

    # Groups as they are seen from outside.

    def describe(self, group_id: str) -> Any:
        """What DescribeGroups says of a group."""
        asked = DescribeGroupsRequest(groups=[group_id])
        answer = self.exchange(asked, 5)
        assert answer is not None, "hung up over DescribeGroups"
        return answer.groups[0]

    def note_group(self, label: str, group_id: str, version: int = 5) -> None:
        """Note what DescribeGroups says."""
        self.ask(label, DescribeGroupsRequest(groups=[group_id]), version)

    def wait_state(self, group_id: str, state: str, *, members: int | None = None) -> None:
        """Wait until the group is in that state, with so many members."""

        def there() -> bool:
            group = self.describe(group_id)
            return group.group_state == state and members in (None, len(group.members))

        until(there)

    def note_listed(self, label: str, request: ListGroupsRequest, version: int) -> None:
        """Note what ListGroups says of this conversation's groups."""
        answer = self.exchange(request, version)
        mine = [g for g in answer.groups if g.group_id.startswith(self.topic_prefix + "-")]
        answer.groups = sorted(mine, key=lambda group: str(group.group_id))
        self.note(label, self.plain(answer, version))

    def restart(self, end: Callable[[], None]) -> None:
        """End the broker with `end` (its `stop` or `kill`), start it, wait for its groups."""
        self.close()
        end()
        self.server.start()
        wait_until_groups_are_served(self.server)

    # Answers as plain data.

    def _field(self, name: str, value: Any, version: int) -> Plain:
        if name in TIMES:
            return shown_time(value)
        if name in MACHINE:
            return None
        if isinstance(value, list) and name in UNORDERED:
            plain = [self._field("", one, version) for one in value]
            in_order = isinstance(next(iter(value), None), MemberResponse)
            return plain if in_order else sorted(plain, key=repr)
        shown = super()._field(name, value, version)
        return self.shown_id(shown) if isinstance(shown, str) else shown

    def shown_id(self, text: str) -> str:
        """A text with invented ids as their owners' names."""
        return self.ids.get(text) or UUID.sub("(an id)", text)

    # Records on disk.

    def note_records(self, label: str, *, in_order: bool = True) -> None:
        """Note, partition by partition, the records of this conversation's groups.

        Kafka keeps members in hash maps: with random ids among them there is no order to compare.
        """
        for partition in range(OFFSETS_PARTITIONS):
            log = self.server.data_dir / f"{OFFSETS_TOPIC}-{partition}"
            mine = [self._shown_record(record) for record in _records_of(log, self.topic_prefix)]
            for number, shown in enumerate(mine if in_order else sorted(mine, key=repr)):
                self.note(f"{label}: {partition}/{number}", shown)

    def _shown_record(self, record: GroupRecord) -> Plain:
        value = record.value
        shown = None if value is None else self.plain(value, value.VERSIONS.last)
        return {
            "kind": type(record.key).__name__,
            "key": self.plain(record.key, 0),
            "value": shown,
        }


class Member:
    """One who is in a group, or tries to be; remembers its id and generation."""

    def __init__(
        self, talk: GroupTalk, name: str, group_id: str, instance: str | None, version: int
    ) -> None:
        self.talk = talk
        self.name = name
        self.group_id = group_id
        self.instance = instance
        self.version = version
        self.id = ""
        self.generation = -1
        self._connection: RawConnection | None = None
        self._asked: tuple[Message, int, int] | None = None
        self._correlation_ids = itertools.count(1000)

    def hang_up(self) -> None:
        """Close the connection; a new one is opened when it is needed."""
        if self._connection is not None:
            self._connection.socket.close()
        self._connection = self._asked = None

    def send(self, request: Message, version: int) -> None:
        """Send a request whose answer is read later."""
        assert self._asked is None, f"{self.name} still waits for an answer"
        if self._connection is None:
            self._connection = RawConnection(self.talk.server.host, self.talk.server.port)
        correlation_id = next(self._correlation_ids)
        self._asked = request, version, correlation_id
        frame = request_bytes(request, version, correlation_id, client_id=self.name)
        self._connection.send_frame(frame)

    def read(self) -> Any:
        """The answer to what was sent, None if the broker hung up; nothing is noted."""
        assert self._asked is not None and self._connection is not None, "nothing was asked"
        request, version, correlation_id = self._asked
        self._asked = None
        try:
            frame = self._connection.read_frame()
        except HungUp:
            self.hang_up()
            return None
        answer = answer_in(frame, response_class(type(request)), version, correlation_id)
        self._remember(answer)
        return answer

    def answer(self, label: str) -> Any:
        """The same, and note it."""
        assert self._asked is not None, "nothing was asked"
        version = self._asked[1]
        answer = self.read()
        self.talk.note(label, CLOSED if answer is None else self.talk.plain(answer, version))
        return answer

    def ask(self, label: str, request: Message, version: int) -> Any:
        """Send a request and note the answer."""
        self.send(request, version)
        return self.answer(label)

    def exchange(self, request: Message, version: int) -> Any:
        """Send a request and return its answer; nothing is noted."""
        self.send(request, version)
        return self.read()

    def note_waiting(self, label: str) -> None:
        """Note whether the answer is still parked."""
        assert self._connection is not None
        readable, _, _ = select.select([self._connection.socket], [], [], 0)
        self.talk.note(label, "(answered)" if readable else "(parked)")

    def _remember(self, answer: Any) -> None:
        member_id = getattr(answer, "member_id", None)
        if member_id:
            self.id = member_id
            self.talk.learn(member_id, self.name)
        if isinstance(answer, JoinGroupResponse) and answer.error_code == 0:
            self.generation = answer.generation_id

    # What members of classic groups say.

    def join_request(self, protocols: Protocols = RANGE, **more: Any) -> JoinGroupRequest:
        """A JoinGroup of this member."""
        named = [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols]
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
        }
        return JoinGroupRequest(protocols=named, **{**fields, **more})

    def send_join(self, protocols: Protocols = RANGE, **more: Any) -> None:
        """Send a JoinGroup whose answer is read later; gets a member id first if it must."""
        if not self.id and self.instance is None and self.version >= 4:
            self.exchange(self.join_request(protocols, **more), self.version)
        self.send(self.join_request(protocols, **more), self.version)

    def join(self, label: str, protocols: Protocols = RANGE, **more: Any) -> Any:
        """Join and note the answer."""
        self.send_join(protocols, **more)
        return self.answer(label)

    def sync_request(self, *given: "tuple[Member, bytes]", **more: Any) -> SyncGroupRequest:
        """A SyncGroup of this member, as leader with what it gives to whom."""
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                SyncGroupRequestAssignment(member_id=member.id, assignment=data)
                for member, data in given
            ],
        }
        return SyncGroupRequest(**{**fields, **more})

    def sync(self, label: str, *given: "tuple[Member, bytes]", **more: Any) -> Any:
        """Sync and note the answer."""
        return self.ask(label, self.sync_request(*given, **more), 5)

    def settle(self, label: str, protocols: Protocols = RANGE, **more: Any) -> None:
        """Be the only member of a stable group."""
        self.join(f"{label} joins", protocols, **more)
        self.sync(f"{label} syncs", (self, b"all"), protocol_name=protocols[0][0])

    def heartbeat(self, label: str, version: int = 4, **more: Any) -> Any:
        """Send a heartbeat and note the answer."""
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        return self.ask(label, HeartbeatRequest(**{**fields, **more}), version)

    def leave(self, label: str, version: int = 2) -> Any:
        """Leave, and note the answer."""
        request = LeaveGroupRequest(group_id=self.group_id, member_id=self.id)
        return self.ask(label, request, version)


def settle_pair(talk: GroupTalk, a: Member, b: Member, protocols: Protocols = RANGE) -> None:
    """Both in a stable group, a its leader."""
    a.join("settling: a first", protocols)
    b.send_join(protocols)
    talk.wait_state(a.group_id, "PreparingRebalance", members=2)
    a.send_join(protocols)
    b.answer("settling: b joined")
    a.answer("settling: a joined")
    b.send(b.sync_request(protocol_name=protocols[0][0]), 5)
    a.sync("settling: a synced", (a, b"for-a"), (b, b"for-b"), protocol_name=protocols[0][0])
    b.answer("settling: b synced")


def served(request: type[Message], first: int = 0) -> range:
    """The versions of a request, from `first` on."""
    return range(max(first, request.VERSIONS.first), request.VERSIONS.last + 1)


def wait_until_groups_are_served(server: Server) -> None:
    """Return when every partition of the offsets topic has been loaded."""
    talk = GroupTalk(server, "ready")
    try:
        until(lambda: talk.exchange(FindCoordinatorRequest(key="g"), 0).error_code == 0)
        # Java's hash of one letter is its code: these lie in partitions 0 to 3.
        for group_id in "dabc":
            until(partial(_is_loaded, talk, group_id))
    finally:
        talk.close()


def _is_loaded(talk: GroupTalk, group_id: str) -> bool:
    return talk.describe(group_id).error_code not in NOT_READY


def _records_of(log_dir: Path, prefix: str) -> Iterator[GroupRecord]:
    """The records about groups whose names begin so."""
    for path in sorted(log_dir.glob("*.log")):
        view = memoryview(path.read_bytes())
        for position, header in iter_batches(view):
            body = view[position : position + header.size_bytes]
            for record in iter_records(body, header, size_bytes_max=RECORDS_BYTES_MAX):
                assert record.key is not None
                value = None if record.value is None else bytes(record.value)
                found = decode_record(bytes(record.key), value)
                if found is not None and _group_of(found).startswith(f"{prefix}-"):
                    yield found


def _group_of(record: GroupRecord) -> str:
    name = "group" if hasattr(record.key, "group") else "group_id"
    return str(getattr(record.key, name))
