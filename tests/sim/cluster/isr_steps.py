"""Which steps in-sync sets have taken on their leaders, and what made them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from unittest import mock

from odradek.broker.core.isr import CommittedIsr, PendingExpand, PendingShrink
from odradek.broker.core.partition import Partition


class Step(NamedTuple):
    """From one state of the table in `core/isr.py` to another."""

    before: type
    after: type
    cause: str
    """The method of `Partition`."""


FETCHED, LAGGED = "follower_fetched", "shrink_isr"
ALTERED, REFUSED, TOLD = "isr_altered", "isr_refused", "become"

ALL_STEPS: Final = frozenset(
    {  # a proposal to shrink goes back too, where others that are left have just died: so rarely
        # that only a test of the partition shows it
        Step(CommittedIsr, PendingExpand, FETCHED),
        Step(CommittedIsr, PendingShrink, LAGGED),
        *(
            step
            for pending in (PendingExpand, PendingShrink)
            for step in (
                Step(pending, CommittedIsr, ALTERED),
                *([Step(pending, CommittedIsr, REFUSED)] if pending is PendingExpand else []),
                Step(pending, pending, REFUSED),
                Step(pending, CommittedIsr, TOLD),
            )
        ),
    }
)


class IsrSteps:
    """The steps that were taken while they were recorded."""

    def __init__(self) -> None:
        self.taken: set[Step] = set()

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Look at all partitions meanwhile."""
        with contextlib.ExitStack() as patches:
            for name in (FETCHED, LAGGED, ALTERED, REFUSED, TOLD):
                watched = self._watched(name, getattr(Partition, name))
                patches.enter_context(mock.patch.object(Partition, name, watched))
            yield

    def _watched(self, cause: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def watched(partition: Partition, *args: Any, **options: Any) -> Any:
            before = partition.in_sync
            result = method(partition, *args, **options)
            after = partition.in_sync
            if type(before) is not type(after) or cause == REFUSED:
                self.taken.add(Step(type(before), type(after), cause))
            return result

        return watched
