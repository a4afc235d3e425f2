"""The transactional ids in one partition of `__transaction_state`.

Each event takes effect in two steps. The snapshot after it is appended, and the event is then the
transaction's pending transition. Once the append is committed, the snapshot is the state. Meanwhile
other requests for this transactional id get CONCURRENT_TRANSACTIONS, and clients retry them.

An append that the log has taken is never given up: it may be committed later. So a transition stays
pending until the high watermark has passed it, or another broker leads the partition.

Source: the behaviour of TransactionCoordinator and TransactionStateManager of Kafka 3.9; of 4.3 for
version 2 of transactions.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.transaction_records import TransactionRecord

from ..coordinator_codes import coordinator_code_of
from ..effects import Answer, AppendRecords, Caller, Effect, Producer, Reply
from ..journal import JournalEntry
from ..moment import Moment
from ..partition_state import TopicPartition
from . import notes
from . import transaction as after
from .ending import EPOCH_BUMP_VERSION_FIRST, Ending, ending, needs_next_producer_id
from .journals import Journals, ShardJournals
from .markers import SendMarkers
from .notes import Note
from .requests import AddPartitions, EndTransaction, Filters, InitProducer
from .settings import TransactionSettings
from .states import PREPARED, TransactionState
from .transaction import NONE, Snapshot, needs_producer_id, snapshot_of
from .transactional_id import Transaction

RETRY_MS: Final = 100
"""The pause before the record of a complete transaction is appended again."""
_COMMITTED: Final = (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_COMPLETE: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}

NOBODY: Final = Producer(NONE, NONE)
Then = Callable[[ErrorCode], Sequence[Effect]]


class TransactionShard:
    """All transactional ids of one partition."""

    def __init__(
        self,
        partition: int,
        settings: Callable[[], TransactionSettings],
        journals: Journals,
        ready_producer_id: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`journals`: those of all shards of the broker.

        `ready_producer_id` gives a producer id that was never used, if one is at hand.
        """
        self.partition = partition
        self._settings = settings
        self._journals = ShardJournals(journals, partition)
        self._ready_producer_id = ready_producer_id
        self._transactions: dict[str, Transaction] = {}
        self._moment = Moment(0, 0)

    # Requests of producers.

    def needs_producer_id(self, transactional_id: str, claimed: Producer | None) -> bool:
        """Whether `init_producer` will need a new producer id."""
        known = self._known(transactional_id)
        return needs_producer_id(known, claimed) or self._needs_id_to_fence(known)

    def needs_producer_id_to_end(self, transactional_id: str, client_version: int) -> bool:
        """Whether `end` will need a new producer id."""
        return needs_next_producer_id(self._known(transactional_id), client_version)

    def _needs_id_to_fence(self, known: Snapshot | None) -> bool:
        is_ongoing = known is not None and known.is_ongoing
        return is_ongoing and needs_next_producer_id(known, self._settings().version)

    def _known(self, transactional_id: str) -> Snapshot | None:
        transaction = self._transactions.get(transactional_id)
        return None if transaction is None else transaction.known

    def init_producer(
        self, request: InitProducer, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """InitProducerId: fence older producers, and abort what they left open."""
        self._moment = moment

        def answer(code: ErrorCode) -> list[Effect]:
            return [Answer(reply, request.respond(code, NOBODY))]

        def refuse(code: ErrorCode) -> list[Effect]:
            self._note(request.transactional_id, notes.refused(request, code, caller))
            return answer(code)

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
        known = transaction.known
        try:
            transaction.check_idle()
            if known.is_ongoing:  # abort it; the new producer has to ask again
                after.check_claim(known, request.claimed)
                return self._abort(
                    transaction,
                    notes.fenced(known, caller),
                    lambda code: answer(code or ErrorCode.CONCURRENT_TRANSACTIONS),
                    NONE if new_id is None else new_id,
                )
            after_it = after.initialized(
                known,
                request.claimed,
                NONE if new_id is None else new_id,
                request.timeout_ms,
                moment.wall_ms,
            )
        except Refused as refused:
            return refuse(refused.code)
        if self._settings().version >= EPOCH_BUMP_VERSION_FIRST:
            after_it = after_it._replace(start_ms=NONE)  # as Kafka 4 shows it

        def then(code: ErrorCode) -> list[Effect]:
            if code:
                return answer(code)
            producer = Producer(after_it.producer_id, after_it.producer_epoch)
            return [Answer(reply, request.respond(code, producer))]

        note = notes.initialized(known, after_it, caller)
        return self._write(transaction, after_it, note, then)

    def add_partitions(
        self, request: AddPartitions, caller: Caller, reply: Reply, moment: Moment
    ) -> Sequence[Effect]:
        """AddPartitionsToTxn, AddOffsetsToTxn: begin a transaction, or extend it."""
        self._moment = moment

        def respond(code: ErrorCode) -> list[Effect]:
            return [Answer(reply, request.respond(code))]

        try:
            transaction = self._found(request.transactional_id)
            self._check_turn(transaction, request.producer)
        except Refused as refused:
            self._note(request.transactional_id, notes.refused(request, refused.code, caller))
            return respond(refused.code)
        known = transaction.known
        if known.is_ongoing and known.partitions.issuperset(request.partitions):
            return respond(ErrorCode.NONE)
        after_it = after.with_partitions(
            known, request.partitions, moment.wall_ms, client_version=request.client_version
        )
        note = notes.extended(known, after_it, caller)
        return self._write(transaction, after_it, note, respond)

    def _check_turn(self, transaction: Transaction, producer: Producer) -> None:
        """Check that it is the producer's transactional id, and that no transition is pending.

        With version 2, the pending transition comes first: it may end with the id or epoch that the
        producer already has.  Raises: Refused.
        """
        if self._settings().version >= EPOCH_BUMP_VERSION_FIRST:
            transaction.check_idle()
        transaction.check(producer)
        transaction.check_idle()

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

        def respond(code: ErrorCode, producer: Producer = NOBODY) -> list[Effect]:
            return [Answer(reply, request.respond(code, producer))]

        try:
            transaction = self._found(request.transactional_id)
            if self._is_repeated(transaction, request):
                return respond(ErrorCode.NONE, transaction.producer)
            after_it = _ended(transaction.known, request, moment.wall_ms)
        except Refused as refused:
            self._note(request.transactional_id, notes.refused(request, refused.code, caller))
            return respond(refused.code)
        note = notes.ended(transaction.known, request, caller, moment.wall_ms)

        def then(code: ErrorCode) -> list[Effect]:
            return respond(code, NOBODY if code else after.identity_after(after_it))

        return self._prepare(transaction, after_it, note, then)

    def _is_repeated(self, transaction: Transaction, request: EndTransaction) -> bool:
        """Whether the transaction has ended so before.  Raises: Refused (EndTxn is not allowed)."""
        version = request.client_version
        if version < EPOCH_BUMP_VERSION_FIRST:
            transaction.check(request.producer)
        transaction.check_idle()
        found = ending(
            transaction.known, request.producer, commits=request.commits, client_version=version
        )
        return found is Ending.REPEAT

    def _abort(
        self, transaction: Transaction, note: Note, then: Then, new_producer_id: int = NONE
    ) -> Sequence[Effect]:
        """Abort an open transaction, and fence its producer.

        `new_producer_id`: one that was never used, if `_needs_id_to_fence`.
        """
        known, wall_ms = transaction.known, self._moment.wall_ms
        if self._settings().version >= EPOCH_BUMP_VERSION_FIRST:
            next_id = new_producer_id if self._needs_id_to_fence(known) else NONE
            after_it = after.prepared_with_epoch(
                known, commits=False, wall_ms=wall_ms, next_producer_id=next_id
            )
        else:
            after_it = after.fenced(known, wall_ms)
        return self._prepare(transaction, after_it, note, then)

    # The end of a transaction.

    def _prepare(
        self, transaction: Transaction, after_it: Snapshot, note: Note, then: Then
    ) -> Sequence[Effect]:
        def decided(code: ErrorCode) -> list[Effect]:
            effects = list(then(code))
            return effects if code else [*effects, *self._mark(transaction)]

        return self._write(transaction, after_it, note, decided)

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
            known.client_version,
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

    def marker_refused(
        self, markers: SendMarkers, where: TopicPartition, code: ErrorCode, moment: Moment
    ) -> None:
        """The leader of a partition does not write the marker, which stays missing."""
        self._moment = moment
        self._note(markers.transactional_id, notes.marker_refused(where, code))

    def _complete(self, transaction: Transaction) -> Sequence[Effect]:
        transaction.markers = None
        after_it = after.completed(transaction.known, self._moment.wall_ms)
        note = notes.completed(transaction.known, self._moment.wall_ms)

        def then(code: ErrorCode) -> Sequence[Effect]:
            if code:
                transaction.pending = after_it.state
                transaction.wake_ms = self._moment.now_ms + RETRY_MS
            return ()

        return self._write(transaction, after_it, note, then)

    # Administration.

    def describe(self, transactional_id: str) -> Transaction:
        """One transactional id.  Raises: Refused (TRANSACTIONAL_ID_NOT_FOUND)."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not transaction.exists:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction

    def entries(self, transactional_id: str) -> list[JournalEntry]:
        """The journal of a transactional id, or of one that has expired; the oldest entry first."""
        return self._journals.entries(transactional_id, self._transactions.get(transactional_id))

    def _note(self, transactional_id: str, note: Note) -> None:
        transaction = self._transactions.get(transactional_id)
        self._journals.note(transactional_id, transaction, note, self._moment.wall_ms)

    def listed(self, filters: Filters, wall_ms: int) -> Iterator[Transaction]:
        """The transactional ids that pass the filters."""
        for transaction in self._transactions.values():
            known = transaction.known
            is_long = filters.duration_ms < 0 or wall_ms - known.start_ms > filters.duration_ms
            if (
                is_long
                and transaction.exists
                and (filters.states is None or known.state.kafka_name in filters.states)
                and (filters.producer_ids is None or known.producer_id in filters.producer_ids)
                and (filters.names is None or filters.names(transaction.transactional_id))
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
            if not transaction.unmarked:
                return self._complete(transaction)
            self._note(transactional_id, notes.resumed(transaction.known))
            return self._mark(transaction)
        if transaction.pending is not None:  # the time is set when it has settled
            return ()
        if transaction.known.is_ongoing:
            return self._time_out(transaction)
        if moment.wall_ms - transaction.known.update_ms >= self._settings().id_expiration_ms:
            after_it = after.expired(transaction.known)
            return self._write(transaction, after_it, notes.expired(), lambda code: ())
        self._set_wake(transaction, moment)
        return ()

    def _time_out(self, transaction: Transaction) -> Sequence[Effect]:
        new_id = None
        if self._needs_id_to_fence(transaction.known):
            new_id = self._ready_producer_id()
            if new_id is None:
                transaction.wake_ms = self._moment.now_ms + RETRY_MS
                return ()
        note = notes.timed_out(transaction.known, self._moment.wall_ms)
        return self._abort(transaction, note, lambda code: (), NONE if new_id is None else new_id)

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

    def _write(
        self, transaction: Transaction, after_it: Snapshot, note: Note, then: Then
    ) -> list[Effect]:
        """Append a snapshot; once it is committed, it is the state and the note is true."""
        transaction.pending = after_it.state
        written = self._moment

        def settled(code: ErrorCode) -> Sequence[Effect]:
            transaction.pending = None
            is_committed = code in _COMMITTED
            if is_committed:
                if not transaction.known.is_ongoing or not after_it.is_ongoing:
                    transaction.wake_ms = None
                transaction.known = after_it
            self._note(
                transaction.transactional_id,
                note if is_committed else notes.not_stored(after_it, code),
            )
            if after_it.state is TransactionState.DEAD and is_committed:
                self._transactions.pop(transaction.transactional_id, None)
            elif transaction.wake_ms is None:
                self._set_wake(transaction, written)
            return then(ErrorCode.NONE if is_committed else coordinator_code_of(code))

        value_version = int(self._settings().version >= EPOCH_BUMP_VERSION_FIRST)
        record = after_it.record(transaction.transactional_id, value_version)
        return [AppendRecords([record], settled)]

    def load(self, record: TransactionRecord) -> None:
        """Apply a record that was read from the log, in log order."""
        if record.value is None:
            self._transactions.pop(record.transactional_id, None)
            return
        self._transactions[record.transactional_id] = Transaction(
            record.transactional_id, snapshot_of(record.value), is_loaded=True
        )

    def loaded(self, moment: Moment) -> None:
        """All records have been read: go on where the coordinator before has ended."""
        self._moment = moment
        self._journals.loaded(moment.wall_ms)
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
        self._journals.forget()
        return ()

    def set_clocks(self, key: str, moment: Moment) -> None:
        """Take the time, before the `then` of an effect continues."""
        self._moment = moment

    def settled(self, key: str) -> None:
        """Forget a transactional id whose first record was refused."""
        transaction = self._transactions.get(key)
        if transaction is not None and transaction.pending is None and not transaction.exists:
            del self._transactions[key]

    def _found(self, transactional_id: str) -> Transaction:
        """Raises: Refused (INVALID_PRODUCER_ID_MAPPING)."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction


def _is_due(wake_ms: int | None, now_ms: int) -> bool:
    return wake_ms is not None and wake_ms <= now_ms


def _ended(known: Snapshot, request: EndTransaction, wall_ms: int) -> Snapshot:
    """After an EndTxn that is allowed.

    Raises: Refused (CONCURRENT_TRANSACTIONS) if it needs a producer id and has none.
    """
    commits, new_id = request.commits, request.new_producer_id
    if request.client_version < EPOCH_BUMP_VERSION_FIRST:
        return after.prepared(known, commits=commits, wall_ms=wall_ms)
    if not needs_next_producer_id(known, request.client_version):
        new_id = NONE
    if new_id is None:  # the last epoch was reached since the request came
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    return after.prepared_with_epoch(
        known, commits=commits, wall_ms=wall_ms, next_producer_id=new_id
    )
