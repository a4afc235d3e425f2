"""Which links are cut and slow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.network.conditions import (
    CLIENTS,
    GOOD,
    STORE,
    Condition,
    Conditions,
    Slowness,
    Split,
    check_groups,
)
from odradek.broker.network.network import Network

BROKERS = st.integers(0, 5)
FLAGS = st.booleans()
SPLITS = st.builds(
    Split,
    st.lists(st.frozensets(BROKERS, min_size=1), min_size=2, max_size=3).map(tuple),
    FLAGS,
    FLAGS,
)
SLOW = st.builds(
    Slowness,
    broker_id=BROKERS,
    delay_s=st.sampled_from([0.0, 0.5]),
    bytes_per_s=st.sampled_from([None, 10, 1000]),
    clients=FLAGS,
    store=FLAGS,
)
CONDITIONS = st.builds(
    Conditions, st.lists(SPLITS, max_size=3).map(tuple), st.lists(SLOW, max_size=3).map(tuple)
)


def split(*groups: set[int], clients: bool = False, store: bool = False) -> Split:
    return Split(tuple(map(frozenset, groups)), clients, store)


def test_groups_do_not_reach_each_other() -> None:
    conditions = Conditions().with_split(split({0}, {1, 2}))
    assert conditions.between(0, 1) == Condition(is_cut=True)
    assert conditions.between(1, 2) is GOOD
    assert conditions.between(0, CLIENTS) is conditions.between(0, STORE) is GOOD


def test_who_is_not_named_is_with_the_last_group_and_so_are_clients_and_the_store() -> None:
    conditions = Conditions().with_split(split({0, 3}, {1}, clients=True, store=True))
    cut = {
        (broker, end)
        for broker in range(4)
        for end in (0, 1, 2, 3, CLIENTS, STORE)
        if conditions.between(broker, end).is_cut
    }
    ones, others = (0, 3), (1, 2)
    assert cut == {
        *((one, other) for one in ones for other in (*others, CLIENTS, STORE)),
        *((other, one) for one in ones for other in others),
    }


def test_splits_add_up_and_slowness_replaces_that_of_the_same_broker() -> None:
    conditions = Conditions().with_split(split({0}, {1, 2})).with_split(split({0, 1}, {2}))
    assert all(conditions.between(*pair).is_cut for pair in ((0, 1), (0, 2), (1, 2)))
    slow = (
        Conditions()
        .with_slowness(Slowness(broker_id=0, delay_s=9.0))
        .with_slowness(Slowness(broker_id=1, delay_s=0.5, bytes_per_s=100, clients=True))
        .with_slowness(Slowness(broker_id=0, delay_s=0.25, bytes_per_s=1000))
    )
    assert slow.between(0, 1) == Condition(delay_s=0.75, bytes_per_s=100)
    assert slow.between(2, 0) == Condition(delay_s=0.25, bytes_per_s=1000)
    assert slow.between(1, CLIENTS) == Condition(delay_s=0.5, bytes_per_s=100)
    assert slow.between(0, CLIENTS) is GOOD


@pytest.mark.slow
@given(CONDITIONS, BROKERS, BROKERS)
def test_a_link_is_the_same_from_both_ends(conditions: Conditions, one: int, other: int) -> None:
    assert conditions.between(one, other) == conditions.between(other, one)
    assert not conditions.between(one, one).is_cut


@pytest.mark.slow
@given(st.lists(CONDITIONS, max_size=5))
def test_links_follow_every_change_and_healing_mends_all(changes: list[Conditions]) -> None:
    network = Network()
    ends = (1, 2, CLIENTS, STORE)
    told: list[None] = []
    links = [network.link(0, end) for end in ends]  # type: ignore[arg-type]
    for link in links:
        link.watch(lambda: told.append(None))
    for conditions in changes:
        network.change(conditions)
        assert [link.condition for link in links] == [
            conditions.between(0, end)  # type: ignore[arg-type]
            for end in ends
        ]
    network.heal()
    assert all(link.is_good for link in links)
    assert network.is_good


def test_a_piece_is_neither_nothing_nor_more_than_there_is() -> None:
    assert Condition(bytes_per_s=1).piece_bytes(100) == 1
    assert Condition(bytes_per_s=1000).piece_bytes(100) == 50
    assert Condition(bytes_per_s=1 << 30).piece_bytes(100) == 100
    assert GOOD.piece_bytes(100) == 100
    assert Condition(delay_s=0.5, bytes_per_s=1000).transit_s(250) == 0.75


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([], "at least two groups"),
        ([{0, 1}], "at least two groups"),
        ([{0}, set()], "a group is empty"),
        ([{0, 1}, {2}, {1}], "broker 1 is in two groups"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(groups: list[set[int]], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_groups(map(frozenset, groups))
