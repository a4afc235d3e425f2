"""One transactional id at its coordinator: its committed state, and what is under way."""

from collections.abc import Collection

from odradek.protocol.errors import ErrorCode, Refused

from ..effects import Producer
from ..partition_state import TopicPartition
from .ending import check_producer
from .markers import SendMarkers
from .states import PREPARED, TransactionState
from .transaction import NONE, Snapshot


class Transaction:
    """One transactional id: its state, and what is under way."""

    __slots__ = (
        "is_loaded",
        "known",
        "markers",
        "pending",
        "transactional_id",
        "unmarked",
        "wake_ms",
    )

    def __init__(self, transactional_id: str, known: Snapshot, *, is_loaded: bool = False) -> None:
        self.transactional_id = transactional_id
        self.is_loaded = is_loaded
        """Whether it was read from the log, and did not begin with a request to this broker."""
        self.known = known
        """The last committed state."""
        self.pending: TransactionState | None = None
        """The state after the transition that is under way.  A Prepare state always has one."""
        self.markers: SendMarkers | None = None
        """In a Prepare state: the markers that are being written."""
        self.unmarked: set[TopicPartition] = set()
        """Those of their partitions whose marker is not known to be written."""
        self.wake_ms: int | None = None
        """When the coordinator must act without being asked, on the monotonic clock."""

    @property
    def exists(self) -> bool:
        """Whether the first record of the transactional id is committed."""
        return self.known.producer_epoch != NONE

    @property
    def producer(self) -> Producer:
        """The producer that may use the transactional id."""
        return Producer(self.known.producer_id, self.known.producer_epoch)

    @property
    def open_partitions(self) -> Collection[TopicPartition]:
        """The partitions in which the transaction is open."""
        return self.unmarked if self.known.state in PREPARED else self.known.partitions

    def check(self, producer: Producer) -> None:
        """Check that a request comes from the current producer.  Raises: as `check_producer`."""
        check_producer(self.known, producer)

    def check_idle(self) -> None:
        """Check that no transition is pending.  Raises: Refused (CONCURRENT_TRANSACTIONS)."""
        if self.pending is not None:
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
