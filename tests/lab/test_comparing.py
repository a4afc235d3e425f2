"""The comparison sees what differs and nothing else, and what is kept comes back as it was."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.operations import names
from tests.lab.script import Moment, Outcome, comparable_lines
from tests.lab.tree import Normaliser, Tree, ZNode
from tests.lab.vectors import changes, differences, facts_of, load, save, tree_at
from tests.lab.waiting import missing_in_tree

TOPIC = {"partitions": {"0": [1, 2]}, "topic_id": "aaXkN2VZTMSJItpqf7dIyA", "version": 3}
STATE = {"leader": 1, "leader_epoch": 0, "isr": [1, 2], "version": 1, "controller_epoch": 1}
BROKER = {"host": "127.0.0.1", "port": 4321, "endpoints": ["PLAINTEXT://127.0.0.1:4321"]}


def node(value: Any, *, version: int = 0, ephemeral: bool = False, zxid: int = 7) -> ZNode:
    data = None if value is None else json.dumps(value).encode()
    return ZNode(data, version, ephemeral, zxid, zxid)


def cluster(*brokers: int, **states: Any) -> Tree:
    tree = {f"/brokers/ids/{broker}": node(BROKER, ephemeral=True) for broker in brokers}
    tree["/controller"] = node({"brokerid": 1, "timestamp": "1795218970141"}, zxid=99)
    tree["/brokers/topics/t"] = node(TOPIC)
    tree["/brokers/topics/t/partitions/0/state"] = node({**STATE, **states})
    return tree


def outcomes_of(*trees: Tree) -> list[Outcome]:
    normaliser = Normaliser({4321: 1})
    moments = [
        Moment(f"moment {n}", normaliser.tree(tree), {"brokers": [1]})
        for n, tree in enumerate(trees)
    ]
    return [Outcome(names()[0], moments)]


def test_what_differs_from_run_to_run_is_replaced() -> None:
    tree = cluster(1)
    tree["/cluster/id"] = node({"version": "1", "id": "b2RyYWRlay10ZXN0cy0wMQ"})
    seen = Normaliser({4321: 1}).tree(tree)
    assert seen["/brokers/topics/t"]["data"]["topic_id"] == "t#1"
    assert seen["/brokers/ids/1"]["data"]["port"] == "PORT 1"
    assert seen["/brokers/ids/1"]["data"]["endpoints"] == ["PLAINTEXT://127.0.0.1:PORT 1"]
    assert seen["/brokers/ids/1"]["ephemeral"] is True
    assert seen["/cluster/id"]["data"] == {"version": "1", "id": "CLUSTER"}
    assert seen["/controller"]["data"] == {"brokerid": 1, "timestamp": "TIME"}


def test_a_topic_made_anew_has_another_id() -> None:
    normaliser = Normaliser({})
    first = normaliser.topic_id("t", "first")
    assert normaliser.topic_id("t", "second") != first
    assert normaliser.topic_id("t", "first") == first


def test_every_kind_of_difference_is_seen() -> None:
    path = "/brokers/topics/t/partitions/0/state"
    theirs = changes(outcomes_of(cluster(1, 2)))[names()[0]]
    assert differences(theirs, theirs) == []
    changed: dict[str, Tree] = {
        "data": cluster(1, 2, isr=[2, 1]),
        "version": {**cluster(1, 2), path: node(STATE, version=1)},
        "ephemeral": {**cluster(1, 2), path: node(STATE, ephemeral=True)},
        "one more": {**cluster(1, 2), "/more": node(None)},
        "one less": cluster(1),
    }
    for what, tree in changed.items():
        ours = changes(outcomes_of(tree))[names()[0]]
        assert len(differences(theirs, ours)) == 1, what
    assert differences(theirs, {}) == ["moment 0: not reached"]


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    recorded = changes(outcomes_of(cluster(1, 2), cluster(1, isr=[1]), {}))
    recorded |= {name: {} for name in names()[1:]}
    save(recorded, tmp_path)
    assert load(tmp_path) == recorded
    wanted = facts_of(outcomes_of(cluster(1, isr=[1]))[0].moments[0])
    assert tree_at(load(tmp_path), names()[0], "moment 1") == wanted


def test_rest_means_that_every_isr_is_full() -> None:
    assert missing_in_tree(cluster(1, 2)) == []
    assert missing_in_tree(cluster(1, 2, isr=[1])) != []
    assert missing_in_tree(cluster(1, isr=[1, 2])) != []
    assert missing_in_tree(cluster(1, 2, leader=3)) != []
    assert missing_in_tree(cluster(1, leader=-1, isr=[2])) == []
    assert missing_in_tree({**cluster(1), "/admin/delete_topics/t": node(None)}) == []
    stateless = {path: kept for path, kept in cluster(1).items() if "state" not in path}
    assert missing_in_tree(stateless) != []


def test_rest_means_that_what_was_begun_is_done() -> None:
    """If all who have to do with it live."""
    deletion = {"/admin/delete_topics/t": node(None)}
    assert missing_in_tree({**cluster(1, 2), **deletion}) == ["t is being deleted"]
    for change in ("adding", "removing"):
        moving = {"/brokers/topics/t": node({**TOPIC, f"{change}_replicas": {"0": [2]}})}
        assert missing_in_tree({**cluster(1, 2), **moving}) == ["t-0 is being moved"]
        assert missing_in_tree({**cluster(1, isr=[1]), **moving}) == []
    asked = {"/admin/reassign_partitions": node({"version": 1, "partitions": []})}
    assert missing_in_tree({**cluster(1, 2), **asked}) == ["moves are asked for"]
    nobody = {path: kept for path, kept in cluster(1, 2).items() if path != "/controller"}
    assert missing_in_tree(nobody) == ["nobody is the controller"]


def test_lines_of_tools_stand_in_one_order() -> None:
    text = """Dynamic configs for topic b are:
  x=1 sensitive=false synonyms={B:x=1, A:x=2}
Dynamic configs for topic a are:

Quota configs for user-principal 'u' are z=2, y=1
Topic: t\tConfigs: c=2,b=1
\tTopic: t\tPartition: 0
"""
    assert comparable_lines(text) == [
        "\tTopic: t\tPartition: 0",
        "Dynamic configs for topic a are:",
        "Dynamic configs for topic b are:",
        "Dynamic configs for topic b are: x=1 sensitive=false synonyms={B:x=1, A:x=2}",
        "Quota configs for user-principal 'u' are y=1, z=2",
        "Topic: t\tConfigs: b=1,c=2",
    ]


@pytest.mark.slow
@given(st.binary())
def test_any_data_can_be_compared(data: bytes) -> None:
    tree = {"/odd": ZNode(data, 0, False, 1, 1)}
    json.dumps(Normaliser({}).tree(tree))
