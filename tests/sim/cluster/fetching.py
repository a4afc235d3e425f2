"""Followers of a simulated broker: the real fetchers, one for each leader, on a simulated network.

A fetcher's coroutine is run until it asks its leader something, and goes on with the answer.
"""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"

from collections.abc import Callable, Coroutine, Generator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.broker.core.fetch_reads import Read, is_answered, is_quiet, read_all
from odradek.broker.core.fetch_session import Key, PartitionFetch
from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.news import News
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import NO_LEADER, TopicPartition
from odradek.broker.handlers.fetch_requests import begin_fetch
from odradek.broker.local_broker import LocalBroker
from odradek.broker.node import Node
from odradek.broker.peers.addresses import Peers
from odradek.broker.peers.peer import Peer, PeerFailed
from odradek.broker.replication.fetcher import Fetcher
from odradek.broker.replication.following import Following
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.storage.errors import StorageError

from .replicas import Writing
from .world import NOTHING

if TYPE_CHECKING:
    from .broker import SimBroker

POLL_MS: Final = 120
WRITE_MS: Final = 50
TIMEOUT_MS: Final = 400
LAG_MAX_MS: Final = 900
ANSWER_BYTES_MAX: Final = 1500
FETCH_VERSION: Final = 17


class Asked:
    """What a coroutine waits for."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.answer: Any = None

    def __await__(self) -> Generator["Asked", None, Any]:
        yield self
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class SimFetcher(Fetcher):
    """The real one; its rounds are begun from outside."""

    def __init__(self, broker: "SimBroker", leader_id: int) -> None:
        local = cast(LocalBroker, broker.node)
        versions = cast(Any, SimpleNamespace(fetch=None, fetch_by_name=None, list_offsets=None))
        super().__init__(
            local,
            cast(Peers, None),
            versions,
            leader_id,
            0,
        )
        self.leader_id = leader_id
        self.is_busy = False

    def _open_peer(self) -> Peer:
        async def ask(request: Any, version: object) -> Any:
            return await Asked(request)

        return cast(Peer, SimpleNamespace(ask=ask))

    def _is_hasty(self, request: FetchRequest, response: FetchResponse, took_ms: int) -> bool:
        """All leaders here are: nobody waits there for news."""
        return False

    def begin(self) -> Coroutine[Any, Any, None] | None:
        """A round, if there is anything to fetch."""
        wanted = self._due()
        return self._once(wanted) if wanted else None

    async def _once(self, wanted: list[Following]) -> None:
        try:
            if not self._must_look or await self._choose(wanted):
                await self._round()
        except PeerFailed:
            self._failed()


class Fetchers:
    """All fetchers of one process."""

    def __init__(self, broker: "SimBroker") -> None:
        self._broker = broker
        self._fetchers: dict[int, SimFetcher] = {}

    def follow(self, key: TopicPartition, partition: Partition) -> None:
        """A replica has a role: it may follow."""
        self.forget(key)
        leader = partition.state.leader
        if not partition.is_leader and leader != NO_LEADER:
            fetcher = self._fetchers.get(leader)
            if fetcher is None:
                fetcher = self._fetchers[leader] = SimFetcher(self._broker, leader)
            fetcher.follow([Following(key, partition)])

    def forget(self, key: TopicPartition) -> None:
        """Nobody is followed for a partition."""
        for fetcher in self._fetchers.values():
            fetcher.forget(key)

    def poll(self) -> object:
        """Begin what can begin, now and then."""
        self._broker.soon(POLL_MS + self._broker.world.random.randrange(20), self.poll)
        has_begun = False
        for fetcher in self._fetchers.values():
            coroutine = None if fetcher.is_busy else fetcher.begin()
            if coroutine is not None:
                has_begun = fetcher.is_busy = True
                self._go_on(fetcher, coroutine, None)
        return None if has_begun else NOTHING

    def _go_on(
        self, fetcher: SimFetcher, coroutine: Coroutine[Any, Any, None], before: Asked | None
    ) -> object:
        try:
            asked: Asked | Writing | None = coroutine.send(None)
        except StopIteration:
            fetcher.is_busy = False
            return self._check(fetcher)
        broker = self._broker
        if asked is None:  # its slice is over
            return broker.soon(0, lambda: self._go_on(fetcher, coroutine, None))
        if isinstance(asked, Writing):
            return self._write(fetcher, coroutine, asked)
        target = broker.others[fetcher.leader_id]
        losses = broker.disks.loss_count

        def handle(reply: Callable[[Any], None]) -> None:
            try:
                if isinstance(asked.request, FetchRequest):
                    reply(target.leading.serve_fetch(asked.request, losses))
                else:
                    reply(target.leading.serve_offsets(asked.request))
            except StorageError as error:  # the connection is closed
                target.replicas.note_failure(error)

        def answered(answer: Any, is_late: bool) -> object:
            if is_late:
                return NOTHING
            asked.answer = answer
            return self._go_on(fetcher, coroutine, asked)

        def failed() -> object:
            asked.answer = PeerFailed("no answer")
            return self._go_on(fetcher, coroutine, asked)

        broker.world.ask(broker, target, handle, answered, failed, TIMEOUT_MS)

    def _write(
        self, fetcher: SimFetcher, coroutine: Coroutine[Any, Any, None], writing: Writing
    ) -> object:
        """By and by; and it is known later still."""
        soon, random = self._broker.soon, self._broker.world.random

        def write() -> object:
            writing.run()
            soon(random.randrange(WRITE_MS), lambda: self._go_on(fetcher, coroutine, None))
            return NOTHING

        soon(random.randrange(WRITE_MS), write)
        return None

    def _check(self, fetcher: SimFetcher) -> object:
        for following in fetcher.followed.values():
            if following.is_current and following.lag is not None:  # it was given an answer
                self._broker.promises.replica(following.partition)


class Leading:
    """What followers and consumers ask a process for."""

    def __init__(self, broker: "SimBroker") -> None:
        self._broker = broker

    def brokers_changed(self) -> None:
        """Wait for nobody who is gone."""
        for partition in self._broker.replicas.partitions.values():
            if partition.followers:
                partition.wait_for_living(self._broker.metadata.brokers)

    def serve_fetch(self, request: FetchRequest, losses: int) -> FetchResponse:
        """Answer a follower; `losses`: how often its disks had lost something when it asked."""
        broker = self._broker
        replica_id = request.replica_state.replica_id
        now_ms = broker.world.time_ms
        fetch = begin_fetch(request, FETCH_VERSION, cast(Node, broker.node), is_follower=True)
        if fetch.error:
            return FetchResponse(error_code=fetch.error, responses=[])
        by = FetchingReplica(
            replica_id,
            is_alive=replica_id in broker.metadata.brokers,
            now_ms=now_ms,
            lag_max_ms=LAG_MAX_MS,
        )
        reads = read_all(fetch.due(now_ms), self.find, ANSWER_BYTES_MAX, replica=by)
        _watch(fetch.news, reads)
        for partition in by.proposed:
            broker.promises.joining(partition, replica_id, losses)
            broker.proposals.propose(partition)
        answered = [read for read in reads if not is_quiet(read) and is_answered(fetch, read)]
        return FetchResponse(session_id=fetch.finish(now_ms), responses=_answers(answered))

    def serve_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Where logs start and end."""
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
                try:
                    partition = self._broker.replicas.partitions.get(
                        (topic.name, asked.partition_index)
                    )
                    if partition is None:
                        raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    partition.check_leader(asked.current_leader_epoch)
                    kept = partition.log
                    is_end = asked.timestamp == -1
                    answer.offset = kept.log_end_offset if is_end else kept.log_start_offset
                except Refused as refused:
                    answer.error_code = refused.code
                answers.append(answer)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)

    def find(self, fetch: PartitionFetch) -> Partition:
        """As the Fetch handler finds it.  Raises: Refused."""
        return Node.find_by_id(cast(Node, self._broker.node), fetch)


def _watch(news: News[Key] | None, reads: Sequence[Read]) -> None:
    """A session hears of what is read, as in the Fetch handler."""
    if news is None:
        return
    for read in reads:
        if read.partition is not None:
            news.watch(read.fetch.key, read.partition, (read.partition.end_waiters,))
        news.keep(read.fetch.key, to_be_looked_at=not is_quiet(read))


def _answers(reads: Sequence[Read]) -> list[FetchableTopicResponse]:
    topics: dict[bytes, FetchableTopicResponse] = {}
    for read in reads:
        topic_id, number = cast(tuple[bytes, int], read.fetch.key)
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchableTopicResponse(topic_id=topic_id, partitions=[])
        data = PartitionData(
            partition_index=number,
            error_code=read.error,
            high_watermark=read.high_watermark,
            log_start_offset=read.log_start_offset,
        )
        if read.span is not None:
            data.records = read.span.read()
            read.span.release()
        if read.diverging_epoch is not None:
            epoch, end_offset = read.diverging_epoch
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        topic.partitions.append(data)
    return list(topics.values())
