"""One controller's time: the real procedures, their effects performed one by one on the store.

It does what `odradek.broker.cluster` does, an operation of the store or a request at a time, and
between any two of them anything may happen: this broker may die, lose its session, or not know yet
that there is another controller. Until it notices it goes on.
"""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"
# What happens may return anything; only NOTHING says something.

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Context, LiveBroker
from odradek.broker.core.controller.effects import (
    Breathe,
    ControllerMoved,
    CreateStates,
    DeleteTopicNodes,
    DropDeletionRequests,
    KeepReassignmentRequests,
    Procedure,
    ReadStates,
    Send,
    WriteAssignment,
    WriteStates,
)
from odradek.broker.core.controller.requests import BrokerRequests
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.broker.member.control_messages import Sender
from odradek.protocol.errors import ErrorCode, Refused

from .store import ClusterStore
from .world import NOTHING, World

if TYPE_CHECKING:
    from .broker import SimBroker

TIMEOUT_MS: Final = 250
RETRY_MS: Final = 100

Op = Callable[[ClusterStore, bool], Any]
"""A transaction; the flag says that an attempt before may have done it."""
Handling = Generator[Op, Any, None]
OnResult = Callable[[Any], None]


class Control(NamedTuple):
    """A request to a broker."""

    kind: str
    sender: Sender
    live: Sequence[LiveBroker]
    items: Sequence[Any]
    is_full: bool = False
    """Whether metadata names every topic."""


class Answer(NamedTuple):
    """What the broker says."""

    code: ErrorCode
    codes: Mapping[TopicPartition, ErrorCode]


class Channel:
    """What one broker is told, in order."""

    def __init__(self, term: "ControllerTerm", broker: LiveBroker) -> None:
        self.broker = broker
        self.is_closed = False
        self._term = term
        self._queue: deque[Control] = deque()
        self._number = 0
        self._is_busy = False

    @property
    def owes(self) -> bool:
        """Whether something is to be told."""
        return self._is_busy or bool(self._queue)

    def put(self, asked: BrokerRequests, live: Sequence[LiveBroker]) -> None:
        """Queue requests."""
        context = self._term.context
        sender = Sender(context.controller_id, context.controller_epoch, self.broker.epoch)
        if asked.leader_and_isr:
            self._queue.append(Control("lead", sender, live, asked.leader_and_isr))
        if asked.update_metadata is not None:
            told, is_full = asked.update_metadata, asked.is_full
            self._queue.append(Control("metadata", sender, live, told, is_full))
        if asked.stop_replicas:
            self._queue.append(Control("stop", sender, live, asked.stop_replicas))
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        self._is_busy = bool(self._queue)
        if self._queue:
            self._number += 1
            self._ask(self._queue.popleft(), self._number)

    def _ask(self, control: Control, number: int) -> object:
        if self.is_closed:
            return NOTHING
        world, target = self._term.world, self._term.broker.others[self.broker.broker_id]

        def handle(reply: Callable[[Any], None]) -> object:
            if number < self._number and not self._may_be_late(target, control):
                return NOTHING
            return reply(target.control_asked(control))

        def answered(answer: Answer, is_late: bool) -> object:
            if is_late or self.is_closed:
                return NOTHING
            self._term.answered(self.broker, control, answer)
            return self._next()

        def failed() -> object:
            world.after(RETRY_MS, lambda: self._ask(control, number))
            return None

        world.ask(self._term.broker, target, handle, answered, failed, TIMEOUT_MS)
        return None

    def _may_be_late(self, target: "SimBroker", control: Control) -> bool:
        """Whether a copy may come behind later requests.

        UpdateMetadata and StopReplica have no fence against that, neither here nor in Kafka, nor
        has a LeaderAndIsr for a replica that was deleted since: there all relies on TCP.
        """
        is_fenced = control.kind == "lead"
        return is_fenced and all(s.key in target.replicas.partitions for s in control.items)


