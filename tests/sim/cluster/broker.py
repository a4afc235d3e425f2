"""A broker of a simulated cluster: the real rules for control requests, partitions and fetches.

Its disks outlive it. A process of it registers, contends for the controller, does what controllers
say, follows and leads, and asks the controller for other in-sync sets.
"""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"
# What happens may return anything; only NOTHING says something.

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from odradek.broker.control import ControlRequests
from odradek.broker.coordination.interface import Session as StoreSession
from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Context
from odradek.broker.core.controller.effects import Procedure
from odradek.broker.core.controller.requests import StoppedReplica
from odradek.broker.core.fetch_reads import Read, read_all
from odradek.broker.core.fetch_session import PartitionFetch
from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import NO_LEADER, PartitionState, TopicPartition
from odradek.broker.core.truncation import truncation_offset
from odradek.broker.metadata import BrokerInfo, MetadataCache
from odradek.broker.node import Node
from odradek.broker.replication.following import Following
from odradek.protocol.errors import ErrorCode, Refused

from .checks import Checks, Transitions
from .memory_log import Disks, MemoryReplicas
from .proposals import Proposals
from .reign import Answer, Control, Reign
from .store import ClusterStore, Session
from .world import NOTHING, RETRY_MS, STORE, World

T = TypeVar("T")

