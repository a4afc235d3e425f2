"""A whole simulated cluster: a storm of things that happen to it, and the calm after it."""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"
# What happens may return anything; only NOTHING says something.

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from zlib import crc32

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Context
from odradek.broker.core.controller.effects import Procedure
from odradek.broker.core.elections import ElectionType
from odradek.broker.core.partition_state import PartitionState, TopicPartition

from .broker import SESSION_TIMEOUT_MS, SimBroker
from .checks import Checks, Transitions
from .clients import Clients
from .promises import Promises
from .store import ClusterStore, Session
from .term import ControllerTerm
from .world import STORE, World

TOPICS: Final = ("a", "b", "c")
EVENTS_MIN: Final = 1000
CRASHES_MIN: Final = 3
CALM_MAX_MS: Final = 60_000
STORM_MAX_MS: Final = 3_600_000


class Outcome(NamedTuple):
    """How much happened."""

    events: int
    crashes: int
    cuts: int
    controllers: int
    acknowledged: int
    holes: int
    trace: int
    """The same for each life of one seed."""


class SimCluster:
    """Brokers, a store, and whoever disturbs them."""

    def __init__(self, seed: int, transitions: Transitions) -> None:
        self.world = World(seed)
        self.checks = Checks()
        self.store = ClusterStore(self.world, self.checks)
        self.brokers: dict[int, SimBroker] = {}
        self.promises = Promises(self.world, self.store, self.brokers)
        self.store.on_isr = self.promises.isr_written
        self.clients = Clients(self.world, self.store, self.brokers, self.promises)
        self.crashes = self.cuts = 0
        chance = self.world.random
        self._power_loss = chance.choice((0, 0.3, 0.6))
        """How likely it is that a crash is one of the whole machine."""
        self._flush_messages = chance.choice((None, None, None, "1", "4"))
        self.promises.may_lose = self._flush_messages != "1"
        ids = range(1, 4 + chance.randrange(2))
        allows_loss = chance.random() < 0.4
        self._unclean = "c" if allows_loss else None
        old = chance.random() < 0.3
        for broker_id in ids:
            self.brokers[broker_id] = SimBroker(
                broker_id,
                self.world,
                self.store,
                self.checks,
                self.promises,
                transitions,
                self.brokers,
                writes_isr=old and chance.random() < 0.5,
            )
            self.brokers[broker_id].on_killed = self._count_crash
        self._is_storm = True
        self._pause_ms = chance.choice(((10, 100), (30, 300), (50, 500)))
        self._actions: list[tuple[int, Callable[[], object]]] = [
            (10, self._create),
            (3, self._delete),
            (4, self._extend),
            (7, self._reassign),
            (2, self._request_reassignment),
            (2, self._cancel),
            (3, self._elect),
            (2, self._request_elections),
            (2, self._rebalance),
            (4, self._crash),
            (3, self._bounce),
            (16, self._start),
            (2, self._shut_down),
            (2, self._expire),
            (2, self._fail_disk),
            (4, self._cut),
            (1, self._unseat),
            (1, self._crash_controller),
        ]

    # The storm.

    def run(self) -> Outcome:
        """Let it happen, then settle; everything is checked on the way."""
        world = self.world
        for broker in self.brokers.values():
            broker.start()
        for topic in TOPICS[:2]:
            self._create_topic(topic)
        world.after(50, self._act)
        world.after(20, self._write)
        world.after(20, self._read)
        while self._is_storm:
            assert world.time_ms < STORM_MAX_MS, "nothing happens any more"
            world.step()
        self._calm_down()
        deadline_ms = world.time_ms + CALM_MAX_MS
        while (trouble := self._trouble()) is not None and not self._is_split():
            assert world.time_ms < deadline_ms, f"the cluster does not settle: {trouble}"
            until_ms = world.time_ms + 200
            while world.time_ms < until_ms:
                world.step()
        for session in self.store.sessions:
            assert session.is_alive
        return Outcome(
            world.event_count,
            self.crashes,
            self.cuts,
            self.store.controller_epoch,
            self.clients.acknowledged_count,
            self.promises.holes,
            hash((world.trace, self._check_logs())),
        )

    def _is_split(self) -> bool:
        """Whether there is a partition of which nobody can tell who is right, or catch up."""
        return any(
            not self.promises.is_whole(node.topic_id, partition)
            for node in self.store.topics.values()
            for partition in node.partitions
        )

    def _check_logs(self) -> int:
        """All replicas are equal now; a number for what they hold."""
        number = 0
        if self._is_split():
            return number
        for key, node in sorted(self.store.states.items()):
            replicas = [self.brokers[broker_id].replicas.partitions[key] for broker_id in node.isr]
            raws = {self.brokers[p.node_id].disks.raw_log(p.state) for p in replicas}
            assert len(raws) == 1, f"{key} differs: {[r and len(r) for r in raws]} {node}"
            entries = [
                [entry for entry in p.log.epochs.entries() if entry[1] < p.log.log_end_offset]
                for p in replicas
            ]
            number = crc32(raws.pop() or b"", number)
            if key[0] != self._unclean:
                for partition in replicas:
                    self.promises.replica(partition)
            assert all(kept == entries[0] for kept in entries), f"{key} {entries}"
        return number

    def _act(self) -> object:
        world = self.world
        if self._is_rich and world.event_count > EVENTS_MIN:
            self._is_storm = False
            return None
        world.after(world.random.randrange(*self._pause_ms), self._act)
        if world.event_count > EVENTS_MIN * 2 // 3 and not self._is_rich:
            return self._enrich()
        weights, actions = zip(*self._actions, strict=True)
        return world.random.choices(actions, weights)[0]()

    @property
    def _is_rich(self) -> bool:
        """Whether enough has happened."""
        return self.store.controller_epoch > 1 and self.cuts > 0 and self.crashes >= CRASHES_MIN

    def _enrich(self) -> object:
        if self.store.controller_epoch < 2:
            # If nobody is the first one any more, nobody may be there to be the second.
            return self._unseat() if self.store.controller is not None else self._start()
        if not self.cuts:
            return self._cut()
        self._crash()
        return self._start()

    def _write(self) -> object:
        self.world.after(self.world.random.randrange(10, 60), self._write)
        broker = self._any_up()
        return broker is not None and self._is_storm and self.clients.write(broker)

    def _read(self) -> object:
        self.world.after(self.world.random.randrange(20, 120), self._read)
        broker = self._any_up()
        return broker is not None and self.clients.read(broker)

    def _calm_down(self) -> None:
        """Everything that is broken is mended, and all brokers are started."""
        world = self.world
        world.is_calm = True
        self._heal(set(world.cuts))
        for broker in self.brokers.values():
            if broker.is_up and broker.files.failed:
                broker.crash(expires_ms=0)
            if not broker.is_up:
                self._start_broker(broker, mends=True)
            # Who stops at the moment is started when it has.
        world.after(500, self._start_all)

    def _start_all(self) -> None:
        for broker in self.brokers.values():
            has_crashed = broker.is_up and self._remove_strays(broker)
            if broker.is_up and not has_crashed and self._has_missed_deletion(broker):
                broker.crash(expires_ms=0)
            if not broker.is_up:
                self._start_broker(broker, mends=True)
        self.world.after(500, self._start_all)

    def _remove_strays(self, broker: SimBroker) -> bool:
        """Delete logs of topics that are gone, as an operator of Kafka has to.

        A broker has them that was down when its replica was moved away.
        """
        ids = {node.topic_id for node in self.store.topics.values() if node.topic_id is not None}
        strays = broker.disks.stray_paths(ids)
        if strays:
            broker.crash(expires_ms=0)
        for path in strays:
            broker.files.drop(path)
        return bool(strays)

    def _has_missed_deletion(self, broker: SimBroker) -> bool:
        """Whether it answers for a topic that is gone, as brokers of Kafka do until a restart.

        Nobody tells it that was away, or that the controller had not reached when it ended.
        """
        ids = {node.topic_id for node in self.store.topics.values()}
        return broker.session is not None and any(
            not self.store.must_have_heard(broker.session, info.topic_id)
            for info in broker.metadata.topics.values()
            if info.topic_id not in ids
        )

    # What must be in the end.

    def _trouble(self) -> str | None:
        """What is not as it should be when all is well."""
        store = self.store
        terms = [b.term for b in self.brokers.values() if b.term is not None]
        if len(terms) != 1 or terms[0].context.controller_epoch != store.controller_epoch:
            return f"{len(terms)} controllers"
        if not terms[0].is_quiet:
            return "the controller is busy"
        if len(store.registered) < len(self.brokers):
            return f"registered are {sorted(store.registered)}"
        if store.deletions or store.reassignments or store.preferred is not None:
            return f"asked: {store.deletions} {store.reassignments} {store.preferred}"
        for topic, node in store.topics.items():
            for partition, assignment in node.partitions.items():
                key = topic, partition
                found = store.states.get(key)
                if found is None or set(found.isr) != set(assignment.replicas) or found.leader < 0:
                    return f"{key} {assignment} is {found}"
                if assignment.is_being_reassigned:
                    return f"{key} is being moved: {assignment}"
        if store.states.keys() != {(t, p) for t, n in store.topics.items() for p in n.partitions}:
            return "states of topics that are not there"
        return self._untold(terms[0])

    def _untold(self, term: ControllerTerm) -> str | None:
        """What controller or brokers do not know of the store."""
        context = term.context
        if context.states.keys() != self.store.states.keys():
            return f"the controller knows {sorted(context.states)}"
        if context.reassigning or context.topics_to_delete:
            return f"the controller still has {context.reassigning} {context.topics_to_delete}"
        expected = {}
        for key, node in self.store.states.items():
            state = context.states[key]
            replicas = self.store.topics[key[0]].partitions[key[1]].replicas
            expected[key] = node.leader, node.leader_epoch, node.isr, replicas
            if _brief(state) != expected[key]:
                return f"the controller knows {state} for {node}"
        for broker in self.brokers.values():
            told = {
                (name, state.partition): _brief(state)
                for name, topic in broker.metadata.topics.items()
                for state in topic.partitions
            }
            if told != expected:
                return f"broker {broker.broker_id} was told {told}, not {expected}"
            if broker.metadata.controller_id != context.controller_id:
                return f"broker {broker.broker_id} asks {broker.metadata.controller_id}"
            if broker.metadata.brokers.keys() != self.brokers.keys():
                return f"broker {broker.broker_id} knows {broker.metadata.brokers}"
            for key, (leader, leader_epoch, isr, _) in expected.items():
                served = broker.replicas.partitions.get(key)
                if broker.broker_id not in isr:
                    continue
                if served is None or served.state.leader_epoch != leader_epoch:
                    return f"broker {broker.broker_id} serves {served and served.state} for {key}"
                if served.is_leader != (leader == broker.broker_id):
                    return f"broker {broker.broker_id} is no leader of {key}"
                if served.log.high_watermark != served.log.log_end_offset:
                    return f"broker {broker.broker_id} has uncommitted records of {key}"
        return None

    # Topics.

    def _draw_replicas(self) -> tuple[int, ...]:
        chance, ids = self.world.random, list(self.brokers)
        return tuple(chance.sample(ids, chance.choice((1, 2, 2, 3, 3))))

    def _create(self) -> object:
        absent = [t for t in TOPICS if t not in self.store.topics and t not in self.store.deletions]
        return self._create_topic(self.world.random.choice(absent)) if absent else False

    def _create_topic(self, topic: str) -> object:
        chance = self.world.random
        topic_id = chance.randbytes(16)
        if topic == self._unclean:
            self.checks.unclean.add(topic_id)
            self.promises.unclean.add(topic_id)
            self.store.unclean_topics.add(topic)
        self.store.overrides[topic] = {
            "min.insync.replicas": chance.choice(("1", "2", "2")),
            "segment.bytes": chance.choice(("300", "1000")),
        }
        if self._flush_messages is not None:
            self.store.overrides[topic]["flush.messages"] = self._flush_messages
        replicas = [self._draw_replicas() for _ in range(chance.randrange(1, 4))]
        self.store.create_topic(topic, topic_id, replicas)

    def _any_topic(self) -> str | None:
        topics = sorted(self.store.topics)
        return self.world.random.choice(topics) if topics else None

    def _any_partition(self) -> TopicPartition | None:
        keys = [(t, p) for t, node in sorted(self.store.topics.items()) for p in node.partitions]
        return self.world.random.choice(keys) if keys else None

    def _delete(self) -> object:
        topic = self._any_topic()
        if topic is None:
            return False
        self.store.deletions.add(topic)
        topic_id = self.store.topics[topic].topic_id
        assert topic_id is not None
        self.promises.doomed.add(topic_id)
        return self.store.fire("deletions")

    def _extend(self) -> object:
        topic = self._any_topic()
        if topic is None or len(self.store.topics[topic].partitions) > 4:
            return False
        return self.store.add_partition(topic, self._draw_replicas())

    # What admin clients ask for.

    def _ask(self, make: Callable[[Context], Procedure[Any]]) -> object:
        terms = [b.term for b in self.brokers.values() if b.term is not None]
        if not terms:
            return False
        return self.world.random.choice(terms).ask(make, lambda result: None)

    def _reassign(self) -> object:
        key = self._any_partition()
        if key is None:
            return False
        asked = {key: self._draw_replicas()}
        return self._ask(lambda context: procedures.reassign(context, asked))

    def _cancel(self) -> object:
        key = self._any_partition()
        return key is not None and self._ask(
            lambda context: procedures.reassign(context, {key: None})
        )

    def _request_reassignment(self) -> object:
        key = self._any_partition()
        if key is None or self.store.reassignments:
            return False
        self.store.reassignments = {key: self._draw_replicas()}
        return self.store.fire("reassignments")

    def _elect(self) -> object:
        if self._unclean is None or self.world.random.random() < 0.5:
            return self._ask(lambda c: procedures.elect(c, None, ElectionType.PREFERRED))
        keys = [key for key in self.store.states if key[0] == self._unclean]
        return self._ask(lambda c: procedures.elect(c, keys, ElectionType.UNCLEAN))

    def _request_elections(self) -> object:
        key = self._any_partition()
        if key is None or self.store.preferred is not None:
            return False
        self.store.preferred = {key}
        return self.store.fire("preferred")

    def _rebalance(self) -> object:
        return self._ask(lambda context: procedures.rebalance(context, 10))

    # Faults.

    def _any_up(self) -> SimBroker | None:
        up = [broker for broker in self.brokers.values() if broker.is_up]
        return self.world.random.choice(up) if up else None

    def _crash(self) -> object:
        broker = self._any_up()
        return broker is not None and self._crash_broker(broker)

    def _crash_broker(self, broker: SimBroker, expires_ms: int | None = None) -> object:
        self._count_crash()
        chance = self.world.random
        if expires_ms is None:
            expires_ms = chance.choice((0, SESSION_TIMEOUT_MS))
        broker.crash(expires_ms=expires_ms, loses_power=chance.random() < self._power_loss)

    def _count_crash(self) -> None:
        self.crashes += 1

    def _bounce(self) -> object:
        broker = self._any_up()
        if broker is None:
            return False
        self._crash_broker(broker, self.world.random.choice((0, 5, 100)))
        return self._start_broker(broker)

    def _start(self) -> object:
        down = [broker for broker in self.brokers.values() if not broker.is_up]
        return bool(down) and self._start_broker(self.world.random.choice(down))

    def _start_broker(self, broker: SimBroker, *, mends: bool = False) -> object:
        chance = self.world.random
        if broker.files.failed and (mends or chance.random() < 0.7):
            broker.disks.mend(with_loss=not mends and chance.random() < self._power_loss)
        broker.start()

    def _shut_down(self) -> object:
        broker = self._any_up()
        return broker is not None and not broker.stops and broker.shut_down()

    def _expire(self) -> object:
        broker = self._any_up()
        if broker is None or broker.session is None:
            return False
        return self.store.expire(broker.session)

    def _fail_disk(self) -> object:
        broker = self._any_up()
        return broker is not None and broker.fail_disk()

    def _unseat(self) -> object:
        """Somebody deletes /controller; who was it goes on until it hears of that."""
        return self.store.controller is not None and self.store.delete_controller()

    def _crash_controller(self) -> object:
        found = self.store.controller
        broker = None if found is None else self.brokers[found[0]]
        return broker is not None and broker.is_up and self._crash_broker(broker)

    def _cut(self) -> object:
        world = self.world
        one, other = world.random.sample([STORE, *self.brokers], 2)
        link = frozenset((one, other))
        if link in world.cuts:
            return False
        self.cuts += 1
        world.cuts.add(link)
        for session in list(self.store.sessions) if STORE in link else ():
            if session.broker_id in link:
                world.after(SESSION_TIMEOUT_MS, lambda s=session: self._time_out(s))
        world.after(world.random.randrange(100, 1500), lambda: self._heal({link}))
        return None

    def _time_out(self, session: Session) -> object:
        if not session.is_alive or not self.world.is_cut(session.broker_id, STORE):
            return False
        return self.store.expire(session)

    def _heal(self, links: set[frozenset[int]]) -> object:
        healed = self.world.cuts & links
        self.world.cuts -= links
        for broker_id in sorted(i for link in healed if STORE in link for i in link - {STORE}):
            self.store.reconnected(broker_id)
            self.brokers[broker_id].look_again()
        return bool(healed)


def _brief(state: PartitionState) -> tuple[object, ...]:
    return state.leader, state.leader_epoch, state.isr, state.replicas
