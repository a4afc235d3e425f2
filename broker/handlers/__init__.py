"""The table of the APIs that the broker serves, and one handler module for each API.

The table answers ApiVersions and dispatches requests. It imports no API: the messages and the
handler of an API are imported at its first request.

A handler is `handle(request, call, node)`. It returns the response, or None if there is nothing to
answer (Produce with acks=0), or an awaitable of the response. Record views are released when
`handle` returns, so an awaitable must copy what it still needs of them. A Produce whose answer is
awaited holds up its connection, unless it is an `EagerFuture`: then it has appended, and the next
one may follow. Requests that a client has no right to send do not reach the handler: see
`access.py`.
"""

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from importlib import import_module
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.framing import API_VERSIONS_KEY
from odradek.protocol.primitives import INT16_MAX
from odradek.protocol.schema import Message

TRANSACTIONS_V2: Final = 2
Answer = Message | Awaitable[Message | None] | None


class Need(Enum):
    """What a client must be for its requests to be handled."""

    NOTHING = auto()
    BROKER = auto()
    """Another broker of the cluster."""
    BROKER_TO_BATCH = auto()
    """Another broker of the cluster, in the versions that carry several transactions."""
    BROKER_TO_FOLLOW = auto()
    """A client on a listener for brokers, if the request claims to come from a broker."""