class ControllerTerm:
    """The controller while it thinks that it is one."""

    def __init__(self, broker: "SimBroker", controller_epoch: int) -> None:
        self.broker = broker
        self.world: World = broker.world
        self.context = Context(broker.broker_id, controller_epoch)
        self.has_begun = False
        self.has_ended = False
        self._channels: dict[int, Channel] = {}
        self._events: dict[object, Callable[[], Handling]] = {}
        self._changed_topics: set[str] = set()
        self._running: Handling | None = None
        self._run(self._begin())

    @property
    def is_quiet(self) -> bool:
        """Whether all that was heard is done, and all brokers are told."""
        owes = any(channel.owes for channel in self._channels.values())
        return self.has_begun and self._running is None and not self._events and not owes

    def end(self) -> None:
        """Nothing more is done; what is on its way arrives."""
        self.has_ended = True
        if self._running is not None:
            self._running.close()
        self._events.clear()
        for channel in self._channels.values():
            channel.is_closed = True

    # Events, one at a time.

    def put(self, key: object, handle: Callable[[], Handling]) -> None:
        """Have something handled behind all that waits."""
        self._events.setdefault(key, handle)
        if self._running is None:
            self._next()

    def _next(self) -> None:
        if self._running is None and self._events and not self.has_ended:
            self._run(self._events.pop(next(iter(self._events)))())

    def _run(self, handling: Handling) -> None:
        self._running = handling
        self._resume(None)

    def _resume(self, told: Any) -> object:
        """Go on to the next operation of the store, and have it done."""
        if self.has_ended:
            return NOTHING
        handling = self._running
        assert handling is not None
        try:
            op = handling.send(told)
        except StopIteration:
            self._running = None
            self._next()
            return None
        except ControllerMoved:
            self.broker.resign(self)
            return None
        self.broker.op(lambda store, is_retry: _attempt(store, op, is_retry), self._done)
        return None

    def _done(self, result: Any) -> object:
        if isinstance(result, ControllerMoved):
            if self.has_ended:
                return NOTHING
            self.broker.resign(self)
            return None
        return self._resume(result)

    # What is asked of it.

    def ask(self, make: Callable[[Context], Procedure[Any]], on_result: OnResult) -> object:
        """Have a procedure performed; what it returns, or the Refused that it raises."""

        def handle() -> Handling:
            try:
                result = yield from self._perform(make(self.context))
            except Refused as refused:
                on_result(refused)
            else:
                on_result(result)

        self.put(handle, handle)

    def answered(self, broker: LiveBroker, control: Control, answer: Answer) -> None:
        """A broker has said what became of a request."""
        codes = dict(answer.codes)
        if control.kind == "lead" and not answer.code and codes:
            make = procedures.leader_and_isr_answered
        elif control.kind == "stop":
            asked = [stopped.key for stopped in control.items if stopped.delete]
            if answer.code:
                codes = dict.fromkeys(asked, answer.code)
            codes = {key: codes[key] for key in asked if key in codes}
            make = procedures.stop_replica_answered
        else:
            return
        if not codes:
            return

        def handle() -> Handling:
            known = self.context.brokers.get(broker.broker_id)
            if known is not None and known.epoch == broker.epoch:
                yield from self._perform(make(self.context, broker.broker_id, codes))

        self.put(handle, handle)

    # What is noticed in the store.

    def noticed(self, what: str) -> None:
        """A watch has fired."""
        if what.startswith("topic "):
            self._changed_topics.add(what.removeprefix("topic "))
            what = "changed topics"
        handle = {
            "brokers": self._look_at_brokers,
            "topics": self._look_at_topics,
            "changed topics": self._look_at_changed_topics,
            "deletions": self._look_at_deletions,
            "reassignments": self._look_at_reassignments,
            "preferred": self._look_at_preferred,
            "isr changes": self._look_at_isr_changes,
            "log dirs": self._look_at_log_dirs,
        }.get(what)
        if handle is not None:
            self.put(what, handle)

    def _read(self, what: str, read: Callable[[ClusterStore], Any]) -> Op:
        def op(store: ClusterStore, is_retry: bool) -> Any:
            assert self.broker.session is not None
            self.broker.session.watches.add(what)
            return read(store)

        return op

    def _begin(self) -> Handling:
        brokers = yield self._read("brokers", ClusterStore.live)
        self._update_channels(brokers)
        yield self._read("isr changes", lambda store: None)
        yield self._write(lambda store: store.isr_changes.clear())
        yield self._read("log dirs", lambda store: None)
        yield self._write(lambda store: store.log_dir_events.clear())
        names = yield self._read("topics", lambda store: list(store.topics))
        topics = yield from self._read_topics(names)
        states = {}
        for name, node in topics.items():
            keys = [(name, partition) for partition in node.partitions]
            states.update((yield _read_states(keys)))
        preferred = yield self._read("preferred", lambda store: store.preferred)
        snapshot = procedures.Snapshot(
            brokers=brokers,
            topics=topics,
            states=states,
            deletions=(yield self._read("deletions", lambda store: sorted(store.deletions))),
            reassignments=(
                yield self._read("reassignments", lambda store: dict(store.reassignments))
            ),
            preferred_elections=preferred or (),
        )
        yield from self._perform(procedures.fail_over(self.context, snapshot))
        if preferred is not None:
            yield self._write(_delete_preferred)
        self.has_begun = True

    def _read_topics(self, names: Sequence[str]) -> Generator[Op, Any, Any]:
        topics = {}
        for name in names:
            node = yield self._read(
                f"topic {name}", lambda store, name=name: store.topics.get(name)
            )
            if node is not None:
                topics[name] = node
        return topics

    def _update_channels(self, brokers: Mapping[int, LiveBroker]) -> None:
        for broker_id, channel in list(self._channels.items()):
            if brokers.get(broker_id) != channel.broker:
                self._channels.pop(broker_id).is_closed = True
        for broker_id, broker in brokers.items():
            if broker_id not in self._channels:
                self._channels[broker_id] = Channel(self, broker)

    def _look_at_brokers(self) -> Handling:
        brokers = yield self._read("brokers", ClusterStore.live)
        self._update_channels(brokers)
        yield from self._perform(procedures.brokers_changed(self.context, brokers))

    def _look_at_topics(self) -> Handling:
        names = yield self._read("topics", lambda store: list(store.topics))
        known = self.context.assignments
        unseen, gone = [name for name in names if name not in known], known.keys() - set(names)
        if unseen or gone:
            topics = yield from self._read_topics(unseen)
            yield from self._perform(procedures.topics_changed(self.context, topics, sorted(gone)))

    def _look_at_changed_topics(self) -> Handling:
        names, self._changed_topics = sorted(self._changed_topics), set()
        topics = yield from self._read_topics(names)
        ids = self.context.topic_ids
        gone = {name for name in names if name not in topics}
        gone |= {name for name, node in topics.items() if ids.get(name) not in (None, node[0])}
        gone &= ids.keys()
        context = self.context
        if gone:
            yield from self._perform(procedures.topics_changed(context, {}, sorted(gone)))
        unseen = {name: node for name, node in topics.items() if name not in ids}
        if unseen:
            yield from self._perform(procedures.topics_changed(context, unseen, ()))
        for name in [name for name in topics if name not in unseen]:
            yield from self._perform(procedures.topic_changed(context, name, topics[name]))

    def _look_at_deletions(self) -> Handling:
        names = yield self._read("deletions", lambda store: sorted(store.deletions))
        if names:
            asked = procedures.deletions_asked(self.context, names, enabled=True)
            yield from self._perform(asked)

    def _look_at_reassignments(self) -> Handling:
        asked = yield self._read("reassignments", lambda store: dict(store.reassignments))
        if asked:
            yield from self._perform(procedures.reassignments_requested(self.context, asked))

    def _look_at_preferred(self) -> Handling:
        asked = yield self._read("preferred", lambda store: store.preferred)
        if asked is not None:
            wanted = procedures.preferred_elections_requested(self.context, sorted(asked))
            yield from self._perform(wanted)
            yield self._write(_delete_preferred)

    def _look_at_isr_changes(self) -> Handling:
        changes = yield self._read("isr changes", lambda store: list(store.isr_changes))
        if changes:
            keys = list(dict.fromkeys(changes))
            yield from self._perform(procedures.isr_changes_noticed(self.context, keys))
            yield self._drop(len(changes), lambda store: store.isr_changes)

    def _look_at_log_dirs(self) -> Handling:
        events = yield self._read("log dirs", lambda store: list(store.log_dir_events))
        if events:
            yield from self._perform(procedures.log_dirs_failed(self.context, set(events)))
            yield self._drop(len(events), lambda store: store.log_dir_events)

    def _drop(self, count: int, those: Callable[[ClusterStore], list[Any]]) -> Op:
        """Delete the first notices, which are nodes: once, whatever has come behind them."""

        def op(store: ClusterStore, is_retry: bool) -> None:
            store.check_fence(self.context.controller_epoch)
            if not is_retry:
                del those(store)[:count]

        return op

    # Effects.

    def _perform(self, procedure: Procedure[Any]) -> Generator[Op, Any, Any]:
        told: Any = None
        sweep = self.broker.transitions.sweep
        while True:
            try:
                effect = procedure.send(told)
            except StopIteration as done:
                sweep()
                return done.value
            sweep()
            told = None
            match effect:
                case Send(requests):
                    live = tuple(self.context.brokers.values())
                    for asked in requests:
                        channel = self._channels.get(asked.broker_id)
                        if channel is not None:
                            channel.put(asked, live)
                case Breathe():
                    yield lambda store, is_retry: None
                case ReadStates(keys):
                    told = {}
                    middle = self.world.random.randrange(len(keys))
                    for some in (keys[:middle], keys[middle:]):
                        if some:
                            told.update((yield _read_states(some)))
                case WriteStates(states):
                    told = yield from self._write_states(states)
                case CreateStates(states):
                    told = yield from self._create_states(states)
                case DeleteTopicNodes(topic):
                    yield self._write(lambda store, t=topic: store.delete_topic(t))
                    yield self._write(lambda store, t=topic: store.deletions.discard(t))
                case WriteAssignment():
                    yield self._write(lambda store, e=effect: _write_assignment(store, e))
                case DropDeletionRequests() | KeepReassignmentRequests():
                    yield self._write(
                        lambda store, e=effect: store.perform(e, store.controller_epoch)
                    )
                case _:
                    told = yield lambda store, is_retry, e=effect: store.perform(e, 0)

    def _write(self, write: Callable[[ClusterStore], Any]) -> Op:
        epoch = self.context.controller_epoch

        def op(store: ClusterStore, is_retry: bool) -> Any:
            store.check_fence(epoch)
            return write(store)

        return op

    def _write_states(
        self, states: Sequence[PartitionState]
    ) -> Generator[Op, Any, set[TopicPartition]]:
        conflicts = set()
        epoch = self.context.controller_epoch
        for state in states:

            def op(store: ClusterStore, is_retry: bool, state: PartitionState = state) -> Any:
                failed = store.fenced(WriteStates([state]), epoch)
                return failed and not (is_retry and store.holds(state))

            if (yield op):
                conflicts.add(state.key)
        return conflicts

    def _create_states(
        self, states: Sequence[PartitionState]
    ) -> Generator[Op, Any, set[TopicPartition]]:
        epoch = self.context.controller_epoch

        def all_at_once(store: ClusterStore, is_retry: bool) -> Any:
            store.check_fence(epoch)
            if any(state.key in store.states for state in states):
                return is_retry and all(store.holds(state) for state in states)
            if any(state.topic not in store.topics for state in states):
                return False
            return not store.fenced(CreateStates(states), epoch)

        if (yield all_at_once):
            return set()
        taken = set()
        for state in states:

            def op(store: ClusterStore, is_retry: bool, state: PartitionState = state) -> Any:
                store.check_fence(epoch)
                if state.topic not in store.topics:
                    return False
                return not store.fenced(CreateStates([state]), epoch) or store.holds(state)

            if not (yield op):
                taken.add(state.key)
        return taken


def _attempt(store: ClusterStore, op: Op, is_retry: bool) -> Any:
    try:
        return op(store, is_retry)
    except ControllerMoved as moved:
        return moved


def _read_states(keys: Sequence[TopicPartition]) -> Op:
    return lambda store, is_retry: {key: store.states[key] for key in keys if key in store.states}


def _write_assignment(store: ClusterStore, effect: WriteAssignment) -> None:
    if effect.topic in store.topics:
        store.perform(effect, store.controller_epoch)
        store.fire(f"topic {effect.topic}")


def _delete_preferred(store: ClusterStore) -> None:
    store.preferred = None
