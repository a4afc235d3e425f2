"""The tree by itself, where the contract does not reach."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.coordination.interface import (
    Check,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    Op,
    Set,
    WatchEvent,
)
from odradek.broker.coordination.tree import Node, Tree

OWNER = 5


def apply(tree: Tree, *ops: Op, session_id: int = OWNER, wall_ms: int = 1000) -> list[WatchEvent]:
    return tree.apply(ops, session_id=session_id, wall_ms=wall_ms).events


def everything(tree: Tree, path: str = "/") -> dict[str, object]:
    found: dict[str, object] = {path: tree.get(path)}
    for name in tree.children(path):
        found |= everything(tree, f"{path.rstrip('/')}/{name}")
    return found


def saved(tree: Tree) -> dict[str, Node]:
    return {path: node for path, node in tree.take_unsaved() if node is not None}


def test_one_transaction_has_one_number_and_one_time() -> None:
    tree = Tree()
    apply(tree, Create("/a"), Create("/a/b"), wall_ms=7)
    apply(tree, Set("/a", b"x"), Create("/a/c"), wall_ms=9)
    _, stat = tree.get("/a")
    assert (stat.czxid, stat.mzxid, stat.pzxid, tree.zxid) == (1, 2, 2, 2)
    assert (stat.ctime_ms, stat.mtime_ms) == (7, 9)


def test_what_changes_nothing_takes_no_number() -> None:
    tree = Tree()
    apply(tree, Create("/a"))
    apply(tree, Check("/a"))
    with pytest.raises(MultiFailed):
        apply(tree, Create("/b"), Check("/missing"))
    assert tree.end_session(OWNER, wall_ms=1) == []
    assert tree.zxid == 1
    assert tree.take_zxid() == tree.zxid == 2


def test_events_of_one_transaction_come_in_its_order() -> None:
    tree = Tree()
    events = apply(tree, Create("/a"), Create("/a/b"), Set("/a", b"x"), Delete("/a/b"))
    assert events == [
        WatchEvent(EventKind.CREATED, "/a"),
        WatchEvent(EventKind.CHILD, "/"),
        WatchEvent(EventKind.CREATED, "/a/b"),
        WatchEvent(EventKind.CHILD, "/a"),
        WatchEvent(EventKind.CHANGED, "/a"),
        WatchEvent(EventKind.DELETED, "/a/b"),
        WatchEvent(EventKind.CHILD, "/a"),
    ]


def test_unsaved_is_each_changed_node_once() -> None:
    tree = Tree()
    apply(tree, Create("/a"), Create("/a/b"), Create("/a/c"))
    assert [path for path, _ in tree.take_unsaved()] == ["/a", "/", "/a/b", "/a/c"]
    apply(tree, Set("/a", b"1"), Set("/a", b"2"), Delete("/a/b"))
    unsaved = dict(tree.take_unsaved())
    assert unsaved.keys() == {"/a", "/a/b"}
    assert unsaved["/a/b"] is None
    assert tree.take_unsaved() == []


def test_a_failed_transaction_leaves_nothing_to_save() -> None:
    tree = Tree()
    with pytest.raises(MultiFailed):
        apply(tree, Create("/a"), Check("/missing"))
    assert tree.take_unsaved() == []


def test_an_ephemeral_node_is_not_saved_but_its_parent_is() -> None:
    tree = Tree()
    apply(tree, Create("/a"))
    tree.take_unsaved()
    apply(tree, Create("/a/e", ephemeral=True))
    unsaved = dict(tree.take_unsaved())
    assert unsaved.keys() == {"/a", "/a/e"}
    assert unsaved["/a/e"] is None
    again = unsaved["/a"]
    assert again is not None
    assert again.children_created == 1


def test_a_saved_node_that_becomes_ephemeral_is_removed() -> None:
    tree = Tree()
    apply(tree, Create("/a"))
    tree.take_unsaved()
    apply(tree, Delete("/a"), Create("/a", ephemeral=True))
    assert dict(tree.take_unsaved())["/a"] is None


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("/x/y", Node(b"", 1, 1, 1, 0, 0, 0, 0)),
        ("/a", Node(b"", 6, 1, 1, 0, 0, 0, 0)),
        ("/a", Node(b"", 1, 6, 1, 0, 0, 0, 0)),
        ("/a", Node(b"", 1, 1, 6, 0, 0, 0, 0)),
    ],
)
def test_nodes_that_are_no_tree(path: str, node: Node) -> None:
    with pytest.raises(ValueError, match="node /"):
        Tree([(path, node)], zxid=5)


names = st.sampled_from(["/a", "/b", "/a/x", "/a/x/y", "/b/x"])
ops: st.SearchStrategy[Op] = st.one_of(
    st.builds(Create, names, st.just(b"1"), st.booleans(), st.booleans()),
    st.builds(Set, names, st.just(b"2")),
    st.builds(Delete, names),
)


@pytest.mark.slow
@given(before=st.lists(ops, max_size=10), failing=st.lists(ops, max_size=6))
@settings(max_examples=150, deadline=None)
def test_a_failed_transaction_is_undone_in_every_view(before: list[Op], failing: list[Op]) -> None:
    tree, twin = Tree(), Tree()
    for op in before:
        for each in (tree, twin):
            try:
                apply(each, op)
            except MultiFailed:
                continue
    with pytest.raises(MultiFailed):
        apply(tree, *failing, Check("/missing"))
    assert everything(tree) == everything(twin)
    assert tree.end_session(OWNER, wall_ms=5) == twin.end_session(OWNER, wall_ms=5)
    assert everything(tree) == everything(twin)


@pytest.mark.slow
@given(some=st.lists(ops, max_size=12))
@settings(max_examples=100, deadline=None)
def test_what_is_saved_is_the_tree_without_ephemerals(some: list[Op]) -> None:
    tree = Tree()
    for op in some:
        try:
            apply(tree, op)
        except MultiFailed:
            continue
    nodes = saved(tree)
    tree.end_session(OWNER, wall_ms=5)
    again = Tree(nodes.items(), tree.zxid)
    assert list(everything(again)) == list(everything(tree))
    for path in nodes:
        assert again.get(path)[0] == tree.get(path)[0]
        assert again.get(path)[1].cversion == tree.get(path)[1].cversion
