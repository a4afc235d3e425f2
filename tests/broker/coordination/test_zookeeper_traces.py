"""What the traces of a write say, whose answer is lost."""

import asyncio
from collections.abc import Sequence

import pytest

from odradek.broker.coordination.interface import (
    Check,
    CoordinationLost,
    Create,
    Delete,
    NoNode,
    Op,
    Set,
    Stat,
)
from odradek.broker.coordination.tree import Tree
from odradek.broker.coordination.zookeeper_traces import results_of

US, ANOTHER = 7, 8


class World:
    """A tree whose state is looked at; transactions begin at 2, after the root's children."""

    def __init__(self, *ops: Op) -> None:
        self.tree = Tree()
        self.by(ANOTHER, *ops)
        self.since_zxid = self.tree.zxid

    def by(self, session_id: int, *ops: Op) -> list[object]:
        return list(self.tree.apply(ops, session_id=session_id, wall_ms=1).results)

    async def get(self, path: str) -> tuple[bytes, Stat] | None:
        try:
            return self.tree.get(path)
        except NoNode:
            return None

    async def children(self, path: str) -> list[str]:
        try:
            return self.tree.children(path)
        except NoNode:
            return []

    def ask(self, ops: Sequence[Op], claimed: Sequence[str] = ()) -> object:
        """What we are told of our operations."""
        return asyncio.run(
            results_of(
                ops, self, since_zxid=self.since_zxid, session_id=US, claimed=frozenset(claimed)
            )
        )


OURS: list[list[Op]] = [
    [Create("/new", b"x")],
    [Create("/new", b"x", ephemeral=True)],
    [Create("/q/n-", b"x", ephemeral=True, sequential=True)],
    [Set("/a", b"x", 0)],
    [Delete("/a")],
    [Check("/b"), Set("/a", b"x", 0)],
    [Create("/ids", ephemeral=True), Set("/ids", b"x", 0)],
    [Create("/controller", b"1", ephemeral=True), Set("/a", b"x", 0)],
    [Check("/b"), Set("/a", b"x"), Create("/q/c-", b"x", sequential=True)],
    [Create("/t"), Create("/t/p"), Create("/t/p/state", b"{}")],
    [Check("/b", 0), Delete("/a", 0), Create("/new", b"x")],
    [Set("/a", b"x"), Set("/b", b"x")],
    [Delete("/b"), Create("/q/c-", b"x", sequential=True), Set("/a", b"x", 0)],
]


def world() -> World:
    return World(Create("/a", b"0"), Create("/b"), Create("/q"), Create("/q/old"))


@pytest.mark.parametrize("ops", OURS, ids=str)
def test_what_was_done_is_known(ops: list[Op]) -> None:
    at = world()
    results = at.by(US, *ops)
    stats = [isinstance(result, Stat) for result in results]
    told = at.ask(ops)
    assert isinstance(told, list)
    if stats.count(True) == len({op.path for op in ops if isinstance(op, Set)}):
        assert told == results


@pytest.mark.parametrize("ops", OURS, ids=str)
def test_what_was_not_done_is_known(ops: list[Op]) -> None:
    assert world().ask(ops) is None


@pytest.mark.parametrize(
    ("ops", "others"),
    [
        ([Create("/new", b"x")], [Create("/new", b"y")]),
        ([Create("/new", b"x", ephemeral=True)], [Create("/new", b"x", ephemeral=True)]),
        ([Create("/new", b"x", ephemeral=True)], [Create("/new", b"x")]),
        ([Set("/a", b"x", 0)], [Set("/a", b"y", 0)]),
        ([Set("/a", b"x", 5)], [Set("/a", b"x", 0)]),
        ([Create("/c", b"", ephemeral=True), Set("/a", b"x", 0)], [Set("/a", b"y", 0)]),
    ],
    ids=str,
)
def test_another_was_first(ops: list[Op], others: list[Op]) -> None:
    """Asking again gives the right error."""
    at = world()
    at.by(ANOTHER, *others)
    assert at.ask(ops) is None


@pytest.mark.parametrize(
    ("ops", "others"),
    [
        ([Create("/new", b"x")], [Create("/new", b"x"), Set("/new", b"y")]),
        ([Set("/a", b"x", 0)], [Set("/a", b"x", 0), Set("/a", b"y", 1)]),
        ([Set("/a", b"x")], [Set("/a", b"x")]),
        ([Set("/a", b"x")], [Set("/a", b"y")]),
        ([Set("/a", b"x")], [Set("/a", b"x"), Delete("/a")]),
        ([Delete("/a")], [Delete("/a"), Create("/a")]),
        ([Delete("/a", 0)], [Delete("/a", 0)]),
        ([Delete("/a", 0)], [Set("/a", b"x"), Delete("/a")]),
        ([Check("/b", 0), Delete("/a")], [Set("/b", b"fenced"), Delete("/a")]),
        ([Check("/b", 0), Delete("/a"), Delete("/b")], [Delete("/a"), Delete("/b")]),
        ([Create("/q/n-", b"x", sequential=True)], [Create("/q/n-", b"x", sequential=True)]),
        (
            [Set("/a", b"x"), Create("/q/c-", b"x", sequential=True)],
            [Set("/a", b"x"), Create("/q/c-", b"other", sequential=True)],
        ),
    ],
    ids=str,
)
def test_what_cannot_be_told(ops: list[Op], others: list[Op]) -> None:
    at = world()
    for op in others:
        at.by(ANOTHER, op)
    with pytest.raises(CoordinationLost, match="unknown"):
        at.ask(ops)


def test_checks_are_asked_again() -> None:
    assert world().ask([Check("/a", 0), Check("/b")]) is None


def test_several_sequential_nodes_of_ours_are_told_apart() -> None:
    at, op = world(), Create("/q/n-", b"x", ephemeral=True, sequential=True)
    (first,), (second,) = at.by(US, op), at.by(US, op)
    assert at.ask([op]) == [first]
    assert at.ask([op], [str(first)]) == [second]
    assert at.ask([op], [str(first), str(second)]) is None


def test_a_node_that_was_gone_before() -> None:
    at = world()
    assert at.ask([Delete("/missing")]) is None
    assert at.ask([Delete("/q/missing")]) is None
