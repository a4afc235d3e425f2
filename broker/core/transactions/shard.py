"""The transactional ids in one partition of `__transaction_state`.

Each event takes effect in two steps. The snapshot after it is appended, and the event is then the
transaction's pending transition. Once the append is committed, the snapshot is the state. Meanwhile
other requests for this transactional id get CONCURRENT_TRANSACTIONS, and clients retry them.

An append that the log has taken is never given up: it may be committed later. So a transition stays
pending until the high watermark has passed it, or another broker leads the partition.

Source: the behaviour of TransactionCoordinator and TransactionStateManager of Kafka 3.9.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.transaction_records import TransactionRecord

from ..effects import Answer, AppendRecords, Caller, Effect, Producer, Reply
from ..groups.codes import group_code_of
from ..moment import Moment
from ..partition_state import TopicPartition
from . import transaction as after
from .markers import SendMarkers
from .requests import AddPartitions, EndTransaction, Filters, InitProducer
from .settings import TransactionSettings
from .states import PREPARED, TransactionState
from .transaction import NONE, Snapshot, needs_producer_id, snapshot_of

RETRY_MS: Final = 100
"""The pause before the record of a complete transaction is appended again."""
_COMMITTED: Final = (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_COMPLETE: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}

Then = Callable[[ErrorCode], Sequence[Effect]]


class Transaction:
    """One transactional id: its state, and what is under way."""

    __slots__ = ("known", "markers", "pending", "transactional_id", "unmarked", "wake_ms")

    def __init__(self, transactional_id: str, known: Snapshot) -> None:
        self.transactional_id = transactional_id
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
    def producer(self) -> Producer:
        """The producer that may use the transactional id."""
        return Producer(self.known.producer_id, self.known.producer_epoch)

    @property
    def open_partitions(self) -> Collection[TopicPartition]:
        """The partitions in which the transaction is open."""
        return self.unmarked if self.known.state in PREPARED else self.known.partitions

    def check(self, producer: Producer) -> None:
        """Check that a request comes from the current producer.

        Raises: Refused (INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED).
        """
        if producer.producer_id != self.known.producer_id:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.producer_epoch != self.known.producer_epoch:
            raise Refused(ErrorCode.PRODUCER_FENCED)

    def check_idle(self) -> None:
        """Check that no transition is pending.  Raises: Refused (CONCURRENT_TRANSACTIONS)."""
        if self.pending is not None:
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)


class TransactionShard:
    """All transactional ids of one partition."""

    def __init__(self, partition: int, settings: Callable[[], TransactionSettings]) -> None:
        self.partition = partition
        self._settings = settings
        self._transactions: dict[str, Transaction] = {}
        self._moment = Moment(0, 0)

    # Requests of producers.

    def needs_producer_id(self, transactional_id: str, claimed: Producer | None) -> bool:
        """Whether `init_producer` will need a new producer id."""
        transaction = self._transactions.get(transactional_id)
        return needs_producer_id(None if transaction is None else transaction.known, claimed)

    def init_producer(
        self, request: InitProducer, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """InitProducerId: fence older producers, and abort what they left open."""
        self._moment = moment

        def refuse(code: ErrorCode) -> list[Effect]:
            return [Answer(reply, request.respond(code, Producer(NONE, NONE)))]

        transaction = self._transactions.get(request.transactional_id)
        needs_id = self.needs_producer_id(request.transactional_id, request.claimed)
        new_id = request.new_producer_id
        if needs_id and new_id is None:  # it was used up since the request came
            return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction is None:
            assert new_id is not None
            known = Snapshot(new_id, NONE, request.timeout_ms)
            transaction = Transaction(request.transactional_id, known)
            self._transactions[request.transactional_id] = transaction
        if transaction.known.is_ongoing and transaction.pending is None:
            return self._fence(transaction, request.claimed, refuse)
        try:
            transaction.check_idle()
            after_it = after.initialized(
                transaction.known,
                request.claimed,
                NONE if new_id is None else new_id,
                request.timeout_ms,
                moment.wall_ms,
            )
        except Refused as refused:
            return refuse(refused.code)

        def then(code: ErrorCode) -> list[Effect]:
            if code:
                return refuse(code)
            producer = Producer(after_it.producer_id, after_it.producer_epoch)
            return [Answer(reply, request.respond(code, producer))]

        return self._write(transaction, after_it, then)

    def _fence(
        self,
        transaction: Transaction,
        claimed: Producer | None,
        refuse: Callable[[ErrorCode], list[Effect]],
    ) -> Sequence[Effect]:
        """Abort the open transaction of the older producer; the new one has to ask again."""
        try:
            after.check_claim(transaction.known, claimed)
        except Refused as refused:
            return refuse(refused.code)
        return self._abort(
            transaction, lambda code: refuse(code or ErrorCode.CONCURRENT_TRANSACTIONS)
        )

    def add_partitions(
        self, request: AddPartitions, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """AddPartitionsToTxn, AddOffsetsToTxn: begin a transaction, or extend it."""
        self._moment = moment

        def respond(code: ErrorCode) -> list[Effect]:
            return [Answer(reply, request.respond(code))]

        try:
            transaction = self._found(request.transactional_id)
            transaction.check(request.producer)
            transaction.check_idle()
        except Refused as refused:
            return respond(refused.code)
        known = transaction.known
        if known.is_ongoing and known.partitions.issuperset(request.partitions):
            return respond(ErrorCode.NONE)
        after_it = after.with_partitions(known, request.partitions, moment.wall_ms)
        return self._write(transaction, after_it, respond)

    def missing_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
    ) -> set[TopicPartition]:
        """Those of the partitions that are not in the producer's open transaction (KIP-890).

        Raises: Refused.
        """
        transaction = self._found(transactional_id)
        transaction.check(producer)
        if transaction.known.state in PREPARED:
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        return set(partitions) - transaction.known.partitions

    def end(
        self, request: EndTransaction, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """EndTxn: it is answered once the decision is committed; the markers follow."""
        self._moment = moment

        def respond(code: ErrorCode) -> list[Effect]:
            return [Answer(reply, request.respond(code))]

        try:
            transaction = self._found(request.transactional_id)
            transaction.check(request.producer)
            transaction.check_idle()
            if _is_ended(transaction.known.state, commits=request.commits):
                return respond(ErrorCode.NONE)
        except Refused as refused:
            return respond(refused.code)
        after_it = after.prepared(
            transaction.known, commits=request.commits, wall_ms=moment.wall_ms
        )
        return self._prepare(transaction, after_it, respond)

    def _abort(self, transaction: Transaction, then: Then) -> Sequence[Effect]:
        """Abort an open transaction, and fence its producer."""
        after_it = after.fenced(transaction.known, self._moment.wall_ms)
        return self._prepare(transaction, after_it, then)

    # The end of a transaction.

    def _prepare(
        self, transaction: Transaction, after_it: Snapshot, then: Then
    ) -> Sequence[Effect]:
        def decided(code: ErrorCode) -> list[Effect]:
            effects = list(then(code))
            return effects if code else [*effects, *self._mark(transaction)]

        return self._write(transaction, after_it, decided)

    def _mark(self, transaction: Transaction) -> Sequence[Effect]:
        """Begin to write the markers."""
        known = transaction.known
        transaction.pending = _COMPLETE[known.state]
        transaction.wake_ms = None
        transaction.unmarked = set(known.partitions)
        if not known.partitions:
            return self._complete(transaction)
        transaction.markers = SendMarkers(
            transaction.transactional_id,
            transaction.producer,
            known.state is TransactionState.PREPARE_COMMIT,
            known.partitions,
        )
        return [transaction.markers]

    def marked(
        self, markers: SendMarkers, partitions: Iterable[TopicPartition], moment: Moment
    ) -> Sequence[Effect]:
        """The markers in these partitions are committed, or the partitions no longer exist.

        News of another transaction's markers is ignored: the producer may be the same.
        """
        self._moment = moment
        transaction = self._transactions.get(markers.transactional_id)
        if transaction is None or transaction.markers is not markers:
            return ()
        transaction.unmarked.difference_update(partitions)
        return () if transaction.unmarked else self._complete(transaction)

    def _complete(self, transaction: Transaction) -> Sequence[Effect]:
        transaction.markers = None
        after_it = after.completed(transaction.known, self._moment.wall_ms)

        def then(code: ErrorCode) -> Sequence[Effect]:
            if code:
                transaction.pending = after_it.state
                transaction.wake_ms = self._moment.now_ms + RETRY_MS
            return ()

        return self._write(transaction, after_it, then)

    # Administration.

    def describe(self, transactional_id: str) -> Transaction:
        """One transactional id.  Raises: Refused (TRANSACTIONAL_ID_NOT_FOUND)."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.known.producer_epoch == NONE:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction

    def listed(self, filters: Filters, wall_ms: int) -> Iterator[Transaction]:
        """The transactional ids that pass the filters."""
        for transaction in self._transactions.values():
            known = transaction.known
            is_long = filters.duration_ms < 0 or wall_ms - known.start_ms > filters.duration_ms
            if (
                is_long
                and known.producer_epoch != NONE
                and (filters.states is None or known.state.kafka_name in filters.states)
                and (filters.producer_ids is None or known.producer_id in filters.producer_ids)
            ):
                yield transaction

    # Time.

    @property
    def ids(self) -> Iterable[str]:
        """All transactional ids."""
        return self._transactions

    def wake_ms(self, transactional_id: str) -> int | None:
        """When to call `on_time` next, or None."""
        transaction = self._transactions.get(transactional_id)
        return None if transaction is None else transaction.wake_ms

    def on_time(self, transactional_id: str, moment: Moment) -> Sequence[Effect]:
        """Abort what has been open for too long, forget unused ids, and go on with an end."""
        self._moment = moment
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not _is_due(transaction.wake_ms, moment.now_ms):
            return ()
        transaction.wake_ms = None
        state = transaction.known.state
        if state in PREPARED:
            begin = self._mark if transaction.unmarked else self._complete
            return begin(transaction)
        if transaction.pending is not None:  # the time is set when it has settled
            return ()
        if transaction.known.is_ongoing:
            return self._abort(transaction, lambda code: ())
        if moment.wall_ms - transaction.known.update_ms >= self._settings().id_expiration_ms:
            return self._write(transaction, after.expired(transaction.known), lambda code: ())
        self._set_wake(transaction, moment)
        return ()

    def _set_wake(self, transaction: Transaction, since: Moment) -> None:
        """Set the time of the abort or of the expiration, at most one interval of checks late.

        Ids are spread over the interval, because thousands at once would delay the broker's loop.
        `since`: when the state was written.  If that was here, the monotonic clock counts from
        then on, and a jump of the wall clock does not matter.
        """
        known, (now_ms, wall_ms), settings = transaction.known, since, self._settings()
        if known.is_ongoing:
            left_ms = min(known.start_ms + known.timeout_ms - wall_ms, known.timeout_ms)
            interval_ms = settings.abort_check_interval_ms
        else:
            left_ms = known.update_ms + settings.id_expiration_ms - wall_ms
            interval_ms = settings.expiration_check_interval_ms
        spread_ms = zlib.crc32(transaction.transactional_id.encode()) % interval_ms
        transaction.wake_ms = now_ms + max(0, left_ms) + 1 + spread_ms

    # Records.

    def _write(self, transaction: Transaction, after_it: Snapshot, then: Then) -> list[Effect]:
        """Append a snapshot; it is the state once it is committed."""
        transaction.pending = after_it.state
        written = self._moment

        def settled(code: ErrorCode) -> Sequence[Effect]:
            transaction.pending = None
            is_committed = code in _COMMITTED
            if is_committed:
                if not transaction.known.is_ongoing or not after_it.is_ongoing:
                    transaction.wake_ms = None
                transaction.known = after_it
            if after_it.state is TransactionState.DEAD and is_committed:
                self._transactions.pop(transaction.transactional_id, None)
            elif transaction.wake_ms is None:
                self._set_wake(transaction, written)
            return then(ErrorCode.NONE if is_committed else group_code_of(code))

        return [AppendRecords([after_it.record(transaction.transactional_id)], settled)]

    def load(self, record: TransactionRecord) -> None:
        """Apply a record that was read from the log, in log order."""
        if record.value is None:
            self._transactions.pop(record.transactional_id, None)
            return
        transaction = Transaction(record.transactional_id, snapshot_of(record.value))
        self._transactions[record.transactional_id] = transaction

    def loaded(self, moment: Moment) -> None:
        """All records have been read: go on where the coordinator before has ended."""
        self._moment = moment
        for transaction in self._transactions.values():
            if transaction.known.state in PREPARED:
                transaction.pending = _COMPLETE[transaction.known.state]
                transaction.unmarked = set(transaction.known.partitions)
                transaction.wake_ms = moment.now_ms
            else:
                self._set_wake(transaction, moment)

    def unload(self) -> Sequence[Effect]:
        """Another broker leads now; waiting clients were told when their appends were given up."""
        self._transactions.clear()
        return ()

    def set_clocks(self, key: str, moment: Moment) -> None:
        """Take the time, before the `then` of an effect continues."""
        self._moment = moment

    def settled(self, key: str) -> None:
        """Forget a transactional id whose first record was refused."""
        transaction = self._transactions.get(key)
        if (
            transaction is not None
            and transaction.pending is None
            and transaction.known.producer_epoch == NONE
        ):
            del self._transactions[key]

    def _found(self, transactional_id: str) -> Transaction:
        """Raises: Refused (INVALID_PRODUCER_ID_MAPPING)."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction


def _is_due(wake_ms: int | None, now_ms: int) -> bool:
    return wake_ms is not None and wake_ms <= now_ms


def _is_ended(state: TransactionState, *, commits: bool) -> bool:
    """Whether an EndTxn is a repetition that has nothing to do any more.

    Raises: Refused (INVALID_TXN_STATE).
    """
    if state is TransactionState.ONGOING:
        return False
    ended = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    if state is not ended:
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    return True
