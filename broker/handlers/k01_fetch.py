"""Fetch 0-17: read record batches.

Answers at once if there are `min_bytes` to give or something is wrong, otherwise waits up to
`max_wait_ms` for more. Fetch sessions of KIP-227. Records are answered as spans of segment files,
never read here. With read_committed a partition ends at its last stable offset, and the aborted
transactions are named; the client leaves their records out.

Versions 0-3 speak of older formats: partitions are answered UNSUPPORTED_VERSION, as Kafka does with
log.message.downconversion.enable=false.

Followers name their replica id. They read up to the log end, and what they ask for tells the leader
how far they are: the high watermark moves, and who has caught up is proposed for the in-sync set.
"""

import asyncio
from collections.abc import Awaitable, Iterator

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from odradek.storage.errors import CorruptLog, DamagedRecords, StorageError

from ..call import Call
from ..core.fetch_reads import HoldsBack, Lookup, Read, read_all, release_all
from ..core.fetch_session import FetchContext, Key, PartitionFetch, is_sessionless
from ..core.followers import FetchingReplica
from ..core.partition import Partition
from ..core.waiters import Waiter
from ..node import Node

RECORDS_V2_VERSION_FIRST = 4
SESSION_VERSION_FIRST = 7
TOPIC_ID_VERSION_FIRST = 13
REPLICA_STATE_VERSION_FIRST = 15
LEADERS_VERSION_FIRST = 16
NO_EPOCH = -1
_UNKNOWN_PARTITION = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
NO_REPLICA = -1
_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(
    request: FetchRequest, call: Call, node: Node
) -> FetchResponse | Awaitable[FetchResponse]:
    """Read now; wait if that is too little."""
    replica = _replica(request, call.version, node)
    fetch = _begin(request, call.version, node, is_follower=replica is not None)
    if fetch.error:
        return FetchResponse(error_code=fetch.error, responses=[])
    answer = _Answering(request, call, node, fetch, replica)
    reads = answer.read()
    if replica is not None:
        answer.replica_has_fetched()
    if answer.is_enough(reads):
        return answer.respond(reads)
    release_all(reads)
    return answer.wait(reads)


def _replica(request: FetchRequest, version: int, node: Node) -> FetchingReplica | None:
    """Who asks, if it is another broker."""
    state = request.replica_state
    by_state = version >= REPLICA_STATE_VERSION_FIRST
    replica_id = state.replica_id if by_state else request.replica_id
    if replica_id <= NO_REPLICA:
        return None
    return FetchingReplica(
        replica_id,
        broker_epoch=state.replica_epoch,
        is_alive=replica_id in node.metadata.brokers,
        now_ms=node.clock.now_ms(),
        lag_max_ms=node.config.replica_lag_time_max_ms,
    )


def _begin(request: FetchRequest, version: int, node: Node, *, is_follower: bool) -> FetchContext:
    by_id = version >= TOPIC_ID_VERSION_FIRST
    wanted = list({fetch.key: fetch for fetch in _wanted(request, by_id)}.values())
    if version < SESSION_VERSION_FIRST or is_sessionless(request.session_id, request.session_epoch):
        return FetchContext(wanted)
    forgotten: list[Key] = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return node.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        wanted,
        forgotten,
        uses_topic_ids=by_id,
        is_follower=is_follower,
        now_ms=node.clock.now_ms(),
    )


def _wanted(request: FetchRequest, by_id: bool) -> Iterator[PartitionFetch]:
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            yield PartitionFetch(
                (name, asked.partition),
                asked.fetch_offset,
                asked.partition_max_bytes,
                max(asked.current_leader_epoch, NO_EPOCH),
                asked.last_fetched_epoch,
                asked.log_start_offset,
            )


