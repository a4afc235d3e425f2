"""Fetch 0-17: read record batches.

The answer is immediate if `min_bytes` are available or there is an error; otherwise it waits up to
`max_wait_ms` for more. Fetch sessions (KIP-227) are supported. Records are returned as spans of
segment files and are not read here. With read_committed a partition ends at its last stable offset,
and the answer lists the aborted transactions, whose records the client leaves out.

Versions 0-3 expect older formats: partitions are answered UNSUPPORTED_VERSION, as Kafka does with
log.message.downconversion.enable=false.

From v11 on a consumer names its rack (KIP-392). Instead of records, a leader with a replica
selector returns the replica that the consumer should read from, and followers serve the consumer up
to their own high watermark. To keep that up to date, such a leader answers a follower's delayed
Fetch as soon as it has a newer high watermark to report.

A consumer that exceeds a quota gets no partitions: they are as if they had not been read. It gets
no more at a time than it could have without being throttled, as larger answers would never come.

Followers send their replica id and read up to the log end. Their fetch offsets tell the leader how
far they have replicated: it advances the high watermark, and proposes followers that have caught up
for the ISR.
"""

from collections.abc import Awaitable, Sequence

from odradek.protocol.errors import ErrorCode
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

from ..core.fetch_reads import (
    HoldsBack,
    Nearest,
    Read,
    is_answered,
    is_news,
    is_quiet,
    read_all,
    release_all,
    would_be_answered,
)
from ..core.fetch_session import FetchContext, Key, PartitionFetch
from ..core.fetch_topics import part_of
from ..core.followers import FetchingReplica
from ..core.news import News
from ..core.partition import Partition
from ..core.waiters import Waiters
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from .delayed_fetch import DelayedFetch
from .fetch_requests import begin_fetch, lookup_of, replica_id_of, replica_of
from .leader_hints import current_leader, endpoints

ANY_REPLICA_VERSION_FIRST = 11
LEADERS_VERSION_FIRST = 16
LENGTH_BYTES = 4
NO_OFFSET = -1
_NOT_LOOKED_AT = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(
    request: FetchRequest, call: Call, node: Node, rights: Rights | None = None
) -> FetchResponse | Awaitable[FetchResponse]:
    """Read now; wait if that is not enough."""
    replica = replica_of(request, call.version, node)
    fetch = begin_fetch(request, call.version, node, is_follower=replica is not None)
    if fetch.error:
        return FetchResponse(error_code=fetch.error, responses=[])
    if replica is not None:
        call.usage = None  # followers have no quota
    answer = _Answering(request, call, node, fetch, replica, rights)
    reads = answer.read()
    if replica is not None:
        answer.replica_has_fetched()
    if answer.is_enough(reads):
        return answer.respond(reads)
    release_all(reads)
    node.settled_answers.send()  # first answer the producers that waited for this follower
    return answer.wait(reads)


guarded = handle


