"""Sends the markers that end transactions to the leaders of their partitions, until all are there.

Each broker has one queue. What is queued goes out in one WriteTxnMarkers, up to a bound, and one
request is in flight at a time. This broker's own partitions are written by a direct call, at once.
A marker that can't be written now is routed again after a pause: its partition may have another
leader by then. Markers may be written twice; the second one ends nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.schema import Message
from odradek.protocol.transaction_records import TransactionRecord

from ..coordinators.led_partition import LedPartition
from ..coordinators.led_partitions import LedPartitions
from ..core.partition_state import NO_LEADER, TopicPartition, by_topic
from ..core.transactions.markers import SendMarkers
from ..core.transactions.shard import TransactionShard
from ..peers.peer import PeerFailed
from ..peers.peer_connections import PeerConnections
from ..peers.trouble import Trouble
from ..tasks import TaskSupervisor

if TYPE_CHECKING:
    from ..local_broker import LocalBroker
    from ..peers.addresses import Peers

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.05
MARKERS_MAX: Final = 500
"""Per request: its receiver appends all of them before it serves others."""
VERSION_OF_V2: Final = 2
"""Of WriteTxnMarkers; it names the version of transactions of each marker."""
_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""A later coordinator has ended this transaction, or a later one of the producer."""

LedShard = LedPartition[TransactionShard, TransactionRecord]
CallSelf = Callable[[Message, int], Message | Awaitable[Message]]
"""Has this broker's own handler answer a request."""


class Marker(NamedTuple):
    """One transaction's markers in some of its partitions."""

    led: LedShard
    effect: SendMarkers
    partitions: frozenset[TopicPartition]


class MarkerQueues:
    """The markers that are still to be written, by broker."""

    def __init__(
        self,
        local: "LocalBroker",
        tasks: TaskSupervisor,
        peers: "Peers",
        call_self: CallSelf,
        shards: LedPartitions[TransactionShard, TransactionRecord],
    ) -> None:
        self._local = local
        self._tasks = tasks
        self._version = peers.versions.write_txn_markers
        if local.config.odradek_transaction_version:
            self._version = VERSION_OF_V2
        self._call_self = call_self
        self._shards = shards
        self._queues: dict[int, deque[Marker]] = {}
        """The markers for each broker to which a task is sending."""
        self._connections = PeerConnections(
            peers, local.broker_id, timeout_ms=local.config.request_timeout_ms
        )
        self._later: list[Marker] = []
        self._timer: asyncio.TimerHandle | None = None
        self._trouble = Trouble()

    def send(self, led: LedShard, effect: SendMarkers) -> None:
        """Have markers written, and tell the shard of each."""
        self._route([Marker(led, effect, effect.partitions)])

    def close(self) -> None:
        """Send nothing more."""
        self._later.clear()
        self._queues.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._connections.close()

    def _route(self, markers: Iterable[Marker]) -> None:
        """Pass markers on to the leaders of their partitions."""
        own: list[Marker] = []
        for marker in self._still_due(markers):
            for leader, partitions in self._by_leader(marker.partitions).items():
                part = marker._replace(partitions=frozenset(partitions))
                if leader is None:
                    self._written(part)
                elif leader == self._local.broker_id:
                    own.append(part)
                elif leader in self._local.metadata.brokers:
                    self._enqueue(leader, part)
                else:
                    self._route_later([part])
        if own:
            self._write_here(own)

    def _still_due(self, markers: Iterable[Marker]) -> list[Marker]:
        """Those that this broker still has to send; another coordinator sends the others."""
        return [m for m in markers if self._shards.has(m.led.machine.partition, m.led)]

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[int | None, set[TopicPartition]]:
        """The partitions by their leaders; None: they were deleted."""
        metadata = self._local.metadata
        unknown = None if metadata.is_told else NO_LEADER
        by_leader: dict[int | None, set[TopicPartition]] = {}
        for topic, number in partitions:
            state = metadata.partition(topic, number)
            leader = unknown if state is None else state.leader
            by_leader.setdefault(leader, set()).add((topic, number))
        return by_leader

    def _route_later(self, markers: Iterable[Marker]) -> None:
        self._later += markers
        if self._later and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        markers, self._later = self._later, []
        self._route(markers)

    # To this broker.

    def _write_here(self, markers: Sequence[Marker]) -> None:
        answer = self._call_self(_request_of(markers), self._version)
        if isinstance(answer, Message):
            self._answered(markers, answer)
        else:
            self._tasks.spawn(self._await_own(markers, answer), "write own markers")

    async def _await_own(self, markers: Sequence[Marker], answer: Awaitable[Message]) -> None:
        self._answered(markers, await answer)

    # To another broker.

    def _enqueue(self, broker_id: int, marker: Marker) -> None:
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = deque()
            self._tasks.spawn(self._send_all(broker_id, queue), f"markers to {broker_id}")
        queue.append(marker)

    async def _send_all(self, broker_id: int, queue: deque[Marker]) -> None:
        """Send what is queued for a broker; return when nothing is."""
        while queue:
            count = min(MARKERS_MAX, len(queue))
            markers = self._still_due([queue.popleft() for _ in range(count)])
            if not markers:
                continue
            try:
                request = _request_of(markers)
                answer = await self._connections.ask(broker_id, request, self._version)
            except PeerFailed as failed:
                if self._trouble.begins(self._local.clock.now_ms()):
                    logger.warning("markers not sent broker=%d reason=%s", broker_id, failed)
                self._route_later(markers)
            else:
                self._trouble.ends()
                self._answered(markers, answer)
        self._queues.pop(broker_id, None)

    # Answers.

    def _answered(self, markers: Sequence[Marker], answer: Message) -> None:
        assert isinstance(answer, WriteTxnMarkersResponse)
        codes = {
            (result.producer_id, topic.name, partition.partition_index): partition.error_code
            for result in answer.markers
            for topic in result.topics
            for partition in topic.partitions
        }
        for marker in markers:
            written, again = set(), set()
            for key in marker.partitions:
                code = codes.get((marker.effect.producer.producer_id, *key))
                if code in _WRITTEN:
                    written.add(key)
                elif code in _FENCED:
                    self._refused(marker, key, error_code(code))
                else:
                    again.add(key)
            self._route_later([marker._replace(partitions=frozenset(again))] if again else ())
            if written:
                self._written(marker._replace(partitions=frozenset(written)))

    def _refused(self, marker: Marker, key: TopicPartition, code: ErrorCode) -> None:
        led, effect = marker.led, marker.effect
        logger.warning(
            "marker refused, the transaction stays open transactional_id=%r topic=%s partition=%d"
            " reason=%s",
            effect.transactional_id,
            *key,
            code.name,
        )
        if self._shards.has(led.machine.partition, led):
            led.machine.marker_refused(effect, key, code, led.moment())

    def _written(self, marker: Marker) -> None:
        led, effect = marker.led, marker.effect
        if self._still_due([marker]):
            effects = led.machine.marked(effect, marker.partitions, led.moment())
            led.run(effect.transactional_id, effects)


def _request_of(markers: Iterable[Marker]) -> WriteTxnMarkersRequest:
    request = WriteTxnMarkersRequest(markers=[])
    for marker in markers:
        producer = marker.effect.producer
        request.markers.append(
            WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=marker.effect.commits,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic(marker.partitions).items()
                ],
                coordinator_epoch=marker.led.leader_epoch,
                transaction_version=marker.effect.client_version,
            )
        )
    return request