class _Answering:
    """One Fetch on its way to an answer."""

    __slots__ = (
        "_call",
        "_fetch",
        "_find",
        "_holds_back",
        "_is_news",
        "_node",
        "_replica",
        "_request",
    )

    def __init__(
        self,
        request: FetchRequest,
        call: Call,
        node: Node,
        fetch: FetchContext,
        replica: FetchingReplica | None,
    ) -> None:
        self._request = request
        self._call = call
        self._node = node
        self._fetch = fetch
        self._replica = replica
        self._is_news = True
        self._find = self._lookup()
        self._holds_back: HoldsBack | None = None
        if replica is not None:
            self._holds_back = node.throttles.holding_back(replica.replica_id)

    def read(self) -> list[Read]:
        """Read every partition; the caller answers with the spans or releases them."""
        request, replica = self._request, self._replica
        reads = read_all(
            self._fetch.partitions,
            self._find,
            min(request.max_bytes, self._node.fetch_bytes_max),
            committed=bool(request.isolation_level),
            replica=replica,
            is_news=self._is_news,
            holds_back=self._holds_back,
        )
        for read in reads:
            if read.failure is not None:
                self._node.replicas.note_failure(read.failure)
                if read.partition is not None:
                    self._note_failure(read.partition, read.fetch.fetch_offset, read.failure)
        return reads

    def replica_has_fetched(self) -> None:
        """The leaders have taken note; what they want of it is proposed to the controller.

        Reading the same once more tells nothing new.
        """
        self._is_news = False
        assert self._replica is not None
        for partition in self._replica.proposed:
            self._node.replicator.propose(partition)

    def is_enough(self, reads: list[Read]) -> bool:
        """Whether the answer need not wait."""
        if self._request.max_wait_ms <= 0 or not reads:
            return True
        size_bytes = 0
        for read in reads:
            if read.error or read.diverging_epoch is not None:
                return True
            size_bytes += read.size_bytes
        return size_bytes >= self._request.min_bytes

    async def wait(self, reads: list[Read]) -> FetchResponse:
        """Read again whenever something is appended, until it is enough or time is up.

        `reads` were not enough, and have been released.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._request.max_wait_ms / 1000
        news = asyncio.Event()
        partitions = [read.partition for read in reads if read.partition is not None]
        for partition in partitions:
            self._waiters(partition).add(news.set)
        if any(
            map(self._is_outdated, reads)
        ):  # between the first read and here others had their turn
            news.set()
        timer = loop.call_at(deadline, news.set)
        try:
            while True:
                await news.wait()
                news.clear()
                reads = self.read()
                if self.is_enough(reads) or loop.time() >= deadline:
                    return self.respond(reads)
                release_all(reads)
        finally:
            timer.cancel()
            for partition in partitions:
                self._waiters(partition).discard(news.set)

    def _waiters(self, partition: Partition) -> set[Waiter]:
        return partition.waiters if self._replica is None else partition.end_waiters

    def _is_outdated(self, read: Read) -> bool:
        """Whether reading again would give something else."""
        partition = read.partition
        if partition is None or not partition.is_leader:
            return True
        if self._replica is not None:
            return partition.log.log_end_offset > read.fetch.fetch_offset
        return partition.log.high_watermark != read.high_watermark

    def respond(self, reads: list[Read]) -> FetchResponse:
        """The answer; its spans are given back by who sends it."""
        fetch = self._fetch
        if fetch.superseded:
            release_all(reads)
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=fetch.session_id,
                responses=[],
            )
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for read in reads:
            if not fetch.include(
                read.fetch,
                high_watermark=read.high_watermark,
                log_start_offset=read.log_start_offset,
                records_size_bytes=read.size_bytes,
                has_news=read.error != ErrorCode.NONE or read.diverging_epoch is not None,
            ):
                continue
            topic, _ = read.fetch.key
            response = topics.get(topic)
            if response is None:
                response = topics[topic] = FetchableTopicResponse()
                if isinstance(topic, str):
                    response.topic = topic
                else:
                    response.topic_id = topic
            response.partitions.append(self._partition_data(read))
        session_id = fetch.finish(self._node.clock.now_ms())
        answer = FetchResponse(session_id=session_id, responses=list(topics.values()))
        if self._replica is not None:
            self._node.throttles.sent(reads, answer, self._call.version)
        if self._replica is not None:
            self._note_given(reads, self._replica.replica_id)
        if self._call.version >= LEADERS_VERSION_FIRST:
            self._name_leaders(answer)
        return answer

    def _note_given(self, reads: list[Read], replica_id: int) -> None:
        """A follower that asks for the same again and again may have found it damaged."""
        for read in reads:
            if read.size_bytes and read.partition is not None:
                follower = read.partition.followers.get(replica_id)
                offset = read.fetch.fetch_offset
                if follower is not None and not follower.can_take(offset):
                    self._doubt(read.partition, offset, f"broker {replica_id} can't take them")

    def _note_failure(self, partition: Partition, offset: int, failure: StorageError) -> None:
        if isinstance(failure, DamagedRecords):
            self._node.replicas.renewals.want(partition.log)
        elif isinstance(failure, CorruptLog):
            self._doubt(partition, offset, "they can't be read")

    def _doubt(self, partition: Partition, offset: int, reason: str) -> None:
        self._node.replicas.doubts.doubt(partition.log, offset, reason)

    def _lookup(self) -> Lookup:
        node, version = self._node, self._call.version
        find = node.find_by_name if version < TOPIC_ID_VERSION_FIRST else node.find_by_id
        if version < RECORDS_V2_VERSION_FIRST:
            if self._replica is not None:  # no follower speaks so
                return _refusing(find, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return _refusing(find, ErrorCode.UNSUPPORTED_VERSION)
        return find

    def _partition_data(self, read: Read) -> PartitionData:
        data = PartitionData(
            partition_index=read.fetch.key[1],
            error_code=read.error,
            high_watermark=read.high_watermark,
            last_stable_offset=read.last_stable_offset,
            log_start_offset=read.log_start_offset,
            aborted_transactions=None,
            records=b"" if read.span is None else read.span,
        )
        if read.diverging_epoch is not None:
            epoch, end_offset = read.diverging_epoch
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        if read.error == ErrorCode.UNSUPPORTED_VERSION:
            data.records = None
        committed = self._request.isolation_level and not read.error
        if committed or read.error in _UNKNOWN_PARTITION:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset, *_ in read.aborted
            ]
        return data

    def _name_leaders(self, response: FetchResponse) -> None:
        """Tell a client that asked the wrong broker whom to ask (KIP-951)."""
        metadata = self._node.metadata
        leaders = set()
        for topic in response.responses:
            name = metadata.topic_name(topic.topic_id)
            for data in topic.partitions:
                if data.error_code in _WRONG_LEADER and name is not None:
                    state = metadata.partition(name, data.partition_index)
                    if state is not None:
                        data.current_leader.leader_id = state.leader
                        data.current_leader.leader_epoch = state.leader_epoch
                        leaders.add(state.leader)
        for broker in metadata.brokers.values():
            endpoint = broker.endpoints.get(self._call.peer.listener_name)
            if broker.broker_id in leaders and endpoint is not None:
                response.node_endpoints.append(
                    NodeEndpoint(
                        node_id=broker.broker_id,
                        host=endpoint.host,
                        port=endpoint.port,
                        rack=broker.rack,
                    )
                )


def _refusing(find: Lookup, code: ErrorCode) -> Lookup:
    """A lookup that refuses every partition that exists."""

    def refuse(fetch: PartitionFetch) -> Partition:
        find(fetch)
        raise Refused(code)

    return refuse
