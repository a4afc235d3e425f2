"""The broker's side of controller election: follow /controller, stand for it, serve a term.

Every broker watches /controller. When the znode is deleted, all of them try to create it. The
winner is the controller (`ControllerTerm`) until its session ends, another broker replaces it, or
an unexpected error occurs. Then it discards its state and deletes the znode, and a new election
starts.
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
    """An ongoing reassignment of one partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ClusterController:
    """This broker as a candidate and, once elected, as the controller of the cluster.

    `start` it when the broker is registered. `lost` must be called from `CurrentSession.on_lost`,
    and `renewed` from `on_renewed`, after the broker has registered again.
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
        """One election at a time: two at once in one session could both believe they had won."""
        self._backoff_s = BACKOFF_MIN_S
        self._may_stand_s = -BACKOFF_MAX_S
        self.controller_id = NOBODY
        """The holder of /controller; -1: nobody."""
        self.on_kraft: Callable[[KRaftControls], None] = lambda error: None
        """Called if a KRaft controller holds /controller, or the znode has an unknown version."""

    # For the broker.

    async def start(self) -> None:
        """Find out which broker is the controller; stand for election if none is.

        Raises: KRaftControls, MalformedZnode, SessionExpired.
        """
        await self._feature.read()
        await self._contend()
        self._following = self._tasks.spawn(self._follow(), "follow controller")

    async def renewed(self) -> None:
        """Read and watch the znodes again in a new session.  Raises: SessionExpired."""
        await self._look_around()

    def lost(self) -> None:
        """End the term: the session is gone, and /controller with it."""
        self.controller_id = NOBODY
        self._end_term()

    async def stop(self) -> None:
        """Resign if this broker is the controller, and stop following /controller."""
        if self._following is not None:
            self._following.cancel()
        await self.resign()

    async def resign(self) -> None:
        """Resign if this broker is the controller; a new election follows."""
        term = self._term
        self._end_term()
        if term is not None:
            await step_down(self._session, term.mandate)

    async def settled(self) -> None:
        """Return when a failover to this broker, if there is one, has taken effect on it."""
        if self._term is not None:
            await self._term.settled()

    # For handlers.

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller; its failover may not have finished yet."""
        return self._term is not None

    @property
    def controller_epoch(self) -> int:
        """The epoch of this broker's term as controller.  Raises: Refused (NOT_CONTROLLER)."""
        return self._active().mandate.controller_epoch

    @property
    def context(self) -> Context:
        """The controller's state.  Raises: Refused (NOT_CONTROLLER)."""
        return self._active().context

    @property
    def feature_epoch(self) -> int:
        """The version of the znode /feature; -1: it does not exist."""
        return self._feature.epoch

    def require_active(self) -> None:
        """Raises: Refused (NOT_CONTROLLER) unless this broker is the controller."""
        self._active()

    async def ask(self, make: Callable[[Context], Procedure[T]]) -> T:
        """Perform a procedure after all events queued before it; return its result.

        Raises: what it raises; Refused (NOT_CONTROLLER), also if the term ends meanwhile.
        """
        return await self._active().ask(make)

    async def wait_until(self, done: Callable[[Context], bool]) -> None:
        """Return once `done` holds; it is evaluated now and after every event.

        Raises: Refused (NOT_CONTROLLER), also if the term ends meanwhile.
        """
        await self._active().wait_until(done)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, kind: ElectionType
    ) -> Elections:
        """Elect leaders (None: for all partitions).  Raises: Refused (NOT_CONTROLLER)."""
        asked = None if partitions is None else dict.fromkeys(partitions)
        ends: LogEnds = {}
        if kind is ElectionType.UNCLEAN:
            ends = await self._active().log_ends(asked)
        return await self.ask(lambda context: procedures.elect(context, asked, kind, ends))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int | None = None) -> range:
        """Allocate a block of ids for one broker.  `broker_epoch` None: the epoch is not checked.

        Raises: Refused (NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH,
        UNKNOWN_SERVER_ERROR).
        """
        return await self._active().allocate_producer_ids(broker_id, broker_epoch)

    def reassignments(self) -> Iterator[Reassignment]:
        """The ongoing reassignments.  Raises: Refused (NOT_CONTROLLER)."""
        for topic, partitions in self._active().context.assignments.items():
            for partition, assignment in sorted(partitions.items()):
                if assignment.is_being_reassigned:
                    yield Reassignment(topic, partition, *assignment)

    async def unclean_election_enabled(self, topic: str | None) -> None:
        """Hold the unclean elections that a topic (None: any topic) now allows.

        Partitions with a suspect replica come first, and the longest log among their live replicas
        leads: the first live replica of the assignment may lack far more records.
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

    # Election.

    def _look(self, event: WatchEvent | None = None) -> None:
        self._to_look.set()

    async def _follow(self) -> None:
        """Read the znodes whenever they may have changed, forever."""
        while True:
            await self._to_look.wait()
            self._to_look.clear()
            try:
                await self._look_around()
            except SessionExpired:
                continue  # `renewed` looks again

    async def _look_around(self) -> None:
        """Read /feature and /controller, and stand if possible.  Raises: SessionExpired."""
        try:
            await self._feature.read()
            await self._contend()
        except (KRaftControls, MalformedZnode) as error:
            logger.error("no election reason=%s", error)
            self.lost()
            if isinstance(error, KRaftControls):
                self.on_kraft(error)

    async def _contend(self) -> None:
        """Learn which broker is the controller; stand for election if none is.

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
        if wait_s > 0:  # an earlier term here has failed
            loop.call_later(wait_s, self._look)
        return wait_s <= 0

    def _learn(self, holder: Holder | None) -> None:
        self.controller_id = NOBODY if holder is None else holder.broker_id
        is_ours = holder is not None and holder.session_id == self._session.id
        if self._term is not None and not is_ours:
            logger.warning("another broker is controller now broker=%d", self.controller_id)
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
            pass  # `lost` was called, or is about to be
        except (ControllerMoved, StartOver) as reason:
            logger.warning("controller resigns epoch=%d reason=%s", term.mandate[0], reason)
        except Exception:
            logger.exception("controller resigns epoch=%d", term.mandate.controller_epoch)
            self._back_off()
        if self._term is term:
            await self.resign()
        self._look()

    def _back_off(self) -> None:
        """Sit out elections after a failed term: longer after each one, up to BACKOFF_MAX_S."""
        now_s = asyncio.get_running_loop().time()
        is_long_ago = now_s - self._may_stand_s > BACKOFF_MAX_S
        self._backoff_s = BACKOFF_MIN_S if is_long_ago else min(2 * self._backoff_s, BACKOFF_MAX_S)
        self._may_stand_s = now_s + self._backoff_s
