"""A partition of an internal topic that this broker leads, with its machine at work.

A machine in `core/` decides what to do. This module does it, in order: it appends records, gives
answers, and calls the machine when the deadline of one of its objects (a group, say) is reached.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from ..core.effects import Answer, AppendRecords, Caller, Effect, OwnEffect, Reply
from ..core.moment import Moment
from ..core.waiters import Waiters
from ..runtime import Clock, Offload
from .alarms import Alarms
from .codec import RecordT
from .loading import CoordinatorLoader, Transactions
from .log import CoordinatorLog


class Machine(Protocol):
    """Holds everything that lives in one partition, each object by its id."""

    @property
    def ids(self) -> Iterable[str]:
        """The ids of all objects here."""

    def load(self, record: Any) -> None:
        """Apply a record that was read from the log, in log order."""

    def loaded(self, moment: Moment) -> None:
        """Note that all records have been read."""

    def unload(self) -> Sequence[Effect]:
        """Another broker leads now: answer the waiting requests."""

    def set_clocks(self, key: str, moment: Moment) -> None:
        """Tell an object the time, before the `then` of one of its effects continues."""

    def settled(self, key: str) -> None:
        """Note that the effects of an object have been carried out, for now."""

    def wake_ms(self, key: str) -> int | None:
        """When to call `on_time` for an object next, or None."""

    def on_time(self, key: str, moment: Moment) -> Sequence[Effect]:
        """Do what the deadlines of an object require."""


MachineT = TypeVar("MachineT", bound=Machine)
T = TypeVar("T")

Decide = Callable[[MachineT, T, Caller, Reply, Moment], Sequence[Effect]]
"""Handles a request (T): a method of the machine."""


class Loaded(NamedTuple):
    """What was read from a log."""

    record_count: int
    skipped_count: int
    took_ms: int


class LedPartition(Generic[MachineT, RecordT]):
    """A machine, its log and its alarms."""

    def __init__(
        self,
        machine: MachineT,
        its_log: CoordinatorLog[RecordT],
        clock: Clock,
        *,
        perform: "Callable[[LedPartition[MachineT, RecordT], Any], None] | None" = None,
        transactions: Transactions | None = None,
        changes: Waiters | None = None,
    ) -> None:
        """`perform` carries out the partition's effects that only the machine's coordinator knows.

        `transactions` takes records of transactions from the log, if it may have any. `changes` are
        told whenever the machine may have changed.
        """
        self.machine = machine
        self._perform = perform
        self._transactions = transactions
        self._changes = Waiters() if changes is None else changes
        self.is_loading = True
        self._log = its_log
        self._clock = clock
        self._alarms: Alarms[str] = Alarms(clock, self._on_alarm)
        self._is_over = False

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this broker leads the partition."""
        return self._log.partition.state.leader_epoch

    def moment(self) -> Moment:
        """The current time."""
        return Moment(self._clock.timer_ms(), self._clock.wall_ms())

    def ask(
        self, decide: Decide[MachineT, T], key: str, request: T, caller: Caller
    ) -> Message | asyncio.Future[Message]:
        """Let the machine decide; the answer, or a future for it."""
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.run(key, decide(self.machine, request, caller, reply, self.moment()))
        return reply.result() if reply.done() and not reply.cancelled() else reply

    def run(self, key: str | None, effects: Sequence[Effect]) -> None:
        """Carry out the effects of one object, or (None) those that concern several."""
        for effect in effects:
            if isinstance(effect, AppendRecords):
                self._append(key, effect)
            elif isinstance(effect, Answer):
                reply = effect.reply
                assert isinstance(reply, asyncio.Future)
                if not reply.done():  # otherwise the client has disconnected
                    reply.set_result(effect.response)
            else:
                assert isinstance(effect, OwnEffect)
                assert self._perform is not None
                self._perform(self, effect)
        if key is not None:
            self.machine.settled(key)
            self._set_alarm(key)
        if self._changes:
            self._changes.wake()

    def _append(self, key: str | None, effect: AppendRecords) -> None:
        def then(code: ErrorCode) -> None:
            if key is not None:
                self.machine.set_clocks(key, self.moment())
            self.run(key, effect.then(code))

        self._log.append(effect.records, then, effect.appended, effect.producer)

    def _set_alarm(self, key: str) -> None:
        wake_ms = self.machine.wake_ms(key)
        if wake_ms is not None:
            self._alarms.set(key, wake_ms)

    def _on_alarm(self, key: str) -> None:
        self.run(key, self.machine.on_time(key, self.moment()))

    async def load(
        self,
        offload: Offload,
        *,
        buffer_bytes: int,
        decompressed_bytes_max: int,
        waits_for_commit: bool,
    ) -> Loaded | None:
        """Read everything from the log and start the machine; None if it is led elsewhere by then.

        `waits_for_commit`: start it only once everything that was read is committed.
        Raises: LogDirFailed.
        """
        started_ms = self._clock.now_ms()
        loader = CoordinatorLoader(
            self._log.partition,
            self._log.codec,
            self.machine.load,
            transactions=self._transactions,
            is_over=lambda: self._is_over,
            buffer_bytes=buffer_bytes,
            decompressed_bytes_max=decompressed_bytes_max,
        )
        await loader.load(offload)
        if waits_for_commit and not self._is_over:
            await self._log.committed()
        if self._is_over:
            return None
        self.machine.loaded(self.moment())
        self.is_loading = False
        for key in self.machine.ids:
            self._set_alarm(key)
        self._changes.wake()
        took_ms = self._clock.now_ms() - started_ms
        return Loaded(loader.record_count, loader.skipped_count, took_ms)

    def resign(self) -> None:
        """Another broker leads from now on: answer the waiting requests accordingly."""
        self._log.close()
        self.run(None, self.machine.unload())
        self.close()

    def close(self) -> None:
        """Stop the alarms, any loading, and what waits for an append: nothing is appended later."""
        self._is_over = True
        self._log.abandon()
        self._alarms.close()
