"""A broker of a simulated cluster: the real rules for control requests, partitions and fetches.

Its disks outlive it. A process of it registers, contends for the controller, does what controllers
say, follows and leads, and asks the controller for other in-sync sets.
"""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"
# What happens may return anything; only NOTHING says something.

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from operator import ge
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from odradek.broker.coordinators.registry import Coordinators
from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Context
from odradek.broker.core.controller.effects import Procedure
from odradek.broker.core.controller.requests import StoppedReplica
from odradek.broker.core.fetch_session import FetchSessions
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.broker.member.control import ControlRequests
from odradek.broker.member.metadata import BrokerInfo, MetadataCache
from odradek.broker.node import Node
from odradek.broker.replication.throttles import Throttles
from odradek.protocol.errors import ErrorCode, Refused
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.log import Log

from .broker_disks import BrokerDisks
from .checks import Checks, Transitions
from .fetching import LAG_MAX_MS, POLL_MS, TIMEOUT_MS, Fetchers, Leading
from .promises import Promises
from .proposals import Proposals
from .replicas import CONFIG, SimReplicas, topic_config
from .store import ClusterStore, Session
from .term import Answer, Control, ControllerTerm
from .world import NOTHING, RETRY_MS, STORE, Killed, World, name_of

T = TypeVar("T")

SESSION_TIMEOUT_MS: Final = 700
FETCH_SESSIONS_MAX: Final = 10  # there is room for all, and for all their partitions


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never really waits."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as done:
            return cast(T, done.value)


