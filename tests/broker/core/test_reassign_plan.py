from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.assignment import BrokerRack
from odradek.broker.core.partition_state import TopicPartition
from odradek.broker.core.reassign_plan import (
    Copies,
    Link,
    Plan,
    PlanImpossible,
    copies,
    drain,
    replace,
    spread,
)

Given = tuple[list[BrokerRack], dict[TopicPartition, list[int]]]


@st.composite
def clusters(draw: st.DrawFn) -> Given:
    """Brokers, and partitions on them and on some that are down."""
    count = draw(st.integers(1, 7))
    racks = draw(st.sampled_from([st.none(), st.sampled_from("abc"), st.sampled_from(["a", None])]))
    brokers = [BrokerRack(broker_id, draw(racks)) for broker_id in range(count)]
    known = [broker.broker_id for broker in brokers] + [90]
    replicas = st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True)
    keys = st.tuples(st.sampled_from("tuv"), st.integers(0, 9))
    return brokers, draw(st.dictionaries(keys, replicas, max_size=20))


def after(before: dict[TopicPartition, list[int]], plan: Plan) -> dict[TopicPartition, list[int]]:
    return {key: list(plan.replicas.get(key, replicas)) for key, replicas in before.items()}


def moves(before: dict[TopicPartition, list[int]], plan: Plan) -> int:
    """Replicas that are copied."""
    return sum(len(set(new) - set(before[key])) for key, new in plan.replicas.items())


def rack_count(brokers: Sequence[BrokerRack], replicas: Sequence[int]) -> int:
    racks = {broker.broker_id: broker.rack for broker in brokers}
    if None in racks.values():
        return 0
    return len({racks[replica] for replica in replicas if replica in racks})


def check_moved(
    brokers: Sequence[BrokerRack], before: dict[TopicPartition, list[int]], plan: Plan
) -> None:
    """What holds for every plan."""
    for key, new in plan.replicas.items():
        old = before[key]
        assert list(new) != old
        assert len(new) == len(old) == len(set(new))
        assert all(now == was or now not in old for was, now in zip(old, new, strict=True))
        lost = rack_count(brokers, new) < rack_count(brokers, old)
        assert lost == (key in plan.fewer_racks)


@pytest.mark.slow
@given(clusters(), st.sets(st.sampled_from([*range(7), 90]), min_size=1, max_size=3))
def test_a_drained_broker_holds_nothing(cluster: Given, leaving: set[int]) -> None:
    brokers, before = cluster
    staying = [broker for broker in brokers if broker.broker_id not in leaving]
    affected = {key: r for key, r in before.items() if leaving & set(r)}
    try:
        plan = drain(before, brokers, leaving)
    except PlanImpossible:
        live = {broker.broker_id for broker in staying}
        assert any(len(set(r) - leaving - live) + len(live) < len(r) for r in affected.values())
        return
    check_moved(brokers, before, plan)
    result = after(before, plan)
    assert not leaving & {replica for replicas in result.values() for replica in replicas}
    assert set(plan.replicas) == set(affected)
    assert moves(before, plan) == sum(len(leaving & set(r)) for r in before.values())
    for key in plan.fewer_racks:  # only if there is no other way: no rack is free
        unused = [b for b in staying if b.broker_id not in plan.replicas[key]]
        held = {b.rack for b in brokers if b.broker_id in plan.replicas[key]}
        assert all(broker.rack in held for broker in unused)


@pytest.mark.slow
@given(clusters(), st.integers(0, 6), st.integers(0, 6))
def test_a_replaced_broker_holds_nothing(cluster: Given, new: int, live_old: int) -> None:
    brokers, before = cluster
    old = 90 if live_old in (new, 0) else live_old
    try:
        plan = replace(before, brokers, {old: new})
    except PlanImpossible as error:
        is_alive = any(broker.broker_id == new for broker in brokers)
        assert ("not alive" in str(error)) == (not is_alive)
        if is_alive:
            assert any({old, new} <= set(replicas) for replicas in before.values())
        return
    check_moved(brokers, before, plan)
    for key, replicas in before.items():
        if old in replicas and new not in replicas:
            expected = tuple(new if replica == old else replica for replica in replicas)
            assert plan.replicas[key] == expected
        assert old not in plan.replicas.get(key, replicas if old not in replicas else [old])
    assert moves(before, plan) == sum(old in replicas for replicas in before.values())