POLL_MS: Final = 120
LAG_MAX_MS: Final = 900
TIMEOUT_MS: Final = 400
SESSION_TIMEOUT_MS: Final = 700


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
        self.transitions = transitions
        self.others = others
        self.writes_isr = writes_isr
        self.disks = Disks()
        self.incarnation = 0
        self.is_up = False
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
        self.reign: Reign | None = None
        self.metadata = MetadataCache("")
        self.replicas = MemoryReplicas(
            self.broker_id, self.disks, self.world, lambda key: self._stopped((key,))
        )
        self._followed: dict[TopicPartition, Following] = {}
        self._fetching: set[int] = set()
        self._proposals = Proposals(self)
        self._watchers: dict[Partition, Callable[[], None]] = {}
        self._heard_epoch = 0
        nothing: Callable[..., None] = lambda *args: None  # noqa: E731
        groups = SimpleNamespace(lead=nothing, resign_partitions=nothing, forget_topic=nothing)
        replicator = SimpleNamespace(
            roles_changed=self._roles_changed, stopped=self._stopped, brokers_changed=nothing
        )
        self._node = SimpleNamespace(
            broker_id=self.broker_id,
            broker_epoch=-1,
            clock=self.world,
            replicas=self.replicas,
            metadata=self.metadata,
            replicator=replicator,
            groups=groups,
        )
        self.control = ControlRequests(cast(Node, self._node), cast(StoreSession, None))

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
        for disk in self.disks.online:
            for kept in disk.logs.values():
                kept.reload()
        self._open()
        self.soon(POLL_MS, self._poll)
        self.soon(LAG_MAX_MS // 2, self._shrink)

    def crash(self, *, expires_ms: int) -> object:
        """Be gone; the session ends later."""
        session = self.session
        self.is_up = False
        self.incarnation += 1
        if self.reign is not None:
            self.reign.end()
            self.reign = None
        for disk in self.disks.online:
            for kept in disk.logs.values():
                low, high = kept.kept_high_watermark, kept.high_watermark
                kept.kept_high_watermark = self.world.random.randint(low, max(low, high))
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

        self.world.after(delay_ms, if_alive)

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
        if self.reign is not None:
            self.reign.end()
            self.reign = None
        self.broker_epoch = self._node.broker_epoch = -1
        self._is_contending = False
        self._open()
        if self.writes_isr:  # what was under way may not have been written
            self._proposals.begin_anew()

    def _register(self) -> None:
        session = self.session

        def enter(store: ClusterStore, is_retry: bool) -> Any:
            assert session is not None
            return store.register(session, lambda other: other in self._sessions)

        def entered(live: Any) -> object:
            if live is None:
                return self.soon(RETRY_MS, again)
            self.broker_epoch = self._node.broker_epoch = live.epoch
            self.has_registered = True
            if not self.disks.is_complete:
                self._tell_of_failed_disk()
            return self._contend()

        def again() -> object:
            return self.op(enter, entered) if self.session is session else NOTHING

        self.op(enter, entered)

    def _noticed(self, incarnation: int, what: str) -> object:
        if self.incarnation != incarnation:
            return NOTHING
        if what == "expired":
            return NOTHING if self.world.is_cut(self.broker_id, STORE) else self.look_again()
        if what == "controller":
            self._contend()
        elif self.reign is not None:
            self.reign.noticed(what)
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
            if self.reign is not None and (holder is None or holder[1] is not self.session):
                self.reign.end()
                self.reign = None
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
                self.reign = Reign(self, epoch)
            finish()

        def finish() -> None:
            self._is_contending = False
            if self._must_contend:
                self._contend_once()

        self.op(read, learned)

    def resign(self, reign: Reign) -> None:
        """There is a later controller; or else there will be one."""
        reign.end()
        if self.reign is reign:
            self.reign = None
        epoch = reign.context.controller_epoch

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
            if target.reign is None:
                reply(Refused(ErrorCode.NOT_CONTROLLER))
            else:
                target.reign.ask(make, reply)

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
                run(self.control.update_metadata(sender, live, control.items))
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
            self._followed.pop(key, None)
            if partition is None:
                continue
            self.checks.role_taken(partition)
            if partition.is_leader:
                self._watch(partition)
            elif partition.state.leader != NO_LEADER:
                self._followed[key] = Following(key, partition)

    def _watch(self, partition: Partition) -> None:
        if partition not in self._watchers:
            checks, unclean = self.checks, self.checks.unclean

            def moved() -> None:
                if partition.is_leader and partition.state.topic_id not in unclean:
                    checks.committed(partition)

            self._watchers[partition] = moved
        partition.waiters.add(self._watchers[partition])
        self._watchers[partition]()

    def _stopped(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            self._followed.pop(key, None)

    # Following.

    def _poll(self) -> object:
        self.soon(POLL_MS + self.world.random.randrange(20), self._poll)
        by_leader: dict[int, list[Following]] = {}
        for key, following in list(self._followed.items()):
            if following.is_current and self.replicas.partitions.get(key) is following.partition:
                by_leader.setdefault(following.partition.state.leader, []).append(following)
        by_leader = {leader: f for leader, f in by_leader.items() if leader not in self._fetching}
        for leader, followings in by_leader.items():
            self._fetch(leader, followings)
        return None if by_leader else NOTHING

    def _fetch(self, leader: int, followings: Sequence[Following]) -> None:
        for following in followings:
            kept = following.partition.log
            if kept.epochs.latest < 0:
                kept.truncate(kept.high_watermark)
        fetches = [
            PartitionFetch(
                f.key,
                f.partition.log.log_end_offset,
                10,
                f.leader_epoch,
                f.partition.log.epochs.latest,
                0,
            )
            for f in followings
        ]
        ids = {f.key: f.topic_id for f in followings}
        target = self.others[leader]
        self._fetching.add(leader)

        def answered(reads: list[tuple[Read, Any, int]], is_late: bool) -> object:
            if is_late:
                return NOTHING
            self._fetching.discard(leader)
            for following, (read, records, end) in zip(followings, reads, strict=True):
                self._take(following, read, records, end)
            return None

        def handle(reply: Callable[[Any], None]) -> None:
            reply(target.serve_fetch(self.broker_id, fetches, ids))

        self.world.ask(
            self, target, handle, answered, lambda: self._fetching.discard(leader), TIMEOUT_MS
        )

    def serve_fetch(
        self, replica_id: int, fetches: list[PartitionFetch], ids: dict[TopicPartition, bytes]
    ) -> list[tuple[Read, Any, int]]:
        """Answer a follower: what was read, its records, and where the log ends."""
        partitions = self.replicas.partitions

        def find(fetch: PartitionFetch) -> Partition:
            partition = partitions.get(cast(TopicPartition, fetch.key))
            if partition is None:
                raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if partition.log.topic_id != ids[cast(TopicPartition, fetch.key)]:
                raise Refused(ErrorCode.INCONSISTENT_TOPIC_ID)
            return partition

        by = FetchingReplica(
            replica_id,
            is_alive=replica_id in self.metadata.brokers,
            now_ms=self.world.time_ms,
            lag_max_ms=LAG_MAX_MS,
        )
        reads = read_all(fetches, find, 1000, replica=by)
        for partition in by.proposed:
            self._proposals.propose(partition)
        return [
            (
                read,
                () if read.span is None else cast(Any, read.span).records,
                0 if read.partition is None else read.partition.log.log_end_offset,
            )
            for read in reads
        ]

    def _take(self, following: Following, read: Read, records: Any, leader_end: int) -> None:
        partition = following.partition
        if (
            self._followed.get(following.key) is not following
            or not following.is_current
            or self.replicas.partitions.get(following.key) is not partition
        ):
            return
        kept = partition.log
        if read.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            if leader_end < kept.log_end_offset:
                kept.truncate(leader_end)
        elif read.error:
            if read.error == ErrorCode.FENCED_LEADER_EPOCH:
                del self._followed[following.key]
        elif read.diverging_epoch is not None:
            kept.truncate(truncation_offset(kept, *read.diverging_epoch))
        elif kept.log_end_offset == read.fetch.fetch_offset:
            partition.append_fetched(records, wall_ms=0)
            partition.take_offsets(read.high_watermark, 0)

    # Leading.

    def produce(self, value: int) -> object:
        """A client writes to any partition that is led here."""
        led = [p for _, p in sorted(self.replicas.partitions.items()) if p.is_leader]
        if not led:
            return NOTHING
        partition = self.world.random.choice(led)
        partition.append(cast(Any, value), cast(Any, None), wall_ms=0)
        return None

    def _shrink(self) -> object:
        self.soon(LAG_MAX_MS // 2, self._shrink)
        proposed = False
        for partition in list(self.replicas.partitions.values()):
            if partition.shrink_isr(self.world.time_ms, LAG_MAX_MS):
                self._proposals.propose(partition)
                proposed = True
        return None if proposed else NOTHING

    # Disks.

    def fail_disk(self) -> bool:
        """One of two log directories is lost."""
        if not self.disks.is_complete:
            return False
        disk = self.world.random.choice(self.disks.all)
        disk.has_failed = True
        self.replicas.offline |= disk.logs.keys()
        self.replicas.stop_serving(list(disk.logs))
        self._tell_of_failed_disk()
        return True

    def _tell_of_failed_disk(self) -> None:
        def tell(store: ClusterStore, is_retry: bool) -> None:
            store.log_dir_events.append(self.broker_id)
            store.fire("log dirs")

        self.op(tell, lambda result: None)
