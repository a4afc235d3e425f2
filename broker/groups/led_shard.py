"""A partition of `__consumer_offsets` that this broker leads: its groups at work.

The machines of `core.groups` say what is to be done; here it is done, in their order: records are
appended, answers are given, and groups are looked at when their deadlines come.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord, decode_record, encode_record
from odradek.protocol.schema import Message

from ..coordinators.codec import RecordCodec
from ..coordinators.loading import CoordinatorLoader
from ..coordinators.log import CoordinatorLog
from ..core.groups.effects import AppendGroupRecords, Caller, Effect, Reply
from ..core.groups.moment import Moment
from ..core.groups.shard import Shard
from ..runtime import Clock, Offload
from .alarms import Alarms

log = logging.getLogger(__name__)

GROUP_RECORDS: Final = RecordCodec(encode_record, decode_record)

T = TypeVar("T")

Decide = Callable[[Shard, T, Caller, Reply, Moment], Sequence[Effect]]
"""What a shard does with a request (T): one of its methods."""


class LedShard:
    """The groups of one partition, their log and their alarms."""

    def __init__(self, shard: Shard, group_log: CoordinatorLog[GroupRecord], clock: Clock) -> None:
        self.shard = shard
        self.is_loading = True
        self.metadata_bytes = 0
        """What the members of all groups have said of themselves."""
        self._metadata_bytes: dict[str, int] = {}
        self._log = group_log
        self._clock = clock
        self._alarms: Alarms[str] = Alarms(clock, self._on_alarm)
        self._is_over = False

    def moment(self) -> Moment:
        """Now."""
        return Moment(self._clock.now_ms(), self._clock.wall_ms())

    def ask(
        self, decide: Decide[T], group_id: str, request: T, caller: Caller
    ) -> Message | asyncio.Future[Message]:
        """Let the shard decide; the answer, or what it will come by."""
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.run(group_id, decide(self.shard, request, caller, reply, self.moment()))
        return reply.result() if reply.done() and not reply.cancelled() else reply

    def run(self, group_id: str | None, effects: Sequence[Effect]) -> None:
        """Do what a group wants done, or (None) what is to be done to several."""
        for effect in effects:
            if isinstance(effect, AppendGroupRecords):
                self._append(group_id, effect)
            else:
                reply = effect.reply
                assert isinstance(reply, asyncio.Future)
                if not reply.done():  # else the client has hung up
                    reply.set_result(effect.response)
        if group_id is not None:
            self.shard.drop_if_unused(group_id)
            self._look_after(group_id)

    def _append(self, group_id: str | None, effect: AppendGroupRecords) -> None:
        def then(code: ErrorCode) -> None:
            if group_id is not None:
                self.shard.set_clocks(group_id, self.moment())
            self.run(group_id, effect.then(code))

        self._log.append(effect.records, then, effect.appended)

    def _look_after(self, group_id: str) -> None:
        """Note how much a group keeps in memory, and when it has to be looked at."""
        group = self.shard.groups.get(group_id)
        kept_bytes = 0 if group is None else group.metadata_bytes
        self.metadata_bytes += kept_bytes - self._metadata_bytes.pop(group_id, 0)
        if kept_bytes:
            self._metadata_bytes[group_id] = kept_bytes
        wake_ms = None if group is None else group.wake_ms
        if wake_ms is not None:
            self._alarms.set(group_id, wake_ms)

    def _on_alarm(self, group_id: str) -> None:
        self.run(group_id, self.shard.on_time(group_id, self.moment()))

    async def load(
        self, offload: Offload, *, buffer_bytes: int, decompressed_bytes_max: int
    ) -> None:
        """Read the groups back from the log, and let them live, unless they are led elsewhere by
        then.  Raises: LogDirFailed."""
        started_ms = self._clock.now_ms()
        loader = CoordinatorLoader(
            self._log.partition,
            self._log.codec,
            self.shard.load,
            is_over=lambda: self._is_over,
            buffer_bytes=buffer_bytes,
            decompressed_bytes_max=decompressed_bytes_max,
        )
        await loader.load(offload)
        if self._is_over:
            return
        self.shard.loaded(self.moment())
        self.is_loading = False
        for group_id in self.shard.groups:
            self._look_after(group_id)
        if loader.record_count or loader.skipped_count:
            log.info(
                "groups loaded partition=%d groups=%d records=%d skipped=%d ms=%d",
                self.shard.partition,
                len(self.shard.groups),
                loader.record_count,
                loader.skipped_count,
                self._clock.now_ms() - started_ms,
            )

    def resign(self) -> None:
        """The groups are led elsewhere from now on: whoever waits here is told so."""
        self._log.close()
        self.run(None, self.shard.unload())
        self.close()

    def close(self) -> None:
        """Stop the alarms, and what is being loaded."""
        self._is_over = True
        self._alarms.clear()
