"""One controller term, from the election until the controller is replaced.

Queues the controller's work and runs it one item at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from odradek.protocol.errors import ErrorCode, Refused

from ..config import Config
from ..coordination.interface import Session
from ..core.controller import procedures
from ..core.controller.context import Context, LiveBroker
from ..core.controller.effects import Procedure
from ..core.controller.last_replicas import LogEnds, comparable, waiting
from ..core.partition_state import TopicPartition
from ..peers.versions import BY_PROTOCOL_VERSION
from ..runtime import Runtime
from ..tasks import TaskSupervisor
from .broker_requests import ActiveController, Errors
from .channels import Channels, Links
from .comparing import Comparing
from .election import Mandate
from .events import Events
from .feature import ensure_feature
from .performing import Performer
from .producer_id_blocks import take_block
from .watching import Watching
from .writing import FencedWriter

logger = logging.getLogger(__name__)

FIRST_REBALANCE_S: Final = 5

T = TypeVar("T")


class ControllerParts(NamedTuple):
    """What every term of this broker needs."""

    session: Session
    broker_id: int
    config: Config
    runtime: Runtime
    links: Links
    tasks: TaskSupervisor


class ControllerTerm:
    """This broker's work as controller. `run` starts it, `end` stops it."""

    def __init__(self, parts: ControllerParts, mandate: Mandate) -> None:
        config = parts.config
        self.mandate = mandate
        self.context = Context(
            parts.broker_id,
            mandate.controller_epoch,
            delete_topic_enable=config.delete_topic_enable,
        )
        self._parts = parts
        self._events = Events()
        self._writer = FencedWriter(parts.session, mandate)
        listener_name = config.broker_listeners.inter_broker
        sender = ActiveController(parts.broker_id, mandate.controller_epoch, listener_name)
        versions = BY_PROTOCOL_VERSION[config.inter_broker_protocol_version]
        self._channels = Channels(parts.links, sender, versions, self, parts.tasks)
        self._performer = Performer(
            parts.session,
            self._writer,
            self.context,
            self._channels,
            lambda: config.unclean_leader_election_enable,
        )
        self._watching = Watching(
            parts.session,
            self._writer,
            self.context,
            self._events,
            self._performer.perform,
            on_brokers=self._channels.update,
            randbytes=parts.runtime.random.randbytes,
        )
        self._asked: set[asyncio.Future[Any]] = set()
        self._begun = asyncio.Event()
        self._stepped = asyncio.Event()
        self._is_busy = False
        self._timer: asyncio.Task[None] | None = None
        self._comparing = Comparing(
            lambda: comparable(self.context).keys(), self._elect_greatest, parts.tasks
        )
        self.has_ended = False

    async def run(self) -> None:
        """Fail over, then handle events one at a time, forever.

        Raises: ControllerMoved, SessionExpired, StartOver, and unexpected errors.
        """
        parts = self._parts
        await ensure_feature(parts.session, self._writer)
        snapshot = await self._watching.read_all()
        await self._performer.perform(procedures.fail_over(self.context, snapshot))
        await self._watching.notices.finish_preferred_elections()
        self._begun.set()
        self._comparing.look()
        if parts.config.auto_leader_rebalance_enable:
            self._timer = parts.tasks.spawn(self._rebalance_forever(), "rebalance leaders")
        while True:
            handle = await self._events.next()
            self._is_busy = True
            await handle()
            self._is_busy = False
            self._comparing.look()
            self._step()

    def end(self) -> None:
        """Send nothing more, and fail waiting callers with NOT_CONTROLLER.  Idempotent."""
        self.has_ended = True
        self._begun.set()
        self._channels.close()
        self._step()
        self._comparing.end()
        if self._timer is not None:
            self._timer.cancel()
        for result in self._asked:
            if not result.done():
                result.set_exception(Refused(ErrorCode.NOT_CONTROLLER))

    async def settled(self) -> None:
        """Return when the failover is done, no event waits, and this broker has answered all."""
        await self._begun.wait()
        own_id = self._parts.broker_id
        while not self.has_ended:
            if self._events or self._is_busy:
                await self._stepped.wait()
            elif self._channels.owes(own_id):
                await self._channels.settled(own_id)
            else:
                return

    async def wait_until(self, done: Callable[[Context], bool]) -> None:
        """Return once `done` holds; it is evaluated now and after every event.

        Raises: Refused (NOT_CONTROLLER).
        """
        while not self.has_ended:
            if done(self.context):
                return
            await self._stepped.wait()
        raise Refused(ErrorCode.NOT_CONTROLLER)

    def _step(self) -> None:
        stepped, self._stepped = self._stepped, asyncio.Event()
        stepped.set()

    # Requests.

    async def ask(self, make: Callable[[Context], Procedure[T]]) -> T:
        """Perform a procedure after all events queued before it; return its result.

        Raises: what it raises; Refused (NOT_CONTROLLER).
        """
        return await self._in_turn(lambda: self._performer.perform(make(self.context)))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int | None) -> range:
        """Allocate a block of ids for one broker.  `broker_epoch` None: the epoch is not checked.

        Raises: Refused (BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, NOT_CONTROLLER,
        UNKNOWN_SERVER_ERROR).
        """

        async def take() -> range:
            if broker_epoch is not None:
                broker = self.context.brokers.get(broker_id)
                if broker is None:
                    raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED)
                if broker.epoch != broker_epoch:
                    raise Refused(ErrorCode.STALE_BROKER_EPOCH)
            return await take_block(self._parts.session, self._writer, broker_id)

        return await self._in_turn(take)

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        if self.has_ended:
            raise Refused(ErrorCode.NOT_CONTROLLER)
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def handle() -> None:
            if result.done():  # the caller no longer waits
                return
            try:
                value = await work()
            except Refused as refused:
                if not result.done():
                    result.set_exception(refused)
            else:
                if not result.done():
                    result.set_result(value)

        self._asked.add(result)
        self._events.put(result, handle)
        try:
            return await result
        finally:
            self._asked.discard(result)

    # Brokers' answers.

    def leader_and_isr_answered(self, broker: LiveBroker, errors: Errors) -> None:
        """Handle the error codes in a LeaderAndIsr response."""
        self._answered(broker, errors, procedures.leader_and_isr_answered)

    def deletions_answered(self, broker: LiveBroker, errors: Errors) -> None:
        """Handle the error codes of replica deletions."""
        self._answered(broker, errors, procedures.stop_replica_answered)

    def _answered(
        self,
        broker: LiveBroker,
        errors: Errors,
        procedure: Callable[[Context, int, Errors], Procedure[None]],
    ) -> None:
        async def handle() -> None:
            known = self.context.brokers.get(broker.broker_id)
            if known is not None and known.epoch == broker.epoch:
                await self._performer.perform(procedure(self.context, broker.broker_id, errors))
            # Otherwise the broker has restarted since: its old answer would stop what began anew.

        self._events.put(handle, handle)

    # Partitions whose last in-sync replica declines to lead.

    async def log_ends(self, partitions: Collection[TopicPartition] | None) -> LogEnds:
        """The log ends of the waiting partitions among these (None: of all that wait)."""
        from .log_ends import ask_log_ends

        found = waiting(self.context)
        wanted = {key: found[key] for key in found if partitions is None or key in partitions}
        return await ask_log_ends(self._parts.links, self.context.brokers, wanted)

    async def _elect_greatest(self, compared: Collection[TopicPartition]) -> None:
        ends = await self.log_ends(compared)
        with suppress(Refused):  # no longer the controller
            await self.ask(partial(procedures.elect_greatest, ends=ends))

    # Upkeep.

    async def _rebalance_forever(self) -> None:
        config = self._parts.config
        pause_s = FIRST_REBALANCE_S
        while True:
            await asyncio.sleep(pause_s)
            self._events.put("rebalance", self._rebalance)
            pause_s = config.leader_imbalance_check_interval_seconds

    async def _rebalance(self) -> None:
        percent_max = self._parts.config.leader_imbalance_per_broker_percentage
        await self._performer.perform(procedures.rebalance(self.context, percent_max))