class SimBroker:
    """One broker, and its processes one after the other."""

    def __init__(
        self,
        broker_id: int,
        world: World,
        store: ClusterStore,
        checks: Checks,
        promises: Promises,
        transitions: Transitions,
        others: "dict[int, SimBroker]",
        *,
        writes_isr: bool,
    ) -> None:
        """`writes_isr`: its leaders write in-sync sets themselves, as those of old do."""
        self.broker_id = broker_id
        self.world = world
        self.store = store
        self.checks = checks
        self.promises = promises
        self.transitions = transitions
        self.others = others
        self.writes_isr = writes_isr
        self.disks = BrokerDisks(broker_id, world, store, promises)
        self.files = self.disks.files
        self.boot_count = 0
        self.incarnation = 0
        self.is_up = False
        self.on_killed: Callable[[], None] = lambda: None
        self._begin()

    def _begin(self) -> None:
        """What a new process knows: nothing."""
        self.incarnation += 1
        self.session: Session | None = None
        self._sessions: list[Session] = []
        self.broker_epoch = -1
        self.has_registered = False
        self.stops = False
        self._is_contending = self._must_contend = False
        self.term: ControllerTerm | None = None
        self.metadata = MetadataCache("")
        self.proposals = Proposals(self)
        self._watchers: dict[Partition, Callable[[], None]] = {}
        self._taken_epochs: dict[Log, int] = {}
        self._heard_epoch = 0
        coordinators = Coordinators({})
        self.leading = Leading(self)
        told = self.leading.brokers_changed
        replicator: Any = SimpleNamespace(
            roles_changed=self._roles_changed, stopped=self.stopped, brokers_changed=told
        )
        self.replicas = SimReplicas(self, LogDirs((), [], needs_first=False))
        self.node = SimpleNamespace(
            broker_id=self.broker_id,
            broker_epoch=-1,
            clock=self.world,
            config=CONFIG,
            throttles=Throttles(CONFIG, self.world),
            fetch_sessions=FetchSessions(
                FETCH_SESSIONS_MAX, partitions_max=1000, randint=self.world.random.randint
            ),
            replicas=self.replicas,
            metadata=self.metadata,
            replicator=replicator,
        )
        node: Any = self.node
        self.node.find = partial(Node.find, node)
        self.node.code_for_absent = partial(Node.code_for_absent, node)
        session: Any = None
        self.control = ControlRequests(node, replicator, coordinators, session, lambda work: work)
        self._fetchers = Fetchers(self)

    # Life and death.

    @property
    def is_reachable(self) -> bool:
        """Whether it takes requests."""
        return self.is_up and self.has_registered

    def start(self) -> None:
        """Begin with what the disks have."""
        assert not self.is_up
        self._begin()
        self.is_up = True
        self._arm()
        log_dirs = LogDirs.lock(
            self.files.paths, self.files, needs_first=False, boot_id=f"boot-{self.boot_count}"
        )
        log_dirs.identify(self.broker_id, "sim")
        log_dirs.load(
            lambda topic: topic_config(self.store.overrides.get(topic, {})).log_config,
            self.world.wall_ms(),
        )
        self.replicas = self.node.replicas = SimReplicas(self, log_dirs)
        self.replicas.on_log_dir_failed = self._disk_failed
        for data_dir in log_dirs.online:
            for plan in data_dir.deleted_plans():
                self.replicas.deletions.add(plan, 0)
        self.replicas.upkeep.start()
        self._open()
        self.soon(POLL_MS, self._fetchers.poll)
        self.soon(LAG_MAX_MS // 2, self._shrink)

    def _arm(self) -> None:
        """Now and then a process is killed in the middle of what it does to its disks."""
        self.files.fuse = None
        if self.world.is_calm or not self.world.time_ms or self.world.random.random() > 0.15:
            return
        left = int(2 ** (self.world.random.random() * 9))

        def burn() -> Killed | None:
            nonlocal left
            left -= 1
            if left > 0 or self.world.is_calm:
                return None
            return Killed(self._killed, self.world.random.random())

        self.files.fuse = burn

    def _killed(self) -> None:
        self.on_killed()
        self.crash(expires_ms=self.world.random.choice((0, SESSION_TIMEOUT_MS)))

    def crash(self, *, expires_ms: int, loses_power: bool = False) -> object:
        """Be gone; the session ends later. What was not synced may go too."""
        session = self.session
        self.is_up = False
        self.incarnation += 1
        self.files.lives += 1
        self.files.fuse = None
        if self.term is not None:
            self.term.end()
            self.term = None
        if loses_power:
            self.boot_count += 1
            self.disks.lose_power(self.files.paths)
        if session is not None:
            self.world.after(expires_ms, lambda: self.store.expire(session))

    def shut_down(self) -> object:
        """Stop once somebody else leads, or that was tried often enough."""
        self.stops = True
        self._hand_over(tries_left=4)

    def _hand_over(self, tries_left: int) -> object:
        target = self.others.get(self.metadata.controller_id)

        def again() -> object:
            return self._hand_over(tries_left - 1)

        def answered(remaining: Any, is_late: bool) -> object:
            if is_late:
                return NOTHING
            if isinstance(remaining, list) and not remaining:
                return self.crash(expires_ms=0)
            return self.soon(RETRY_MS, again)

        if tries_left == 0:
            self.crash(expires_ms=0)
        elif target is None or self.broker_epoch < 0:
            self.soon(RETRY_MS, again)
        else:
            broker_id, epoch = self.broker_id, self.broker_epoch
            self.ask_controller(
                target,
                lambda context: procedures.shut_down(context, broker_id, epoch),
                answered,
                again,
            )

    def soon(self, delay_ms: int, happen: Callable[[], object]) -> object:
        """Unless this process is gone by then."""
        incarnation = self.incarnation

        def if_alive() -> object:
            return happen() if self.incarnation == incarnation else NOTHING

        self.world.after(delay_ms, if_alive, f"{self.broker_id} {name_of(happen)}")

    # The store.

    def op(self, do: Callable[[ClusterStore, bool], Any], then: Callable[[Any], object]) -> object:
        """Do something in the store; `do` may be called twice if the connection breaks."""
        session, world = self.session, self.world

        def attempt(is_retry: bool) -> object:
            if self.session is not session or session is None:
                return NOTHING
            if world.is_cut(self.broker_id, STORE):
                self.soon(RETRY_MS, lambda: attempt(is_retry))
                return NOTHING
            if not session.is_alive:
                return self._expired()
            result = do(self.store, is_retry)
            if world.chance(0.02):
                self.soon(RETRY_MS, lambda: attempt(True))
            else:
                self.soon(world.delay_ms(), lambda: answer(result))
            return None

        def answer(result: Any) -> object:
            if self.session is not session:
                return NOTHING
            if world.is_cut(self.broker_id, STORE):
                self.soon(RETRY_MS, lambda: answer(result))
                return NOTHING
            return then(result)

        self.soon(world.delay_ms(), lambda: attempt(False))

    def _open(self) -> None:
        self.session = self.store.open(self.broker_id, partial(self._noticed, self.incarnation))
        self._sessions.append(self.session)
        self._register()

    def _expired(self) -> object:
        """The session has ended: everything that lived with it is dropped, then it begins anew."""
        if self.term is not None:
            self.term.end()
            self.term = None
        self.broker_epoch = self.node.broker_epoch = -1
        self._is_contending = False
        self._open()
        if self.writes_isr:  # what was under way may not have been written
            self.proposals.begin_anew()

    def _register(self) -> None:
        session = self.session

        def read(store: ClusterStore, is_retry: bool) -> Any:
            return store.controller_epoch

        def heard(controller_epoch: Any) -> object:
            self.control.heard_of(controller_epoch)
            return again()

        def enter(store: ClusterStore, is_retry: bool) -> Any:
            assert session is not None
            return store.register(session, lambda other: other in self._sessions)

        def entered(live: Any) -> object:
            if live is None:
                return self.soon(RETRY_MS, again)
            self.broker_epoch = self.node.broker_epoch = live.epoch
            self.has_registered = True
            if not self.replicas.log_dirs.is_complete:
                self._tell_of_failed_disk()
            return self._contend()

        def again() -> object:
            return self.op(enter, entered) if self.session is session else NOTHING

        self.op(read, heard)

    def _noticed(self, incarnation: int, what: str) -> object:
        if self.incarnation != incarnation:
            return NOTHING
        if what == "expired":
            return NOTHING if self.world.is_cut(self.broker_id, STORE) else self.look_again()
        if what == "controller":
            self._contend()
        elif self.term is not None:
            self.term.noticed(what)
        else:
            return NOTHING
        return None

    def look_again(self) -> object:
        """There is a connection to the store: whose session has ended begins another one."""
        if not self.is_up or self.session is None or self.session.is_alive:
            return NOTHING
        return self._expired()

    # The controller.

    def _contend(self) -> object:
        """Learn who is the controller; become it if nobody is. One look at a time."""
        self._must_contend = True
        if not self._is_contending:
            self._contend_once()

    def _contend_once(self) -> None:
        self._is_contending, self._must_contend = True, False

        def read(store: ClusterStore, is_retry: bool) -> Any:
            assert self.session is not None
            self.session.watches.add("controller")
            return store.controller, store.controller_epoch

        def learned(found: Any) -> None:
            holder, epoch = found
            if self.term is not None and (holder is None or holder[1] is not self.session):
                self.term.end()
                self.term = None
            if holder is None and not self.stops:
                self.op(lambda store, is_retry: stand(store, epoch, is_retry), stood)
            else:
                finish()

        def stand(store: ClusterStore, epoch: int, is_retry: bool) -> Any:
            assert self.session is not None
            return store.stand(self.session, epoch, is_retry=is_retry)

        def stood(epoch: Any) -> None:
            if epoch is None:
                self._must_contend = True
            else:
                self.term = ControllerTerm(self, epoch)
            finish()

        def finish() -> None:
            self._is_contending = False
            if self._must_contend:
                self._contend_once()

        self.op(read, learned)

    def resign(self, term: ControllerTerm) -> None:
        """There is a later controller; or else there will be one."""
        term.end()
        if self.term is term:
            self.term = None
        epoch = term.context.controller_epoch

        def give_up(store: ClusterStore, is_retry: bool) -> None:
            if store.controller_epoch == epoch and store.controller is not None:
                store.delete_controller()

        self.op(give_up, lambda result: self._contend())

    def ask_controller(
        self,
        target: "SimBroker",
        make: Callable[[Context], Procedure[Any]],
        on_answer: Callable[[Any, bool], object],
        on_failure: Callable[[], object],
    ) -> object:
        def handle(reply: Callable[[Any], None]) -> None:
            if target.term is None:
                reply(Refused(ErrorCode.NOT_CONTROLLER))
            else:
                target.term.ask(make, reply)

        # A leader that was refused goes back to the old in-sync set, in Kafka as here: a copy of
        # its request that comes behind the refusal would be another's decision.
        self.world.ask(self, target, handle, on_answer, on_failure, TIMEOUT_MS, repeats=False)

    # Control requests.

    def control_asked(self, control: Control) -> Answer:
        """Do as a controller says, if it is one to listen to."""
        sender, partitions = control.sender, self.replicas.partitions
        known = {key: partition.state for key, partition in partitions.items()}
        try:
            if control.kind == "lead":
                codes = run(self.control.leader_and_isr(sender, control.items))
            elif control.kind == "stop":
                codes = run(self.control.stop_replicas(sender, control.items))
                self._check_stopped(control.items, known)
            else:
                live = [BrokerInfo(broker.broker_id, None, {}) for broker in control.live]
                told = control.items
                run(self.control.update_metadata(sender, live, told, is_full=control.is_full))
                codes = {}
        except Refused as refused:
            for key, state in known.items():
                assert partitions[key].state is state, "a refused request changes nothing"
            return Answer(refused.code, {})
        assert sender.controller_epoch >= self._heard_epoch, "nobody acts for an older controller"
        assert sender.broker_epoch >= self.broker_epoch, "nobody acts for its earlier life"
        self._heard_epoch = sender.controller_epoch
        return Answer(ErrorCode.NONE, codes)

    def _check_stopped(
        self, stopped: Iterable[StoppedReplica], known: dict[TopicPartition, PartitionState]
    ) -> None:
        for replica in stopped:
            state = known.get(replica.key)
            if state is not None and 0 <= replica.leader_epoch < state.leader_epoch:
                assert replica.key in self.replicas.partitions, "stopped in an older leader epoch"

    def _roles_changed(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            partition = self.replicas.partitions.get(key)
            self._fetchers.forget(key)
            if partition is None:
                continue
            state = partition.state
            assert state.leader_epoch > self._taken_epochs.get(partition.log, -1), (
                "nobody acts on an older leader epoch"
            )
            self._taken_epochs[partition.log] = state.leader_epoch
            assert partition.log.topic_id == state.topic_id
            self.checks.isr_known(state)
            self.promises.role_taken(partition)
            if partition.is_leader:
                self._watch(partition)
            else:
                self._fetchers.follow(key, partition)

    def _watch(self, partition: Partition) -> None:
        """Look at its high watermark and last stable offset whenever they move."""
        if partition not in self._watchers:
            known = (-1, 0, 0)

            def moved() -> None:
                nonlocal known
                if partition.is_leader:
                    log, epoch = partition.log, partition.state.leader_epoch
                    now = epoch, log.high_watermark, log.last_stable_offset
                    assert epoch > known[0] or all(map(ge, now, known)), "no offset goes back"
                    known = now
                    self.promises.committed(partition)

            self._watchers[partition] = moved
        partition.waiters.add(self._watchers[partition])
        self._watchers[partition]()

    def stopped(self, keys: Sequence[TopicPartition]) -> None:
        """Some are served no more, or followed no more."""
        for key in keys:
            self._fetchers.forget(key)

    # Leading.

    def _shrink(self) -> object:
        self.soon(LAG_MAX_MS // 2, self._shrink)
        proposed = False
        for partition in list(self.replicas.partitions.values()):
            if partition.shrink_isr(self.world.time_ms, LAG_MAX_MS):
                self.proposals.propose(partition)
                proposed = True
        return None if proposed else NOTHING

    # Disks.

    def fail_disk(self) -> bool:
        """One of two log directories answers nothing any more; that is noticed now or later."""
        path = self.disks.fail()
        if path is None:
            return False
        if self.world.random.random() < 0.5:
            self.replicas.take_offline(LogDirFailed(f"{path}: failed", f"{path}/x"))
        return True

    def log_bytes(self, state: PartitionState) -> bytes | None:
        """The log of a replica as it lies on the disks; None if there is none.

        What a living process has staged past its end is left out: it is not the log's before it is
        appended, and is cut off if another role comes first.
        """
        raw = self.disks.raw_log(state)
        partition = self.replicas.partitions.get(state.key) if self.is_up else None
        if raw is None or partition is None or partition.log.topic_id != state.topic_id:
            return raw
        return raw[: partition.log.size_bytes]

    def _disk_failed(self, keys: Iterable[TopicPartition]) -> None:
        self._tell_of_failed_disk()

    def _tell_of_failed_disk(self) -> None:
        def tell(store: ClusterStore, is_retry: bool) -> None:
            store.log_dir_events.append(self.broker_id)
            store.fire("log dirs")

        self.op(tell, lambda result: None)
