"""The committed offset of a group in one partition, with what may replace it.

Writes are numbered in the order in which the log has them, and the later one in the log wins. A
commit in a transaction has its place in that order, too: the end of the transaction only decides
whether it counts.
"""

from odradek.protocol.group_records.classic import OffsetCommitValue

Write = tuple[OffsetCommitValue | None, int]
"""A value, or None for a tombstone, and its number."""


class Slot:
    """The offset of a group in a partition."""

    __slots__ = ("number", "pending", "undecided", "value")

    def __init__(self) -> None:
        self.value: OffsetCommitValue | None = None
        self.number = 0
        """The number of the write that set `value`; greater numbers are later in the log."""
        self.pending = 0
        """How many writes outside of transactions are not settled."""
        self.undecided: dict[int, Write] | None = None
        """By producer id, the last write of its open transaction; None: there is none."""

    @property
    def is_stable(self) -> bool:
        """Whether no write is on its way that may change the value."""
        return not self.pending and not self.undecided

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return self.value is None and self.is_stable

    def take(self, value: OffsetCommitValue | None, number: int) -> None:
        """Set the value, unless a write that is later in the log has already set it.

        A tombstone also ends what open transactions have written before it.
        """
        if number > self.number:
            self.value, self.number = value, number
            if value is None and self.undecided:
                later = {k: write for k, write in self.undecided.items() if write[1] > number}
                self.undecided = later or None

    def hold(self, producer_id: int, write: Write) -> None:
        """Keep what an open transaction has written until its end."""
        if self.undecided is None:
            self.undecided = {}
        self.undecided[producer_id] = write

    def decide(self, producer_id: int, *, is_committed: bool) -> None:
        """Let the write of a transaction count, or drop it; it may be gone already."""
        if self.undecided is None or producer_id not in self.undecided:
            return
        write = self.undecided.pop(producer_id)
        if not self.undecided:
            self.undecided = None
        if is_committed:
            self.take(*write)
