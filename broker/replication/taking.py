"""Appends what a leader has sent, in slices, so that 10 MiB of small batches block nobody."""

import logging
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.k01_fetch import PartitionData
from odradek.protocol.primitives import INT64_MAX
from odradek.storage.errors import CorruptLog, DiskFull, LogDirFailed
from odradek.storage.log.following import UnexpectedOffset
from odradek.storage.log.staging import Staged

from ..core.partition import Partition
from ..slices import Slices
from ..tasks import to_the_end
from .following import Following

if TYPE_CHECKING:
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

REFUSED_MAX: Final = 10
"""After this many refusals in a row a gap is accepted. A leader that still has the same gap has
verified it: its topic was compacted once, and its high watermark was different then."""


class UnexpectedStart(Exception):
    """The leader's log starts within a batch: this log, which is empty, must begin with it."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Taking:
    """Appends the records of one answer."""

    def __init__(self, local: "LocalBroker", follows: Callable[[Following], bool]) -> None:
        """`follows` says whether a partition may still be written to."""
        self._local = local
        self._replicas = local.replicas
        self._clock = local.clock
        self._follows = follows
        self._slices = Slices(local.clock)
        self._due: list[Partition] = []

    async def take(self, following: Following, data: PartitionData) -> bool:
        """Append to one partition and take its leader's offsets; False: something is wrong.

        Raises: UnexpectedStart.
        """
        partition = following.partition
        try:
            if data.records and not await self._append(following, data):
                return True  # it has another role now
            start_before = partition.log.log_start_offset
            partition.take_offsets(data.high_watermark, data.log_start_offset)
            if partition.log.log_start_offset != start_before:
                # The leader may have promised that no crash reverts it (DeleteRecords). It is not
                # told of this start before that is true.
                self._replicas.must_checkpoint.set()
            self._replicas.suspects.followed(partition, data.high_watermark)
        except UnexpectedOffset as error:
            log = partition.log
            is_empty = log.log_end_offset == log.log_start_offset
            if is_empty and 0 <= error.base_offset < log.log_end_offset <= error.last_offset:
                raise UnexpectedStart(error.base_offset) from None
            self._report(following, error)
            return False
        except DiskFull as error:
            self._replicas.note_failure(error)
            return False
        except LogDirFailed as error:  # the partition fails with it
            self._replicas.note_failure(error)
        except (CorruptLog, MalformedMessage) as error:
            self._report(following, error)
            return False
        finally:
            if partition.awaits_flush:
                self._due.append(partition)
        return True

    async def _append(self, following: Following, data: PartitionData) -> bool:
        """Whether all was appended; if not, the partition is no longer followed."""
        records, partition = data.records, following.partition
        assert isinstance(records, memoryview | bytes)
        records, position = memoryview(records), 0
        insists = following.refusal_count >= REFUSED_MAX
        gaps_before = INT64_MAX if insists else data.high_watermark
        staged = partition.stage_fetched(records)
        if staged is not None:
            with closing(staged):
                await self._written(staged)
                if not self._follows(following):
                    return False
                appended = partition.append_staged(staged, wall_ms=self._clock.wall_ms())
                position = appended.size_bytes
        while position < len(records):
            appended = partition.append_fetched(
                records[position:],
                wall_ms=self._clock.wall_ms(),
                gaps_before=gaps_before,
            )
            if not appended.size_bytes:
                if not position:  # otherwise the same would be requested again at once
                    raise CorruptLog(f"{partition.log}: torn, or of a later leader epoch")
                break
            position += appended.size_bytes
            if self._slices.is_over:
                await self._slices.pause()
                if not self._follows(following):
                    return False
        if position:
            following.refusal_count = 0
        return True

    async def _written(self, staged: Staged) -> None:
        """Let a thread write it to the end, even if this task is cancelled."""
        runtime = self._local.runtime
        await to_the_end((runtime.write_offload or runtime.offload)(staged.run))

    async def flush(self) -> None:
        """Flush the appends that are due: the next request tells the leader that they are here."""
        due = [partition for partition in self._due if partition.awaits_flush]
        if due:
            await self._replicas.flushes.flush_all(due)

    def _report(self, following: Following, error: Exception) -> None:
        following.refusal_count += 1
        is_news = following.is_news(str(error), self._clock.now_ms())
        level = logging.ERROR if is_news else logging.DEBUG
        logger.log(level, "fetched batches refused log=%r error=%s", following.partition.log, error)
