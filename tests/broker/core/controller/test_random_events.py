"""Whatever happens, in whatever order, and wherever the controller crashes: the promises hold."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import Effect, StoredState, WriteStates
from odradek.broker.core.elections import ElectionType
from odradek.broker.core.partition_state import NO_LEADER, TopicPartition
from tests.seeds import seeds

from .model import Cluster, Crash

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b")

Event = Callable[[Cluster], None]

replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
broker_ids = st.sampled_from(BROKERS)
numbers = st.integers(0, 30)


def _nth(cluster: Cluster, number: int) -> TopicPartition | None:
    """Any of the partitions that have a leader."""
    keys = sorted(key for key, state in cluster.context.states.items() if state.leader >= 0)
    return keys[number % len(keys)] if keys else None


def _create(topic: str, replicas: list[list[int]]) -> Event:
    def create(cluster: Cluster) -> None:
        if topic not in cluster.store.topics:
            cluster.create(topic, *replicas)

    return create


def _extend(topic: str, replicas: list[int]) -> Event:
    def extend(cluster: Cluster) -> None:
        if topic in cluster.store.topics:
            cluster.extend(topic, replicas)

    return extend


def _kill(broker_id: int) -> Event:
    def kill(cluster: Cluster) -> None:
        if broker_id in cluster.brokers:
            cluster.kill(broker_id)

    return kill


def _alter(number: int, isr: list[int]) -> Event:
    def alter(cluster: Cluster) -> None:
        key = _nth(cluster, number)
        if key is not None and cluster.context.states[key].leader in cluster.context.brokers:
            state = cluster.context.states[key]
            grown = [r for r in isr if r in state.replicas and r != state.leader]
            cluster.alter(key, state.leader, *grown)

    return alter


def _grow(number: int) -> Event:
    return _alter(number, list(BROKERS))


def _reassign(number: int, target: list[int] | None) -> Event:
    def reassign(cluster: Cluster) -> None:
        key = _nth(cluster, number)
        if key is not None:
            asked = {key: None if target is None else tuple(target)}
            cluster.run(procedures.reassign(cluster.context, asked))

    return reassign


def _request(number: int, target: list[int]) -> Event:
    def request(cluster: Cluster) -> None:
        key = _nth(cluster, number)
        if key is not None and not cluster.store.reassignments:
            cluster.store.reassignments = {key: tuple(target)}
            requests = dict(cluster.store.reassignments)
            cluster.run(procedures.reassignments_requested(cluster.context, requests))

    return request


def _shut_down(broker_id: int) -> Event:
    def shut_down(cluster: Cluster) -> None:
        if broker_id in cluster.brokers:
            cluster.run(procedures.shut_down(cluster.context, broker_id, -1))

    return shut_down


def _fail_dir(broker_id: int, number: int) -> Event:
    def fail_dir(cluster: Cluster) -> None:
        key = _nth(cluster, number)
        if key is not None and key in cluster.told[broker_id].replicas:
            cluster.told[broker_id].failed.add(key)
            cluster.run(procedures.log_dirs_failed(cluster.context, [broker_id]))

    return fail_dir


events = st.one_of(
    st.builds(_create, st.sampled_from(TOPICS), st.lists(replica_lists, min_size=1, max_size=3)),
    st.builds(_extend, st.sampled_from(TOPICS), replica_lists),
    st.sampled_from(TOPICS).map(lambda topic: lambda cluster: cluster.delete(topic)),
    broker_ids.map(_kill),
    broker_ids.map(lambda broker_id: lambda cluster: cluster.start(broker_id)),
    st.builds(_alter, numbers, st.permutations(BROKERS)),
    st.builds(_alter, numbers, replica_lists),
    st.builds(_reassign, numbers, st.one_of(st.none(), replica_lists)),
    st.builds(_request, numbers, replica_lists),
    broker_ids.map(_shut_down),
    st.builds(_fail_dir, broker_ids, numbers),
    st.sampled_from(ElectionType).map(
        lambda kind: lambda cluster: cluster.run(procedures.elect(cluster.context, None, kind))
    ),
    st.just(lambda cluster: cluster.run(procedures.rebalance(cluster.context, 10))),
    st.just(Cluster.fail_over),
    st.just(Cluster.deliver),
)


class Meddler:
    """A leader that writes its ISR itself, right before the controller would write the state."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._meddled: list[TopicPartition] = []
        self.often = 0
        cluster.store.before = self._before

    def _before(self, effect: Effect) -> None:
        if self.often and isinstance(effect, WriteStates):
            self.often -= 1
            state = effect.states[self.often % len(effect.states)]
            node = self._cluster.store.states[state.key]
            if node.leader != NO_LEADER:
                self._cluster.set_state(state.key, isr=(node.leader,))
                self._meddled.append(state.key)

    def notify(self) -> None:
        """The controller finds the notifications."""
        meddled, self._meddled, self.often = self._meddled, [], 0
        self._cluster.run(procedures.isr_changes_noticed(self._cluster.context, meddled))


