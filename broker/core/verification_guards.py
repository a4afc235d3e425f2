"""Batches that wait before they are appended, guarded against the end of their transaction.

A batch may open a transaction in a partition once the coordinator has said that the partition is in
it. If a marker comes between the question and the append, that is no longer so: the batch would
open a transaction that nobody ends. Source: VerificationGuard of Kafka 3.9.
"""


class Guard:
    """One transaction's batches that wait for a partition."""

    __slots__ = ("producer_id", "waiting_count")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.waiting_count = 0


class VerificationGuards:
    """The guards of one partition."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Guard] = {}

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

    def clear(self) -> None:
        """Another leader may have ended any of them."""
        self._by_producer.clear()
