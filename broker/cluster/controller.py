"""The controller as its broker sees it: a candidate that is sometimes elected.

Every broker watches /controller. When the node goes all of them race for it; the winner is the
controller (`ControllerTerm`) until its session ends, another broker has taken its place, or
something unexpected goes wrong. Then it drops all that it knew and gives the node up, and the race
is on again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from odradek.protocol.errors import ErrorCode, Refused

from ..config import Config
from ..coordination.interface import Session, SessionExpired, WatchEvent
from ..coordination.json_fields import MalformedZnode
from ..core.controller import procedures
from ..core.controller.context import Context
from ..core.controller.effects import ControllerMoved, Procedure
from ..core.controller.procedures import Elections, LogEnds
from ..core.elections import ElectionType
from ..core.partition_state import TopicPartition
from ..runtime import Runtime
from ..tasks import TaskSupervisor
from .channels import Links
from .election import NOBODY, Holder, KRaftControls, Mandate, read_holder, stand, step_down
from .feature import FeatureWatch
from .term import ControllerParts, ControllerTerm
from .watching import StartOver

logger = logging.getLogger(__name__)

BACKOFF_MIN_S: Final = 0.1
BACKOFF_MAX_S: Final = 30.0

T = TypeVar("T")


class Reassignment(NamedTuple):
    """A partition whose replicas are being moved."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ClusterController:
    """This broker as candidate and, once elected, as controller of the cluster.

    `start` it when the broker is registered. `lost` belongs into `CurrentSession.on_lost`,
    `renewed` into `on_renewed` (behind the broker's registration).
    """

    def __init__(
        self,
        session: Session,
        broker_id: int,
        config: Config,
        runtime: Runtime,
        links: Links,
        tasks: TaskSupervisor,
    ) -> None:
        self._parts = ControllerParts(session, broker_id, config, runtime, links, tasks)
        self._session = session
        self._tasks = tasks
        self._feature = FeatureWatch(session, self._look)
        self._term: ControllerTerm | None = None
        self._term_task: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._to_look = asyncio.Event()
        self._turn = asyncio.Lock()
        """Two elections at once, of one session, could both believe to be the one that was won."""
        self._backoff_s = BACKOFF_MIN_S
        self._may_stand_s = -BACKOFF_MAX_S
        self.controller_id = NOBODY
        """As /controller says; -1: nobody."""
        self.on_kraft: Callable[[KRaftControls], None] = lambda error: None
        """Called when /controller is taken by who leads no brokers like this one."""

    # For the broker.

    async def start(self) -> None:
        """Find out who is the controller, and contend if nobody is.

        Raises: KRaftControls, MalformedZnode, SessionExpired.
        """
        await self._feature.read()
        await self._contend()
        self._following = self._tasks.spawn(self._follow(), "follow controller")

    async def renewed(self) -> None:
        """There is a new session: look and watch again.  Raises: SessionExpired."""
        await self._look_around()

    def lost(self) -> None:
        """The session is gone, and with it all that was ours by it."""
        self.controller_id = NOBODY
        self._end_term()

    async def stop(self) -> None:
        """Give up whatever this broker is, and contend no more."""
        if self._following is not None:
            self._following.cancel()
        await self.resign()

    async def resign(self) -> None:
        """Be the controller no more, if it is this broker; everybody races then."""
        term = self._term
        self._end_term()
        if term is not None:
            await step_down(self._session, term.mandate)

    async def settled(self) -> None:
        """Return when a failover that is under way here has had its effect on this broker."""
        if self._term is not None:
            await self._term.settled()

    # For handlers.

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller; it may still be about to begin."""
        return self._term is not None

    @property
    def controller_epoch(self) -> int:
        """Of this broker's time as controller.  Raises: Refused (NOT_CONTROLLER)."""
        return self._active().mandate.controller_epoch

    @property
    def context(self) -> Context:
        """What the controller knows.  Raises: Refused (NOT_CONTROLLER)."""
        return self._active().context

    @property
    def feature_epoch(self) -> int:
        """The version of /feature; -1: there is none."""
        return self._feature.epoch

    def require_active(self) -> None:
        """Raises: Refused (NOT_CONTROLLER) unless this broker is the controller."""
        self._active()

    async def ask(self, make: Callable[[Context], Procedure[T]]) -> T:
        """Have a procedure performed, behind all that has happened.

        Raises: what it raises; Refused (NOT_CONTROLLER), also if that changes meanwhile.
        """
        return await self._active().ask(make)

    async def wait_until(self, done: Callable[[Context], bool]) -> None:
        """Return once `done`, which is looked at after everything that happens.

        Raises: Refused (NOT_CONTROLLER), also if that changes meanwhile.
        """
        await self._active().wait_until(done)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, kind: ElectionType
    ) -> Elections:
        """Hold elections; None: for all partitions.  Raises: Refused (NOT_CONTROLLER)."""
        asked = None if partitions is None else dict.fromkeys(partitions)
        ends: LogEnds = {}
        if kind is ElectionType.UNCLEAN:
            ends = await self._active().log_ends(asked)
        return await self.ask(lambda context: procedures.elect(context, asked, kind, ends))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int | None = None) -> range:
        """A block of ids that nobody else gets; None: the epoch is not compared.

        Raises: Refused (NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH,
        UNKNOWN_SERVER_ERROR).
        """
        return await self._active().allocate_producer_ids(broker_id, broker_epoch)

    def reassignments(self) -> Iterator[Reassignment]:
        """The partitions that are being moved.  Raises: Refused (NOT_CONTROLLER)."""
        for topic, partitions in self._active().context.assignments.items():
            for partition, assignment in sorted(partitions.items()):
                if assignment.is_being_reassigned:
                    yield Reassignment(topic, partition, *assignment)

    async def unclean_election_enabled(self, topic: str | None) -> None:
        """A topic (None: all of them) allows unclean elections by now: hold those that wait.

        Where a suspect replica waits, the greatest leads first: the first one that is alive may
        lack much more.
        """
        if self._term is not None:
            ends = await self._term.log_ends(None)
            if ends:
                await self.ask(lambda context: procedures.elect_greatest(context, ends))
            await self.ask(lambda context: procedures.unclean_election_enabled(context, topic))

    def _active(self) -> ControllerTerm:
        if self._term is None:
            raise Refused(ErrorCode.NOT_CONTROLLER)
        return self._term

    # The race.

    def _look(self, event: WatchEvent | None = None) -> None:
        self._to_look.set()

    async def _follow(self) -> None:
        """Look at the nodes whenever they may have changed, for ever."""
        while True:
            await self._to_look.wait()
            self._to_look.clear()
            try:
                await self._look_around()
            except SessionExpired:
                continue  # `renewed` looks again

    async def _look_around(self) -> None:
        """Raises: SessionExpired."""
        try:
            await self._feature.read()
            await self._contend()
        except (KRaftControls, MalformedZnode) as error:
            logger.error("no election reason=%s", error)
            self.lost()
            if isinstance(error, KRaftControls):
                self.on_kraft(error)

    async def _contend(self) -> None:
        """Learn who is the controller; become it if nobody is.

        Raises: KRaftControls, MalformedZnode, SessionExpired.
        """
        async with self._turn:
            await self._contend_in_turn()

    async def _contend_in_turn(self) -> None:
        while True:
            holder = await read_holder(self._session, self._look)
            self._learn(holder)
            if holder is not None or not self._may_stand():
                return
            parts = self._parts
            wall_ms = parts.runtime.clock.wall_ms()
            session_id = self._session.id
            mandate = await stand(self._session, parts.broker_id, wall_ms)
            if mandate is not None and session_id == self._session.id:
                self._begin_term(mandate)
                return

    def _may_stand(self) -> bool:
        if not self._parts.config.odradek_controller_candidate or self._term is not None:
            return False
        loop = asyncio.get_running_loop()
        wait_s = self._may_stand_s - loop.time()
        if wait_s > 0:  # it has failed before
            loop.call_later(wait_s, self._look)
        return wait_s <= 0

    def _learn(self, holder: Holder | None) -> None:
        self.controller_id = NOBODY if holder is None else holder.broker_id
        is_ours = holder is not None and holder.session_id == self._session.id
        if self._term is not None and not is_ours:
            logger.warning("no longer controller, now it is broker=%d", self.controller_id)
            self._end_term()

    def _begin_term(self, mandate: Mandate) -> None:
        broker_id, epoch = self._parts.broker_id, mandate.controller_epoch
        logger.info("elected controller broker=%d epoch=%d", broker_id, epoch)
        self.controller_id = broker_id
        self._term = ControllerTerm(self._parts, mandate)
        self._term_task = self._tasks.spawn(self._run_term(self._term), "controller")

    def _end_term(self) -> None:
        term, self._term = self._term, None
        if term is None:
            return
        term.end()
        if self._term_task is not None and self._term_task is not asyncio.current_task():
            self._term_task.cancel()

    async def _run_term(self, term: ControllerTerm) -> None:
        try:
            await term.run()
        except SessionExpired:
            pass  # `lost` is on its way, or has been here
        except (ControllerMoved, StartOver) as reason:
            logger.warning("controller resigns epoch=%d reason=%s", term.mandate[0], reason)
        except Exception:
            logger.exception("controller resigns epoch=%d", term.mandate.controller_epoch)
            self._back_off()
        if self._term is term:
            await self.resign()
        self._look()

    def _back_off(self) -> None:
        """Leave the next elections to others, the longer the oftener this happens."""
        now_s = asyncio.get_running_loop().time()
        is_long_ago = now_s - self._may_stand_s > BACKOFF_MAX_S
        self._backoff_s = BACKOFF_MIN_S if is_long_ago else min(2 * self._backoff_s, BACKOFF_MAX_S)
        self._may_stand_s = now_s + self._backoff_s