class Watch:
    """What must be so after every event."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._epochs: dict[TopicPartition, tuple[int, int]] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._seen = 0

    def look(self) -> None:
        store = self._cluster.store
        for kind, what in store.log[self._seen :]:
            if kind == "delete":
                self._epochs = {k: v for k, v in self._epochs.items() if k[0] != what}
                self._leaders = {k: v for k, v in self._leaders.items() if k[0][0] != what}
            elif kind == "state":
                self._check(*what)  # type: ignore[misc]
        self._seen = len(store.log)
        for topic, partition in store.states:
            assert partition in store.topics[topic].partitions

    def _check(self, key: TopicPartition, state: StoredState) -> None:
        leader, leader_epoch, isr, _, partition_epoch, _ = state
        assert isr and len(set(isr)) == len(isr)
        assert leader == NO_LEADER or leader in isr
        before = self._epochs.get(key)
        assert partition_epoch == (0 if before is None else before[1] + 1)
        assert before is None or leader_epoch >= before[0]
        self._epochs[key] = leader_epoch, partition_epoch
        if leader != NO_LEADER:
            assert self._leaders.setdefault((key, leader_epoch), leader) == leader


def _check_knowledge(cluster: Cluster) -> None:
    """When all is quiet: what is known, what is written and what brokers were told agree."""
    context = cluster.context
    assert context.states.keys() == cluster.store.states.keys()
    for key, state in context.states.items():
        node = cluster.store.states[key]
        assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (
            (node.leader, node.isr, node.leader_epoch, node.partition_epoch)
        )
        assignment = cluster.store.topics[key[0]].partitions[key[1]]
        assert assignment == context.assignment(key)
        assert assignment == (state.replicas, state.adding_replicas, state.removing_replicas)
        if state.leader != NO_LEADER and not context.is_to_be_deleted(key[0]):
            assert set(state.isr) <= set(state.replicas)
            assert context.is_online(state.leader, key) or state.leader in context.shutting_down
    for broker_id in cluster.brokers:
        metadata = cluster.told[broker_id].metadata
        assert metadata.keys() <= context.states.keys(), "topics that are gone"
        for key, state in context.states.items():
            if not context.is_to_be_deleted(key[0]):
                told = metadata[key]
                assert (told.leader, told.leader_epoch, told.isr, told.replicas) == (
                    (state.leader, state.leader_epoch, state.isr, state.replicas)
                )


def _settle(cluster: Cluster) -> None:
    """All brokers and disks are well, and all replicas catch up."""
    for broker_id in BROKERS:
        cluster.told[broker_id].failed.clear()
        cluster.start(broker_id)
    cluster.deliver()
    for topic in TOPICS:
        cluster.store.unclean_topics.add(topic)
    cluster.run(procedures.unclean_election_enabled(cluster.context, None))
    cluster.deliver()
    for number in range(len(cluster.context.states)):
        _grow(number)(cluster)
        cluster.deliver()


@pytest.mark.slow
@settings(max_examples=len(seeds(60, 600)), deadline=None)
@given(
    st.lists(
        st.tuples(events, st.one_of(st.none(), st.integers(0, 40)), st.integers(-3, 3)),
        max_size=25,
    )
)
def test_random_events(happening: list[tuple[Event, int | None, int]]) -> None:
    cluster = Cluster(*BROKERS)
    watch = Watch(cluster)
    cluster.fail_over()
    meddler = Meddler(cluster)
    for event, crash_after, meddle in happening:
        cluster.crash_after = crash_after
        meddler.often = max(meddle, 0)
        try:
            event(cluster)
        except Crash:
            cluster.fail_over()
        cluster.crash_after = None
        meddler.notify()
        watch.look()
    cluster.deliver()
    watch.look()
    _check_knowledge(cluster)
    _settle(cluster)
    watch.look()
    _check_knowledge(cluster)
    assert not cluster.store.deletions
    assert not cluster.context.reassigning
    assert all(state.leader != NO_LEADER for state in cluster.context.states.values())
    assert cluster.context.states.keys() == set(cluster.context.partitions())
