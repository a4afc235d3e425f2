"""Bringing a follower's log into line with its leader's: cutting its end, or restarting it.

A cut waits for threads that rename the log's files. Nothing is appended after it until it is
durable. Otherwise, after a power failure, a part of what was cut could precede what was appended
after the cut, and no leader epoch would show that. Then the checkpoints are written again: those on
disk may claim that more is durable than the log now holds.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k01_fetch import EpochEndOffset
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.storage.errors import LogDirFailed, StorageError
from odradek.storage.log.checkpoint import OFFSET_MAX
from odradek.storage.log.leader_epochs import UNDEFINED
from odradek.storage.log.log import Log

from ..core.log_uses import Act, Use
from ..core.truncation import truncation_offset
from ..slices import Slices
from .following import Following

if TYPE_CHECKING:
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2
UNUSED_CHECK_S: Final = 0.01

AskOffsets = Callable[[ListOffsetsRequest], Awaitable[ListOffsetsResponse]]


class Cut(NamedTuple):
    """A cut of one log."""

    following: Following
    offset: int
    """Where the log must end, or restart."""
    epoch: int = UNDEFINED
    """If known: the leader has this epoch up to `offset`, and nothing that this log has later."""
    begins_anew: bool = False


class Repair:
    """The repairs of one fetcher."""

    def __init__(
        self,
        local: "LocalBroker",
        follows: Callable[[Following], bool],
        delay: Callable[[Following], None],
    ) -> None:
        self._replicas = local.replicas
        self._broker_id = local.broker_id
        self._clock = local.clock
        self._follows = follows
        self._delay = delay
        self._cuts: list[Cut] = []
        self._out_of_range: list[Following] = []

    # Findings.

    def begin(self) -> None:
        """Start with no findings."""
        self._cuts = []
        self._out_of_range = []

    def diverging(self, following: Following, shared: EpochEndOffset) -> None:
        """Note that the leader's log has nothing of this log after `shared`."""
        if shared.end_offset < 0:
            trouble = "the leader names no offset to cut at"
            if following.is_news(trouble, self._clock.now_ms()):
                logger.error("log not cut log=%r reason=%s", following.partition.log, trouble)
            self._delay(following)
            return
        self._cuts.append(Cut(following, shared.end_offset, shared.epoch))

    def out_of_range(self, following: Following) -> None:
        """Note that the leader's log does not contain this log's end."""
        self._out_of_range.append(following)

    # Repairing.

    async def prepare(self, followings: Iterable[Following]) -> None:
        """Make logs ready for fetching, unless they are; `is_prepared` then says which are ready.

        If a log has no leader epoch, only what is below the high watermark is known to match the
        leader.
        """
        unready = [f for f in followings if not f.is_prepared]
        if not unready:
            return
        without_epoch = [f for f in unready if f.partition.log.epochs.latest < 0]
        failed = await self._cut([Cut(f, f.partition.log.high_watermark) for f in without_epoch])
        unready = [f for f in unready if f not in failed]
        try:
            await self._replicas.make_cuts_safe(f.partition for f in unready)
        except LogDirFailed as error:  # possibly of only one directory
            self._replicas.note_failure(error)
        for following in unready:
            following.is_prepared = self._replicas.uses.may(Act.APPEND, following.partition.log)
            if not following.is_prepared:
                self._delay(following)

    async def begin_at(self, following: Following, offset: int) -> bool:
        """Restart an empty log at this offset; whether it may be appended to now."""
        if await self._cut([Cut(following, offset, begins_anew=True)]):
            return False
        await self.prepare([following])
        return following.is_prepared and self._follows(following)

    async def run(self, ask: AskOffsets) -> None:
        """Repair what was found.  Raises: PeerFailed."""
        if self._cuts:
            await self._cut(self._cuts)
        if self._out_of_range:
            await self._find_range(self._out_of_range, ask)

    async def _find_range(self, followings: Sequence[Following], ask: AskOffsets) -> None:
        """Source: fetchOffsetAndTruncate of Kafka 3.9's AbstractFetcherThread."""
        cuts, behind = [], []
        for following, end_offset in await self._offsets(followings, LATEST, ask):
            log = following.partition.log
            if end_offset < log.log_end_offset:
                _warn(log, "the leader's log ends at", end_offset)
                cuts.append(Cut(following, end_offset))
            else:
                behind.append(following)
        for following, start_offset in await self._offsets(behind, EARLIEST, ask):
            log = following.partition.log
            if start_offset > log.log_end_offset:
                _warn(log, "the leader's log starts at", start_offset)
                cuts.append(Cut(following, start_offset, begins_anew=True))
            else:  # it was out of range a moment ago
                self._delay(following)
        await self._cut(cuts)

    async def _offsets(
        self, followings: Sequence[Following], timestamp: int, ask: AskOffsets
    ) -> list[tuple[Following, int]]:
        """The offsets that the leader returns; the others are delayed.  Raises: PeerFailed."""
        wanted = {following.key: following for following in followings}
        if not wanted:
            return []
        topics: dict[str, ListOffsetsTopic] = {}
        for (name, index), following in wanted.items():
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=following.leader_epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(replica_id=self._broker_id, topics=list(topics.values()))
        response = await ask(request)
        found = []
        for answered in response.topics:
            for data in answered.partitions:
                asked = wanted.pop((answered.name, data.partition_index), None)
                if asked is None or not self._follows(asked):
                    continue
                if data.error_code != ErrorCode.NONE or not 0 <= data.offset <= OFFSET_MAX:
                    self._delay(asked)
                else:
                    found.append((asked, data.offset))
        for unanswered in wanted.values():
            self._delay(unanswered)
        return found

    async def _cut(self, cuts: Sequence[Cut]) -> list[Following]:
        """Cut the logs; return those whose log could not be cut, which are delayed."""
        failed = []
        slices = Slices(self._clock)
        for cut in cuts:
            following = cut.following
            await self._until_unused(following)
            if not self._follows(following):
                continue
            log = following.partition.log
            generation, before = log.generation, (log.log_end_offset, log.epochs.latest)
            following.is_prepared = False
            try:
                self._cut_one(log, cut)
            except StorageError as error:
                self._replicas.note_failure(error)
                logger.error("log not cut log=%r error=%s", log, error)
                self._delay(following)
                failed.append(following)
            is_same = before == (log.log_end_offset, log.epochs.latest)
            if is_same and cut.epoch != UNDEFINED:
                self._delay(following)  # otherwise the same answer would come again at once
            if log.generation != generation:
                self._replicas.uses.begin(log, Use.CUT)
                self._replicas.must_checkpoint.set()
            await slices.step()
        return failed

    def _cut_one(self, log: Log, cut: Cut) -> None:
        """Raises: CorruptLog, LogDirFailed."""
        offset, end_before = cut.offset, log.log_end_offset
        if cut.epoch != UNDEFINED:
            offset = truncation_offset(log, cut.epoch, offset)
        high_watermark = log.high_watermark
        if cut.begins_anew:
            log.restart_at(offset)
        else:
            log.truncate(offset)
        if log.log_end_offset == end_before and not cut.begins_anew:
            return
        level = logging.WARNING if offset < high_watermark else logging.INFO
        logger.log(
            level,
            "log cut to follow its leader log=%r ended=%d high_watermark=%d",
            log,
            end_before,
            high_watermark,
        )

    async def _until_unused(self, following: Following) -> None:
        """Wait for threads that rename files: they access the files by name."""
        uses = self._replicas.uses
        # This is very rare, and takes milliseconds.
        while not uses.may(Act.TRUNCATE, following.partition.log):  # noqa: ASYNC110
            await asyncio.sleep(UNUSED_CHECK_S)


def _warn(log: Log, what: str, offset: int) -> None:
    logger.warning("log is outside of its leader's range log=%r %s=%d", log, what, offset)