def refuse(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse | None:
    """Refuse a follower each partition, with Kafka's code; None: a consumer may fetch."""
    if replica_id_of(request, version) < 0:
        return None
    if request.session_epoch > 0:  # no follower can have begun a session here
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        high_watermark=NO_OFFSET,
                        records=b"",
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


class _Answering:
    """The processing of one Fetch."""

    __slots__ = (
        "_at_any_replica",
        "_bytes_max",
        "_call",
        "_fetch",
        "_find",
        "_holds_back",
        "_is_news",
        "_nearest",
        "_node",
        "_own_news",
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
        rights: Rights | None,
    ) -> None:
        self._request = request
        self._call = call
        self._node = node
        self._fetch = fetch
        self._replica = replica
        self._is_news = True
        self._bytes_max = min(request.max_bytes, node.fetch_bytes_max)
        if call.usage is not None:
            self._bytes_max = min(self._bytes_max, call.usage.fetch_bytes_max)
        self._find = lookup_of(call, node, is_follower=replica is not None, rights=rights)
        self._at_any_replica = call.version >= ANY_REPLICA_VERSION_FIRST
        self._nearest = self._nearest_replica()
        self._own_news: News[Key] | None = None
        """News of the partitions waited for, if no session watches them."""
        self._holds_back: HoldsBack | None = None
        if replica is not None:
            self._holds_back = node.throttles.holding_back(replica.replica_id)

    def _nearest_replica(self) -> Nearest | None:
        """How to redirect a consumer that names its rack to another replica; None: do not."""
        nearest, rack = self._node.nearest_replica, self._request.rack_id
        if nearest is None or not rack or self._replica is not None or not self._at_any_replica:
            return None
        return nearest.of(rack, self._call.client.entrance)

    def read(self) -> list[Read]:
        """Read the partitions that are due; the caller answers with the spans or releases them."""
        return self._read(self._fetch.due(self._node.clock.now_ms()))

    def read_again(self, reads: list[Read]) -> list[Read]:
        """Return `reads`, reading again partitions that have news or returned records."""
        if self._own_news is None:
            return self.read()
        changed, self._own_news.noted = self._own_news.noted, {}
        numbers = [
            number
            for number, read in enumerate(reads)
            if read.fetch.key in changed or read.span is not None
        ]
        reads = reads.copy()
        for number, read in zip(
            numbers, self._read([reads[number].fetch for number in numbers]), strict=True
        ):
            reads[number] = read
        return reads

    def _read(self, fetches: list[PartitionFetch]) -> list[Read]:
        replica = self._replica
        reads = read_all(
            fetches,
            self._find,
            self._bytes_max,
            committed=bool(self._request.isolation_level),
            at_any_replica=self._at_any_replica,
            nearest=self._nearest,
            replica=replica,
            is_news=self._is_news,
            holds_back=self._holds_back,
        )
        news = self._fetch.news
        for read in reads:
            if read.failure is not None:
                self._node.replicas.note_failure(read.failure)
                if read.partition is not None:
                    self._note_failure(read.partition, read.fetch.fetch_offset, read.failure)
            if news is not None:
                self._watch(news, read)
                news.keep(read.fetch.key, to_be_looked_at=not is_quiet(read))
        return reads

    def replica_has_fetched(self) -> None:
        """Propose to the controller the ISR changes that follow from this Fetch.

        The leaders have noted the follower's offsets; later reads of the same Fetch add nothing.
        """
        self._is_news = False
        assert self._replica is not None
        for partition in self._replica.proposed:
            self._node.replicator.propose(partition)

    def is_enough(self, reads: list[Read]) -> bool:
        """Whether the answer can be sent now."""
        if self._request.max_wait_ms <= 0 or self._fetch.is_empty:
            return True
        size_bytes = 0
        for read in reads:
            if is_quiet(read):
                continue
            if is_news(read) or self._must_tell(read):
                return True
            size_bytes += read.size_bytes
        return size_bytes >= min(self._request.min_bytes, self._bytes_max)

    def wait(self, reads: list[Read]) -> DelayedFetch:
        """Read again whenever a partition has news, until it is enough or time is up.

        `reads` were not enough and have been released.
        """
        news = self._fetch.news
        if news is None:
            news = self._own_news = News()
            for read in reads:
                self._watch(news, read)
        for read in reads:
            if self._is_outdated(read):  # a producer that was answered may have appended since
                news.note(read.fetch.key)
        wait_s = self._request.max_wait_ms / 1000
        return DelayedFetch(self, reads, news, wait_s=wait_s, moves=self._node.clock.moves)

    def end(self) -> None:
        """Stop watching for news."""
        if self._own_news is not None:
            self._own_news.end()

    def _watch(self, news: News[Key], read: Read) -> None:
        if read.partition is not None:
            news.watch(read.fetch.key, read.partition, self._waiters(read.partition))

    def _waiters(self, partition: Partition) -> Sequence[Waiters]:
        if self._replica is None:
            return (partition.waiters,)
        if self._node.nearest_replica is None:
            return (partition.end_waiters,)
        return partition.waiters, partition.end_waiters

    def _is_outdated(self, read: Read) -> bool:
        """Whether reading again would return something else."""
        partition = read.partition
        if partition is None:
            return True
        if self._replica is None:
            return partition.log.high_watermark != read.high_watermark
        return partition.log.log_end_offset > read.fetch.fetch_offset

    def _must_tell(self, read: Read) -> bool:
        """Whether a follower has records that its readers cannot see until it is answered."""
        replica, partition = self._replica, read.partition
        if replica is None or partition is None or self._node.nearest_replica is None:
            return False
        return partition.must_tell(replica.replica_id)

    def respond(self, reads: list[Read]) -> FetchResponse:
        """Build the answer; its spans are released by the sender."""
        fetch = self._fetch
        if fetch.superseded:
            release_all(reads)
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=fetch.session_id,
                responses=[],
            )
        usage = self._call.usage
        if usage is not None:
            throttle_ms = usage.settle_fetch(lambda: self._size_bytes(reads))
            if throttle_ms:
                release_all(reads)
                session_id = fetch.session_id
                return FetchResponse(
                    throttle_time_ms=throttle_ms, session_id=session_id, responses=[]
                )
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        reads = [read for read in reads if not is_quiet(read)]
        self._note_told(reads)
        for read in reads:
            if not is_answered(fetch, read):
                continue
            response = part_of(topics, read.fetch.topic, FetchableTopicResponse)
            response.partitions.append(self._partition_data(read))
        session_id = fetch.finish(self._node.clock.now_ms())
        answer = FetchResponse(session_id=session_id, responses=list(topics.values()))
        if self._replica is not None:
            self._node.throttles.sent(reads, answer, self._call.version)
            self._note_given(reads, self._replica.replica_id)
        if self._call.version >= LEADERS_VERSION_FIRST:
            self._name_leaders(answer)
        return answer

    def _size_bytes(self, reads: list[Read]) -> int:
        """The size of the answer with these reads, as Kafka counts it."""
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for read in reads:
            if would_be_answered(self._fetch, read):
                response = part_of(topics, read.fetch.topic, FetchableTopicResponse)
                response.partitions.append(self._partition_data(read))
        out = FetchResponse(responses=list(topics.values())).encode(self._call.version)
        return LENGTH_BYTES + len(out) + out.spliced_bytes

    def _note_given(self, reads: list[Read], replica_id: int) -> None:
        """Report records that a follower keeps fetching: it may have found them damaged."""
        for read in reads:
            if read.size_bytes and read.partition is not None:
                follower = read.partition.followers.get(replica_id)
                offset = read.fetch.fetch_offset
                if follower is not None and not follower.can_take(offset):
                    self._doubt(read.partition, offset, f"broker {replica_id} can't take them")

    def _note_failure(self, partition: Partition, offset: int, failure: StorageError) -> None:
        if isinstance(failure, DamagedRecords):
            self._node.replicas.damaged.want(partition.log)
        elif isinstance(failure, CorruptLog):
            self._doubt(partition, offset, "they can't be read")

    def _doubt(self, partition: Partition, offset: int, reason: str) -> None:
        self._node.replicas.damage_reports.report(partition.log, offset, reason)

    def _note_told(self, reads: list[Read]) -> None:
        """Note that a follower is told these high watermarks."""
        if self._replica is None or self._node.nearest_replica is None:
            return
        for read in reads:
            if read.partition is not None and not is_news(read):
                read.partition.told(self._replica.replica_id, read.high_watermark)

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
        if read.preferred is not None:
            data.preferred_read_replica = read.preferred
        if read.error == ErrorCode.UNSUPPORTED_VERSION:
            data.records = None
        committed = self._request.isolation_level and not is_news(read)
        if committed or read.error in _NOT_LOOKED_AT:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset, *_ in read.aborted
            ]
        return data

    def _name_leaders(self, response: FetchResponse) -> None:
        """Tell a client that fetched from the wrong broker where the leaders are (KIP-951)."""
        node, leaders = self._node, set()
        for topic in response.responses:
            for data in topic.partitions:
                if not data.error_code or data.error_code not in _WRONG_LEADER:
                    continue
                name = node.metadata.topic_name(topic.topic_id)
                if name is not None:
                    leader, epoch = current_leader(node, name, data.partition_index)
                    data.current_leader.leader_id, data.current_leader.leader_epoch = leader, epoch
                    leaders.add(leader)
        if leaders:
            listener_name = self._call.client.entrance
            response.node_endpoints = endpoints(node, leaders, listener_name, NodeEndpoint)
