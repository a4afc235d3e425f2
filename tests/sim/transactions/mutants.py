"""Deliberate bugs, to show that the simulation would see them: each is a patch of the shard."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from odradek.broker.core.effects import Effect, Producer
from odradek.broker.core.moment import Moment
from odradek.broker.core.transactions import shard, transaction
from odradek.broker.core.transactions.markers import SendMarkers
from odradek.broker.core.transactions.notes import Note
from odradek.broker.core.transactions.shard import TransactionShard
from odradek.broker.core.transactions.states import TransactionState
from odradek.broker.core.transactions.transaction import Snapshot, prepared
from odradek.broker.core.transactions.transactional_id import Transaction
from odradek.protocol.errors import ErrorCode, Refused
from tests.sim.mutating import Mutants, put

MUTANTS: Final = Mutants()


@MUTANTS.add
def _do_not_wait_for_what_is_pending(patches: ExitStack) -> None:
    """A request begins a transition while another one is under way."""

    def check_idle(self: Transaction) -> None:
        if self.markers is not None:
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)

    put(patches, Transaction, "check_idle", check_idle)


@MUTANTS.add
def _forget_to_fence(patches: ExitStack) -> None:
    """The coordinator aborts, and leaves the producer its epoch."""

    def fenced(known: Snapshot, wall_ms: int) -> Snapshot:
        return prepared(known, commits=False, wall_ms=wall_ms)

    put(patches, transaction, "fenced", fenced)


@MUTANTS.add
def _keep_the_epoch_of_version_2(patches: ExitStack) -> None:
    """A commit of version 2 leaves the producer its epoch."""

    def prepared_with_epoch(known: Snapshot, **more: Any) -> Snapshot:
        after_it: Snapshot = before(known, **more)
        return after_it._replace(producer_epoch=known.producer_epoch)

    before = put(patches, transaction, "prepared_with_epoch", prepared_with_epoch)


@MUTANTS.add
def _answer_before_it_is_committed(patches: ExitStack) -> None:
    """The answer to an EndTxn goes out with the append."""

    def prepare(
        self: TransactionShard, of: Transaction, after_it: Snapshot, note: Note, then: Any
    ) -> Any:
        effects = before(self, of, after_it, note, lambda code: ())
        return [*effects, *then(ErrorCode.NONE)]

    before = put(patches, TransactionShard, "_prepare", prepare)


@MUTANTS.add
def _take_effect_before_it_is_committed(patches: ExitStack) -> None:
    """What is appended is the state at once."""

    def write(
        self: TransactionShard, of: Transaction, after_it: Snapshot, note: Note, then: Any
    ) -> Any:
        effects = before(self, of, after_it, note, then)
        of.known = after_it
        return effects

    before = put(patches, TransactionShard, "_write", write)


@MUTANTS.add
def _complete_before_the_last_marker(patches: ExitStack) -> None:
    """One partition speaks for all."""

    def marked(
        self: TransactionShard, markers: SendMarkers, partitions: Any, moment: Moment
    ) -> Sequence[Effect]:
        return before(self, markers, markers.partitions, moment)  # type: ignore[no-any-return]

    before = put(patches, TransactionShard, "marked", marked)


@MUTANTS.add
def _count_markers_of_the_transaction_before(patches: ExitStack) -> None:
    """A late answer counts for the next transaction of the same producer."""

    def marked(
        self: TransactionShard, markers: SendMarkers, partitions: Any, moment: Moment
    ) -> Sequence[Effect]:
        found = self._transactions.get(markers.transactional_id)
        if found is not None and found.markers and found.producer == markers.producer:
            markers = found.markers
        return before(self, markers, partitions, moment)  # type: ignore[no-any-return]

    before = put(patches, TransactionShard, "marked", marked)


@MUTANTS.add
def _leave_a_loaded_end_to_itself(patches: ExitStack) -> None:
    """A coordinator that finds a decision in the log does not carry it out."""

    def loaded(self: TransactionShard, moment: Moment) -> None:
        before(self, moment)
        for found in self._transactions.values():
            if found.unmarked:
                found.wake_ms = None

    before = put(patches, TransactionShard, "loaded", loaded)


@MUTANTS.add
def _abort_whatever_is_loaded(patches: ExitStack) -> None:
    """A coordinator that finds a decision in the log aborts."""

    def loaded(self: TransactionShard, moment: Moment) -> None:
        for found in self._transactions.values():
            if found.known.state is TransactionState.PREPARE_COMMIT:
                found.known = found.known._replace(state=TransactionState.PREPARE_ABORT)
        before(self, moment)

    before = put(patches, TransactionShard, "loaded", loaded)


@MUTANTS.add
def _send_markers_of_the_epoch_before(patches: ExitStack) -> None:
    """Markers carry the epoch that the producer had before it was fenced."""

    def mark(self: TransactionShard, of: Transaction) -> Sequence[Effect]:
        effects: Sequence[Effect] = before(self, of)
        if of.markers is None or of.known.producer_epoch == 0:
            return effects
        producer_id, producer_epoch = of.markers.producer
        of.markers = replace(of.markers, producer=Producer(producer_id, producer_epoch - 1))
        return [of.markers]

    before = put(patches, TransactionShard, "_mark", mark)


@MUTANTS.add
def _believe_that_a_refused_append_is_there(patches: ExitStack) -> None:
    """What the log has refused counts as committed."""
    committed = (*shard._COMMITTED, ErrorCode.NOT_ENOUGH_REPLICAS)
    put(patches, shard, "_COMMITTED", committed)


@MUTANTS.add
def _believe_that_a_taken_append_is_not_there(patches: ExitStack) -> None:
    """What lies in the log counts as refused if the in-sync set was too small afterwards."""
    put(patches, shard, "_COMMITTED", (ErrorCode.NONE,))


@MUTANTS.add
def _serve_any_epoch(patches: ExitStack) -> None:
    """Older producers of the same id are not fenced."""

    def check(self: Transaction, producer: Producer) -> None:
        if producer.producer_id != self.known.producer_id:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    put(patches, Transaction, "check", check)


@MUTANTS.add
def _do_not_try_again(patches: ExitStack) -> None:
    """If the record of a complete transaction is refused, nobody writes it later."""

    def complete(self: TransactionShard, of: Transaction) -> Sequence[Effect]:
        (append,) = before(self, of)

        def then(code: ErrorCode) -> Sequence[Effect]:
            effects: Sequence[Effect] = append.then(code)
            if code:
                of.pending = None
            return effects

        return [append._replace(then=then)]

    before = put(patches, TransactionShard, "_complete", complete)


@MUTANTS.add
def _expire_what_is_pending(patches: ExitStack) -> None:
    """An id is forgotten while a request for it is under way."""

    def on_time(self: TransactionShard, key: str, moment: Moment) -> Sequence[Effect]:
        found = self._transactions.get(key)
        if found is not None and found.known.state is TransactionState.EMPTY:
            found.pending = None
        return before(self, key, moment)  # type: ignore[no-any-return]

    before = put(patches, TransactionShard, "on_time", on_time)


@MUTANTS.add
def _believe_the_wall_clock(patches: ExitStack) -> None:
    """Deadlines are counted from when an append was committed."""

    def set_wake(self: TransactionShard, of: Transaction, since: Moment) -> None:
        before(self, of, self._moment)

    before = put(patches, TransactionShard, "_set_wake", set_wake)
