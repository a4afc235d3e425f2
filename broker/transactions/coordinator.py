"""The coordinator of the transactional ids whose partitions this broker leads.

The code of a shard, and all that it needs, is imported when there is one to lead.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.schema import Message

from ..coordination.interface import Session
from ..coordinators.callers import caller_of
from ..coordinators.internal_topic import InternalTopic, TopicPlan
from ..core.partition import Partition
from ..core.topic_names import TRANSACTION_STATE_TOPIC
from ..net.call import Call
from ..tasks import TaskSupervisor

if TYPE_CHECKING:
    from odradek.protocol.transaction_records import TransactionRecord

    from ..administration.topics import Topics
    from ..config import Config
    from ..coordinators.led_partition import Decide, LedPartition
    from ..coordinators.led_partitions import LedPartitions
    from ..core.transactions.markers import SendMarkers
    from ..core.transactions.settings import TransactionSettings
    from ..core.transactions.shard import TransactionShard
    from ..local_broker import LocalBroker
    from ..peers.addresses import Peers
    from .marker_queues import CallSelf, MarkerQueues

    LedShard = LedPartition[TransactionShard, TransactionRecord]
    LedShards = LedPartitions[TransactionShard, TransactionRecord]

T = TypeVar("T")


def topic_plan(config: "Config") -> TopicPlan:
    """With what `__transaction_state` is created."""
    return TopicPlan(
        partitions=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


class TransactionCoordinator:
    """All transactional ids of this broker."""

    def __init__(
        self,
        local: "LocalBroker",
        topics: "Topics",
        session: Session,
        tasks: TaskSupervisor,
        peers: "Peers",
        call_self: "CallSelf",
        ready_producer_id: Callable[[], int | None],
    ) -> None:
        """`ready_producer_id`: gives a producer id that was never used, if one is at hand."""
        self.topic = InternalTopic(TRANSACTION_STATE_TOPIC, topic_plan, local, topics, session)
        self._local = local
        self._tasks = tasks
        self._peers = peers
        self._call_self = call_self
        self._ready_producer_id = ready_producer_id
        self._shards: LedShards | None = None
        self._queues: MarkerQueues | None = None

    # Requests.

    def ask(
        self,
        decide: "Decide[TransactionShard, T]",
        transactional_id: str,
        request: T,
        call: Call,
        respond: Callable[[ErrorCode], Message],
    ) -> Message | asyncio.Future[Message]:
        """Let the shard decide with its method `decide`; the answer, or a future for it.

        `respond` creates the answer if there is no such shard here, or not yet.
        """
        try:
            led = self._led_of(transactional_id)
        except Refused as refused:
            return respond(refused.code)
        return led.ask(decide, transactional_id, request, caller_of(call))

    def shard_of(self, transactional_id: str) -> "TransactionShard":
        """The shard of a transactional id.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        return self._led_of(transactional_id).machine

    def _led_of(self, transactional_id: str) -> "LedShard":
        if self._shards is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        return self._shards.of(transactional_id)

    def shards(self) -> Iterator["TransactionShard"]:
        """All loaded shards."""
        loaded: Sequence[LedShard] = () if self._shards is None else self._shards.loaded()
        return (led.machine for led in loaded)

    @property
    def is_loading(self) -> bool:
        """Whether some shards are not loaded yet."""
        return self._shards is not None and self._shards.is_loading

    # Leading.

    def lead(self, partition: Partition) -> None:
        """This broker has become the leader of a partition of `__transaction_state`."""
        if self._shards is None:
            self._shards = self._make_shards()
        self._shards.lead(partition)

    def _make_shards(self) -> "LedShards":
        from ..coordinators.led_partitions import LedPartitions, LogSettings
        from ..core.transactions.journals import Journals
        from ..core.transactions.shard import TransactionShard
        from .marker_queues import MarkerQueues
        from .records import TRANSACTION_RECORDS

        config = self._local.config
        journals = Journals()

        def perform(led: "LedShard", effect: "SendMarkers") -> None:
            queues.send(led, effect)

        shards: LedShards = LedPartitions(
            self.topic,
            self._local,
            self._tasks,
            codec=TRANSACTION_RECORDS,
            make=lambda number: TransactionShard(
                number, self._settings, journals, self._ready_producer_id
            ),
            log_settings=lambda: LogSettings(
                load_buffer_bytes=config.transaction_state_log_load_buffer_size,
                commit_timeout_ms=None,
                waits_for_commit=True,  # markers of a decision that gets lost can't be taken back
            ),
            perform=perform,
        )
        queues = self._queues = MarkerQueues(
            self._local, self._tasks, self._peers, self._call_self, shards
        )
        return shards

    def _settings(self) -> "TransactionSettings":
        from ..core.transactions.settings import TransactionSettings

        config = self._local.config
        abort_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        expire_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        return TransactionSettings(
            version=config.odradek_transaction_version,
            abort_check_interval_ms=abort_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            expiration_check_interval_ms=expire_ms,
        )

    def numbers_in_use(self) -> set[int]:
        """The partitions that are led here and hold anything."""
        return set() if self._shards is None else self._shards.in_use()

    def resign_partitions(self, partitions: Collection[int]) -> None:
        """Partitions are led by other brokers, or went offline here."""
        if self._shards is not None:
            self._shards.resign(partitions)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        if topic == TRANSACTION_STATE_TOPIC:
            self.topic.forget()

    def close(self) -> None:
        """Stop all alarms and any loading; no marker is sent any more."""
        if self._queues is not None:
            self._queues.close()
        if self._shards is not None:
            self._shards.close()