class Api:
    """One API key: the versions served, the clients allowed, and the modules of its code."""

    __slots__ = (
        "first",
        "flexible",
        "flexible_response",
        "guarded",
        "handle",
        "is_advertised",
        "is_for_all",
        "key",
        "last",
        "last_of_v2",
        "module",
        "name",
        "need",
        "refuse",
        "request",
        "response",
    )
    request: type[Message]
    response: Callable[..., Message]
    handle: Callable[..., Any]
    guarded: Callable[..., Any]
    """`guarded(request, call, node, rights)` does the same for a client with limited rights: while
    there is an authorizer, it is called in place of `handle`.  A module has its own if the request
    is about topics, groups or transactional ids to which the client may have no right."""
    refuse: Callable[[Any, int, ErrorCode], Message | None]
    """`refuse(request, version, code)` is Kafka's answer to a client that lacks `need` or a right;
    None: this request needs nothing.  A module has its own if a top-level error code is not
    sufficient."""

    def __init__(
        self,
        key: int,
        name: str,
        *,
        first: int = 0,
        last: int,
        last_of_v2: int = -1,
        flexible: int,
        need: Need = Need.NOTHING,
        is_advertised: bool = True,
    ) -> None:
        self.key = key
        self.name = name
        self.first = first
        self.last = last
        self.last_of_v2 = max(last, last_of_v2)
        """With version 2 of transactions (odradek.transaction.version)."""
        self.flexible = flexible
        """The first version with compact types, tagged fields and the longer headers."""
        self.flexible_response = INT16_MAX if key == API_VERSIONS_KEY else flexible
        """The first version whose response has the longer header. That of ApiVersions never has it:
        a client reads it before it knows the broker's versions."""
        self.need = need
        self.is_for_all = need is Need.NOTHING
        """Whether any client may send it to any listener."""
        self.is_advertised = is_advertised
        """Whether ApiVersions lists it: Odradek's own APIs would only confuse clients."""
        snake = "".join("_" + c.lower() if c.isupper() else c for c in name)
        self.module = f"k{key:02}{snake}"

    def limited(self, first: int, last: int) -> "Api":
        """The same with at most these versions; some of them must be served."""
        return Api(
            self.key,
            self.name,
            first=max(first, self.first),
            last=min(last, self.last),
            last_of_v2=min(last, self.last_of_v2),
            flexible=self.flexible,
            need=self.need,
            is_advertised=self.is_advertised,
        )

    def last_with(self, transaction_version: int) -> int:
        """The last version that a broker with this version of transactions serves."""
        return self.last_of_v2 if transaction_version >= TRANSACTIONS_V2 else self.last

    def __getattr__(self, name: str) -> Any:
        """Import a lazy attribute on first use; afterwards it is an ordinary attribute."""
        if name in ("request", "response"):
            messages = import_module(f"odradek.protocol.messages.{self.module}")
            setattr(self, name, getattr(messages, f"{self.name}{name.capitalize()}"))
        elif name == "handle":
            self.handle = self._handler().handle
        elif name == "guarded":
            self.guarded = getattr(self._handler(), name, self._handle_with_any_rights)
        elif name == "refuse":
            self.refuse = getattr(self._handler(), name, self._refuse_whole)
        else:
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def _handler(self) -> Any:
        return import_module(f"{__name__}.{self.module}")

    def _handle_with_any_rights(self, request: Message, call: Any, node: Any, rights: Any) -> Any:
        return self.handle(request, call, node)

    def _refuse_whole(self, request: Message, version: int, code: ErrorCode) -> Message:
        return self.response(error_code=code)


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        Api(0, "Produce", last=11, last_of_v2=12, flexible=9),
        Api(1, "Fetch", last=17, flexible=12, need=Need.BROKER_TO_FOLLOW),
        Api(2, "ListOffsets", last=9, flexible=6),
        Api(3, "Metadata", last=12, flexible=9),
        Api(4, "LeaderAndIsr", last=7, flexible=4, need=Need.BROKER),
        Api(5, "StopReplica", last=4, flexible=2, need=Need.BROKER),
        Api(6, "UpdateMetadata", last=8, flexible=6, need=Need.BROKER),
        Api(7, "ControlledShutdown", last=3, flexible=3, need=Need.BROKER),
        Api(8, "OffsetCommit", last=9, flexible=8),
        Api(9, "OffsetFetch", last=9, flexible=6),
        Api(10, "FindCoordinator", last=6, flexible=3),
        Api(11, "JoinGroup", last=9, flexible=6),
        Api(12, "Heartbeat", last=4, flexible=4),
        Api(13, "LeaveGroup", last=5, flexible=4),
        Api(14, "SyncGroup", last=5, flexible=4),
        Api(15, "DescribeGroups", last=5, flexible=5),
        Api(16, "ListGroups", last=5, flexible=3),
        Api(17, "SaslHandshake", last=1, flexible=2),
        Api(18, "ApiVersions", last=4, flexible=3),
        Api(19, "CreateTopics", last=7, flexible=5),
        Api(20, "DeleteTopics", last=6, flexible=4),
        Api(21, "DeleteRecords", last=2, flexible=2),
        Api(22, "InitProducerId", last=5, flexible=2),
        Api(23, "OffsetForLeaderEpoch", last=4, flexible=4),
        Api(24, "AddPartitionsToTxn", last=5, flexible=3, need=Need.BROKER_TO_BATCH),
        Api(25, "AddOffsetsToTxn", last=4, flexible=3),
        Api(26, "EndTxn", last=4, last_of_v2=5, flexible=3),
        Api(27, "WriteTxnMarkers", last=1, last_of_v2=2, flexible=1),
        Api(28, "TxnOffsetCommit", last=4, last_of_v2=5, flexible=3),
        Api(29, "DescribeAcls", last=3, flexible=2),
        Api(30, "CreateAcls", last=3, flexible=2),
        Api(31, "DeleteAcls", last=3, flexible=2),
        Api(32, "DescribeConfigs", last=4, flexible=4),
        Api(33, "AlterConfigs", last=2, flexible=2),
        Api(34, "AlterReplicaLogDirs", last=2, flexible=2),
        Api(35, "DescribeLogDirs", last=4, flexible=2),
        Api(36, "SaslAuthenticate", last=2, flexible=2),
        Api(37, "CreatePartitions", last=3, flexible=2),
        Api(38, "CreateDelegationToken", last=3, flexible=2),
        Api(39, "RenewDelegationToken", last=2, flexible=2),
        Api(40, "ExpireDelegationToken", last=2, flexible=2),
        Api(41, "DescribeDelegationToken", last=3, flexible=2),
        Api(42, "DeleteGroups", last=2, flexible=2),
        Api(43, "ElectLeaders", last=2, flexible=2),
        Api(44, "IncrementalAlterConfigs", last=1, flexible=1),
        Api(45, "AlterPartitionReassignments", last=0, flexible=0),
        Api(46, "ListPartitionReassignments", last=0, flexible=0),
        Api(47, "OffsetDelete", last=0, flexible=1),
        Api(48, "DescribeClientQuotas", last=1, flexible=1),
        Api(49, "AlterClientQuotas", last=1, flexible=1),
        Api(50, "DescribeUserScramCredentials", last=0, flexible=0),
        Api(51, "AlterUserScramCredentials", last=0, flexible=0),
        Api(56, "AlterPartition", last=3, flexible=0, need=Need.BROKER),
        Api(60, "DescribeCluster", last=1, flexible=0),
        Api(61, "DescribeProducers", last=0, flexible=0),
        Api(65, "DescribeTransactions", last=0, flexible=0),
        Api(66, "ListTransactions", last=1, last_of_v2=2, flexible=0),
        Api(67, "AllocateProducerIds", last=0, flexible=0, need=Need.BROKER),
        Api(68, "ConsumerGroupHeartbeat", last=1, flexible=0),
        Api(69, "ConsumerGroupDescribe", last=1, flexible=0),
        Api(75, "DescribeTopicPartitions", last=0, flexible=0),
        Api(20001, "DescribeGroupJournal", last=0, flexible=0, is_advertised=False),
        Api(20002, "DescribeLogEnds", last=0, flexible=0, need=Need.BROKER, is_advertised=False),
        Api(20003, "DescribeTransactionJournal", last=0, flexible=0, is_advertised=False),
    )
}