@pytest.mark.slow
@given(clusters(), st.sets(st.integers(0, 6), min_size=1))
def test_a_spread_is_even(cluster: Given, targets: set[int]) -> None:
    brokers, before = cluster
    targets &= {broker.broker_id for broker in brokers}
    if not targets:
        return
    if any(len(replicas) > len(targets) for replicas in before.values()):
        with pytest.raises(PlanImpossible, match="no broker is left"):
            spread(before, brokers, targets)
        return
    plan = spread(before, brokers, targets)
    check_moved(brokers, before, plan)
    result = after(before, plan)
    had = Counter(replica for replicas in before.values() for replica in replicas)
    load = Counter(replica for replicas in result.values() for replica in replicas)
    assert set(load) <= targets
    share = sum(load.values()) // len(targets)
    for key, new in plan.replicas.items():
        for giver in (set(before[key]) - set(new)) & targets:
            assert load[giver] >= share, "gave more than it had to"
    assert moves(before, plan) >= sum(max(0, load[b] - had[b]) for b in targets)
    again = spread(result, brokers, targets)
    assert again.replicas == {}


@pytest.mark.slow
@given(st.integers(1, 6), st.integers(0, 60), st.integers(1, 3), st.integers(0, 3))
def test_new_brokers_get_their_share(count: int, partitions: int, factor: int, more: int) -> None:
    factor = min(factor, count)
    before = {("t", p): [(p + i) % count for i in range(factor)] for p in range(partitions)}
    had = Counter(replica for replicas in before.values() for replica in replicas)
    brokers = [BrokerRack(broker_id) for broker_id in range(count + more)]
    plan = spread(before, brokers, range(count + more))
    load = Counter({broker.broker_id: 0 for broker in brokers})
    for replicas in after(before, plan).values():
        load.update(replicas)
    assert max(load.values()) - min(load.values()) <= 1
    assert moves(before, plan) == sum(max(0, load[broker] - had[broker]) for broker in load)


def test_where_it_goes() -> None:
    brokers = [BrokerRack(1, "a"), BrokerRack(2, "b"), BrokerRack(3, "a"), BrokerRack(4, "b")]
    before = {("t", 0): [1, 2], ("t", 1): [2, 3], ("t", 2): [3, 4]}
    assert drain(before, brokers, {1}) == Plan({("t", 0): (3, 2)}, [])  # another in rack a
    assert replace(before, brokers, {1: 4}).fewer_racks == [("t", 0)]
    assert replace(before, brokers, {3: 1}).replicas == {("t", 1): (2, 1), ("t", 2): (1, 4)}
    assert drain(before, brokers, {1, 3}).fewer_racks == list(before)
    with pytest.raises(PlanImpossible, match="broker 9 is not alive"):
        replace(before, brokers, {1: 9})
    with pytest.raises(PlanImpossible, match="broker 9 is not alive"):
        spread(before, brokers, {9})
    with pytest.raises(PlanImpossible, match="both"):
        replace(before, brokers, {1: 2, 2: 3})
    with pytest.raises(PlanImpossible, match="replica of t-0, which has 2"):
        drain(before, brokers, {1, 3, 4})


def test_what_is_copied() -> None:
    before = {("t", 0): [1, 2], ("t", 1): [2, 1], ("t", 2): [1, 2]}
    plan = Plan({("t", 0): (1, 3), ("t", 1): (2, 3), ("t", 2): (3, 4)}, [])
    leaders = {("t", 0): 1, ("t", 1): 2, ("t", 2): 1}
    sizes = {("t", 0): 10, ("t", 2): 5}
    assert copies(plan, before, leaders, sizes) == {
        Link(1, 3): Copies(2, 15),
        Link(1, 4): Copies(1, 5),
        Link(2, 3): Copies(1, 0),
    }
