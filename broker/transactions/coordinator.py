"""The coordinator of the transactional ids whose partitions this broker leads.

The code of a shard, and all that it needs, is imported when there is one to lead.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..coordination.interface import Session
from ..coordinators.coordinator import LeadingCoordinator
from ..coordinators.internal_topic import InternalTopic, TopicPlan
from ..core.topic_names import TRANSACTION_STATE_TOPIC
from ..tasks import TaskSupervisor

if TYPE_CHECKING:
    from odradek.protocol.transaction_records import TransactionRecord

    from ..administration.topics import Topics
    from ..config import Config
    from ..coordinators.led_partition import LedPartition
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


class TransactionCoordinator(LeadingCoordinator["TransactionShard", "TransactionRecord"]):
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
        self._queues: MarkerQueues | None = None

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

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        if topic == TRANSACTION_STATE_TOPIC:
            self.topic.forget()

    def close(self) -> None:
        """Stop all alarms and any loading; no marker is sent any more."""
        if self._queues is not None:
            self._queues.close()
        super().close()
