"""Deliberate bugs in what only whole brokers have: each is a patch of production code.

`MUTANTS` has them by name. Those of decisions and logs are in `tests/sim/cluster/mutants.py`, where
a life costs a fifteenth.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

from odradek.broker.cluster import writing
from odradek.broker.cluster.watching import Watching
from odradek.broker.coordination.interface import Check
from odradek.broker.coordinators.led_partition import LedPartition
from odradek.broker.coordinators.loading import CoordinatorLoader
from odradek.broker.coordinators.log import CoordinatorLog
from odradek.broker.core.partition import Partition
from odradek.broker.handlers.delayed_fetch import DelayedFetch
from odradek.broker.handlers.delayed_produce import Appended
from odradek.broker.replication.isr_changes import IsrChanges
from odradek.protocol.errors import ErrorCode
from odradek.storage.cleaner.offset_map import OffsetMap
from odradek.storage.log.producer_state import ProducerState
from tests.sim.mutating import Mutants, nothing, put

MUTANTS: Final = Mutants()

UNSEEN: Final = frozenset(
    {
        "coordinate_on_after_another_leads",
        "propose_an_in_sync_set_once",
        "write_unfenced",
    }
)
"""Those that 25 lives have not shown: what is still to be simulated."""


async def _no_work(*args: Any, **options: Any) -> None:
    """Do nothing, when awaited."""


# Produce and Fetch.


@MUTANTS.add
def _let_a_fetch_wait_out_its_time(patches: ExitStack) -> None:
    """A Fetch that waits does not hear of news."""
    put(patches, DelayedFetch, "_hear", nothing)


@MUTANTS.add
def _answer_before_it_is_committed(patches: ExitStack) -> None:
    """acks=all is answered with the append."""
    put(patches, Appended, "may_be_answered", lambda self, *, acks_all: True)
    put(patches, Partition, "min_isr", property(lambda self: 1))


@MUTANTS.add
def _forget_what_producers_have_sent(patches: ExitStack) -> None:
    """A batch that is sent again is appended again."""
    put(patches, ProducerState, "check", nothing)


# Groups.


@MUTANTS.add
def _begin_with_empty_groups(patches: ExitStack) -> None:
    """A coordinator does not read its log."""
    put(patches, CoordinatorLoader, "load", _no_work)


@MUTANTS.add
def _coordinate_on_after_another_leads(patches: ExitStack) -> None:
    """Who loses a partition of `__consumer_offsets` keeps those who wait there waiting."""
    put(patches, LedPartition, "resign", nothing)


@MUTANTS.add
def _answer_commits_before_they_are_committed(patches: ExitStack) -> None:
    """An offset commit is acknowledged with the append."""

    def append(self: Any, records: Any, then: Any, *more: Any) -> None:
        before(self, records, nothing, *more)
        then(ErrorCode.NONE)

    before = put(patches, CoordinatorLog, "append", append)


# In-sync sets, members, controllers.


@MUTANTS.add
def _propose_an_in_sync_set_once(patches: ExitStack) -> None:
    """What a controller did not answer is not proposed again."""
    put(patches, IsrChanges, "_again", nothing)


@MUTANTS.add
def _write_unfenced(patches: ExitStack) -> None:
    """A controller that has a successor writes on."""

    def without_fence(path: str, version: int) -> Check:
        return Check(path)

    put(patches, writing, "Check", without_fence)


@MUTANTS.add
def _look_at_brokers_once(patches: ExitStack) -> None:
    """A controller watches only the first change of the registered brokers."""
    looked: list[Watching] = []

    def hear(self: Watching, event: object) -> None:
        if self not in looked:
            looked.append(self)
            before(self, event)

    before = put(patches, Watching, "_on_broker_event", hear)


# Compaction.


@MUTANTS.add
def _compact_the_newest_away(patches: ExitStack) -> None:
    """Of each key the newest record goes."""

    def superseded(
        self: OffsetMap, keys: Sequence[bytes | None], offsets: Sequence[int]
    ) -> list[bool]:
        return [not is_old for is_old in before(self, keys, offsets)]

    def newest_between(self: OffsetMap, first_offset: int, last_offset: int) -> list[int]:
        newest = set(all_between(self, first_offset, last_offset))
        return [o for o in range(first_offset, last_offset + 1) if o not in newest]

    before = put(patches, OffsetMap, "superseded", superseded)
    all_between = put(patches, OffsetMap, "newest_between", newest_between)
