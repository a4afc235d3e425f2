"""Batches that wait before they are appended, guarded against the end of their transaction.

A batch may open a transaction in a partition once the coordinator has said that the partition is in
it. If a marker comes between the question and the append, that is no longer so: the batch would
open a transaction that nobody ends.

If the coordinator can't tell, the producer sends the batch again. Those that it has sent after it
must not be appended first, although any sequence of an unknown producer is accepted. Source:
VerificationGuard and VerificationStateEntry of Kafka 3.9.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.records import BatchHeader

from .effects import Producer

ASKED_KEPT_MAX: Final = 1000
"""Producers per partition: clients can invent any number of them."""


class Guard:
    """One transaction's batches that wait for a partition."""

    __slots__ = ("producer_id", "waiting_count")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.waiting_count = 0


class VerificationGuards:
    """The guards of one partition."""

    __slots__ = ("_by_producer", "_earliest")

    def __init__(self) -> None:
        self._by_producer: dict[int, Guard] = {}
        self._earliest: dict[int, tuple[int, int]] = {}
        """By producer id: the last epoch for which a coordinator was asked about a batch, and the
        first sequence of the earliest such batch. It is forgotten once a batch is appended."""

    def asked(self, producer: Producer, sequence: int) -> None:
        """The coordinator is asked about a batch that begins with this sequence."""
        producer_id, epoch = producer
        known_epoch, known_sequence = self._earliest.pop(producer_id, (-1, -1))
        if epoch == known_epoch:
            sequence = min(sequence, known_sequence)
        if epoch >= known_epoch:
            known_epoch, known_sequence = epoch, sequence
        self._earliest[producer_id] = known_epoch, known_sequence
        if len(self._earliest) > ASKED_KEPT_MAX:
            del self._earliest[next(iter(self._earliest))]

    def check_order(self, header: BatchHeader) -> None:
        """Check that a batch comes no later than one of its epoch that was not verified.

        Raises: Refused (OUT_OF_ORDER_SEQUENCE_NUMBER).
        """
        epoch, earliest = self._earliest.get(header.producer_id, (-1, -1))
        if header.producer_epoch == epoch and header.base_sequence > earliest:
            raise Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}: sequence {header.base_sequence} came before "
                f"{earliest}, which is not verified",
            )

    def appended(self, producer_id: int) -> None:
        """The producer has an open transaction from now on."""
        self._earliest.pop(producer_id, None)

    def begin(self, producer_id: int) -> Guard:
        """A batch of this producer begins to wait; `end` must follow."""
        guard = self._by_producer.get(producer_id)
        if guard is None:
            guard = self._by_producer[producer_id] = Guard(producer_id)
        guard.waiting_count += 1
        return guard

    def end(self, guard: Guard) -> bool:
        """A batch waits no longer; whether its transaction has not ended meanwhile."""
        guard.waiting_count -= 1
        is_held = self._by_producer.get(guard.producer_id) is guard
        if is_held and not guard.waiting_count:
            del self._by_producer[guard.producer_id]
        return is_held

    def drop(self, producer_id: int) -> None:
        """The producer's transaction has ended here."""
        self._by_producer.pop(producer_id, None)
        self._earliest.pop(producer_id, None)

    def clear(self) -> None:
        """Another leader may have ended any of them."""
        self._by_producer.clear()
        self._earliest.clear()
