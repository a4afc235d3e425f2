"""The store of a simulated cluster: sessions that expire, ephemeral nodes, versions, watches."""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"
# What happens may return anything; only NOTHING says something.

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from odradek.broker.core.controller.context import LiveBroker, TopicNode
from odradek.broker.core.controller.effects import (
    ControllerMoved,
    Effect,
    ReplicaAssignment,
    StoredState,
)
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from tests.broker.core.controller.model import Store, broker

from .checks import Checks
from .world import STORE, World

Noticed = Callable[[str], object]


@dataclass
class Session:
    """A client's session; `notice` hears of what its watches see."""

    broker_id: int
    notice: Noticed
    is_alive: bool = True
    watches: set[str] = field(default_factory=set)
    """What is watched: "brokers", "topics", "topic t", ..."""


class ClusterStore(Store):
    """What all brokers share. Every method is one transaction."""

    def __init__(self, world: World, checks: Checks) -> None:
        super().__init__()
        self._world = world
        self._checks = checks
        self._zxid = 0
        self._is_fenced = True
        self.sessions: list[Session] = []
        self.registered: dict[int, tuple[LiveBroker, Session]] = {}
        self.controller: tuple[int, Session] | None = None
        self.overrides: dict[str, dict[str, str]] = {}
        """Settings of topics."""
        self.on_isr: Callable[[PartitionState, tuple[int, ...]], None] = lambda state, isr: None
        """Told of each state that is written, and the in-sync set before."""
        self.preferred: set[TopicPartition] | None = None
        self.isr_changes: list[TopicPartition] = []
        self.log_dir_events: list[int] = []
        self._witnesses: dict[bytes | None, tuple[int, list[Session]]] = {}
        """Under which controller a topic was deleted, and who was registered then."""

    # Sessions and watches.

    def open(self, broker_id: int, notice: Noticed) -> Session:
        """A new session."""
        session = Session(broker_id, notice)
        self.sessions.append(session)
        return session

    def expire(self, session: Session) -> object:
        """End a session, and what lives as long as it."""
        if not session.is_alive:
            return
        session.is_alive = False
        self.sessions.remove(session)
        heard_ms = self._world.random.randrange(5, 500)
        self._world.after(heard_ms, lambda: session.notice("expired"))
        found = self.registered.get(session.broker_id)
        if found is not None and found[1] is session:
            del self.registered[session.broker_id]
            self.fire("brokers")
        if self.controller is not None and self.controller[1] is session:
            self.delete_controller()

    def fire(self, what: str) -> object:
        """Tell who watches; each of them once."""
        for session in self.sessions:
            if what in session.watches:
                session.watches.discard(what)
                self._tell(session, what)

    def reconnected(self, broker_id: int) -> None:
        """Watches are lost with a connection: all that is watched has to be looked at again."""
        for session in self.sessions:
            if session.broker_id == broker_id:
                watches, session.watches = session.watches, set()
                for what in sorted(watches):
                    self._tell(session, what)

    def _tell(self, session: Session, what: str) -> None:
        def arrive() -> object:
            if self._world.is_cut(session.broker_id, STORE):
                session.watches.add(what)  # `reconnected` tells of it
                return False
            return session.notice(what)

        if self._world.is_cut(session.broker_id, STORE):
            session.watches.add(what)
        else:
            self._world.after(self._world.delay_ms(), arrive)

    # Brokers and controllers.

    def register(self, session: Session, mine: Callable[[Session], bool]) -> LiveBroker | None:
        """Enter a broker in place of an earlier session of its own; None: somebody is there."""
        found = self.registered.get(session.broker_id)
        if found is not None and not mine(found[1]):
            return None
        self._zxid += 1
        entered = broker(session.broker_id, self._zxid)
        self.registered[session.broker_id] = entered, session
        self.fire("brokers")
        return entered

    def live(self) -> dict[int, LiveBroker]:
        """Who is registered."""
        return {broker_id: entered for broker_id, (entered, _) in self.registered.items()}

    def stand(self, session: Session, read_epoch: int, *, is_retry: bool) -> int | None:
        """Become controller; the epoch, or None if another one was faster."""
        if self.controller is None and self.controller_epoch == read_epoch:
            self.controller = session.broker_id, session
            self.controller_epoch += 1
            self.fire("controller")
            return self.controller_epoch
        is_ours = self.controller is not None and self.controller[1] is session
        if is_retry and is_ours and self.controller_epoch == read_epoch + 1:
            return self.controller_epoch
        return None

    def delete_controller(self) -> object:
        """Nobody is controller any more."""
        self.controller = None
        self.fire("controller")

    # What controllers write.

    def check_fence(self, controller_epoch: int) -> None:
        """Raises: ControllerMoved."""
        if controller_epoch != self.controller_epoch:
            raise ControllerMoved(f"{controller_epoch} is not {self.controller_epoch}")

    def fenced(self, effect: Effect, controller_epoch: int) -> Any:
        """Do what an effect says.  Raises: ControllerMoved."""
        self.check_fence(controller_epoch)
        return self.perform(effect, controller_epoch)

    def holds(self, state: PartitionState) -> bool:
        """Whether a node is as this state says to the letter."""
        return self.states.get(state.key) == stored(state)

    def _put(self, state: PartitionState) -> None:
        before = self.states.get(state.key)
        super()._put(state)
        node = self.topics.get(state.topic)
        assert node is not None and state.partition in node.partitions, "no state without a topic"
        now = self.states[state.key]
        self._checks.state_written(
            node, state, before, now, self.controller_epoch, is_fenced=self._is_fenced
        )
        if before is not None:
            self.on_isr(state, before.isr)

    def delete_topic(self, topic: str) -> None:
        """A topic's nodes go, but not the request to delete it."""
        is_asked = topic in self.deletions
        if topic in self.topics:
            present = [session for _, session in self.registered.values()]
            self._witnesses[self.topics[topic].topic_id] = self.controller_epoch, present
        self._delete(topic)
        if is_asked:
            self.deletions.add(topic)
        self.fire("topics")
        self.fire(f"topic {topic}")

    def must_have_heard(self, session: Session, topic_id: bytes) -> bool:
        """Whether a broker is to know that a topic is gone, which only one controller can tell."""
        controller_epoch, present = self._witnesses[topic_id]
        return controller_epoch == self.controller_epoch and session in present

    def write_as_leader(self, state: PartitionState) -> bool:
        """A leader of old writes its in-sync replicas itself, unfenced.

        Not into a later topic of the same name, which leaders that know no ids could do.
        """
        node = self.topics.get(state.topic)
        if node is not None and node.topic_id != state.topic_id:
            return False
        self._is_fenced = False
        is_written = self._write(state)
        self._is_fenced = True
        if not is_written:
            return False
        self.isr_changes.append(state.key)
        self.fire("isr changes")
        return True

    # What admin clients write.

    def create_topic(self, topic: str, topic_id: bytes, replicas: list[tuple[int, ...]]) -> None:
        """A new topic."""
        partitions = {p: ReplicaAssignment(some) for p, some in enumerate(replicas)}
        self.topics[topic] = TopicNode(topic_id, partitions)
        self.fire("topics")

    def add_partition(self, topic: str, replicas: tuple[int, ...]) -> object:
        """One more; of a topic that is being deleted some may have gone already."""
        node = self.topics[topic]
        number = max(node.partitions, default=-1) + 1
        partitions = {**node.partitions, number: ReplicaAssignment(replicas)}
        self.topics[topic] = TopicNode(node.topic_id, partitions)
        self.fire(f"topic {topic}")


def stored(state: PartitionState) -> StoredState:
    """The node that holds a state."""
    return StoredState(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        state.partition_epoch,
        state.is_recovering,
    )
