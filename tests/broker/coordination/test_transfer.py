"""What goes to Kafka, what comes from it, and when neither may happen."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import Create, Delete, Set
from odradek.broker.coordination.json_fields import MalformedZnode
from odradek.broker.coordination.plain_tree import (
    Nodes,
    assignment_of,
    differences,
    named,
    state_of,
    topics_of,
    with_parents,
)
from odradek.broker.coordination.rebuilt_tree import FoundPartition, rebuilt
from odradek.broker.coordination.transfer import (
    TransferRefused,
    changes,
    check_store,
    check_target,
    for_kafka,
    for_odradek,
)
from odradek.broker.coordination.tree import Tree
from tests.broker.coordination.trees import CLUSTER_ID, TOPIC_ID, cluster, topic_nodes

OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
HERE = topic_nodes("here", {0: (0,), 1: (0,)}, config={"retention.ms": "5"})


def applied(there: Nodes, nodes: Nodes, tops: tuple[str, ...] = ("/a", "/b", "/c")) -> Nodes:
    """What the differences make of a tree, by the embedded store's own rules."""
    tree = Tree()
    tree.apply([Create(path, there[path]) for path in sorted(there)], session_id=0, wall_ms=0)
    ops = differences(there, nodes, tops=tops)
    tree.apply(ops, session_id=0, wall_ms=0)
    result, paths = {}, ["/"]
    for path in paths:
        for name in tree.children(path):
            child = f"{path.rstrip('/')}/{name}"
            paths.append(child)
            result[child] = tree.get(child)[0]
    return result


NAMES = ["/" + "/".join(names) for depth in (1, 2, 3) for names in product("abc", repeat=depth)]
DATA = (b"", b"x", b"y")
trees = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(DATA), max_size=8).map(with_parents)


@pytest.mark.slow
@given(trees, trees)
def test_differences_make_one_tree_of_the_other(there: Nodes, nodes: Nodes) -> None:
    assert applied(there, nodes) == nodes
    assert differences(nodes, nodes, tops=("/a", "/b", "/c")) == []


def test_differences_leave_alone_what_is_not_asked_for() -> None:
    there = {"/a": b"", "/a/x": b"1", "/b": b"", "/b/x": b"1"}
    assert differences(there, {"/a": b""}, tops=("/a",)) == [Delete("/a/x")]
    assert differences({}, {"/a": b"", znodes.CLUSTER_ID: b"", "/cluster": b""}, tops=())[:2] == [
        Create("/cluster"),
        Create(znodes.CLUSTER_ID),
    ]


def test_long_lists_of_names_are_cut() -> None:
    assert named(range(22)).endswith("18, 19 and 2 more")


class TestForKafka:
    def test_takes_the_state_and_leaves_what_passes(self) -> None:
        nodes = cluster(HERE) | {
            "/config/changes/config_change_0000000001": b"{}",
            "/isr_change_notification/isr_change_0000000001": b"{}",
            znodes.CONFIG_GROUPS: b"",
        }
        found = for_kafka(nodes)
        assert found.warnings == []
        assert found.nodes[znodes.FEATURE] == znodes.EMPTY_FEATURE
        gone = {path for path in nodes if path not in found.nodes}
        assert gone == {
            "/config/changes/config_change_0000000001",
            "/isr_change_notification/isr_change_0000000001",
            znodes.CONFIG_GROUPS,
        }
        for path, data in HERE.items():
            assert found.nodes[path] == data

    def test_names_settings_of_groups(self) -> None:
        nodes = cluster() | {znodes.group_config_path("a group"): b"{}"}
        found = for_kafka(nodes)
        assert [w for w in found.warnings if w.endswith("a group")]
        assert not any(path.startswith("/config/groups") for path in found.nodes)

    def test_takes_out_settings_that_kafka_does_not_have(self) -> None:
        path = znodes.broker_config_path(0)
        mixed = znodes.encode_config({"odradek.flush.ms": "1", "log.flush.interval.ms": "2"})
        found = for_kafka(cluster() | {path: mixed})
        assert znodes.decode_config(found.nodes[path]) == {"log.flush.interval.ms": "2"}
        assert "odradek.flush.ms" in found.warnings[0]

    def test_names_what_is_of_no_use(self) -> None:
        old = {"/admin/reassign_partitions": b"{}", "/consumers/old": b"", "/consumers/old/x": b""}
        secret = {"/odradek": b"", znodes.SCRAM_SECRET: znodes.encode_scram_secret(bytes(32))}
        found = for_kafka(cluster() | old | secret | {"/mine": b"", "/mine/too": b""})
        assert not found.nodes.keys() & secret.keys()
        names = "/admin/reassign_partitions, /consumers/old, /mine"
        assert found.warnings == [f"nodes of no use there are left out: {names}"]

    def test_refuses_what_would_stop_a_controller(self) -> None:
        path = znodes.topic_path("bad")
        without_id = znodes.TopicAssignment({0: (0,)}, None).encode()
        for convert in (for_kafka, from_kafka):
            with pytest.raises(MalformedZnode, match="/brokers/topics/bad"):
                convert(cluster() | {path: b"{"})
            with pytest.raises(MalformedZnode, match="no topic id"):
                convert(cluster() | {path: without_id})
            with pytest.raises(MalformedZnode, match="/config/topics/bad"):
                convert(cluster(topic_nodes("bad", {0: (0,)})) | {"/config/topics/bad": b"["})

    def test_refuses_a_store_that_never_was_a_cluster(self) -> None:
        with pytest.raises(TransferRefused, match="no cluster in the store"):
            for_kafka({})


def from_kafka(nodes: Nodes, *, only_this_broker: bool = False) -> dict[str, bytes]:
    return for_odradek(
        nodes, broker_id=0, cluster_id=CLUSTER_ID, only_this_broker=only_this_broker
    ).nodes


class TestForOdradek:
    def test_there_and_back(self) -> None:
        nodes = cluster(HERE)
        there = for_kafka(nodes).nodes
        assert from_kafka(there) == nodes | {znodes.FEATURE: znodes.EMPTY_FEATURE}

    def test_another_cluster(self) -> None:
        with pytest.raises(TransferRefused, match=f"{CLUSTER_ID}.*{OTHER_ID}"):
            for_odradek(cluster(), broker_id=0, cluster_id=OTHER_ID)

    def test_a_live_broker(self) -> None:
        with pytest.raises(TransferRefused, match="broker 0 is registered"):
            from_kafka(cluster() | {znodes.broker_path(0): b""})
        found = for_odradek(
            cluster() | {znodes.broker_path(5): b""}, broker_id=0, cluster_id=CLUSTER_ID
        )
        assert found.warnings == ["other brokers of this cluster are running: 5"]

    def test_a_migration(self) -> None:
        with pytest.raises(TransferRefused, match="KRaft"):
            from_kafka(cluster() | {"/migration": b"{}"})

    def test_replicas_on_other_brokers_are_refused(self) -> None:
        shared = topic_nodes("shared", {0: (0, 1)})
        with pytest.raises(TransferRefused, match=r"on other brokers than 0 \(shared\)"):
            from_kafka(cluster(HERE, shared))

    def test_replicas_on_other_brokers_are_left_behind(self) -> None:
        nodes = cluster(
            HERE,
            topic_nodes("led", {0: (0, 1)}),
            topic_nodes("followed", {0: (1, 0), 1: (1, 2)}),
            topic_nodes("lagging", {0: (1, 0)}, isr=(1,)),
            topic_nodes("absent", {0: (1,), 1: (2,)}),
        )
        found = for_odradek(nodes, broker_id=0, cluster_id=CLUSTER_ID, only_this_broker=True)
        assert topics_of(found.nodes) == ["followed", "here", "lagging", "led"]
        assert znodes.topic_config_path("absent") not in found.nodes
        for topic in topics_of(found.nodes):
            assignment = assignment_of(found.nodes, topic)
            assert set(assignment.partitions.values()) == {(0,)}
            assert assignment.topic_id == TOPIC_ID
            for partition in assignment.partitions:
                state = state_of(found.nodes, topic, partition)
                assert state is not None
                assert (state.leader, state.isr) == (0, (0,))
                assert state.leader_epoch == (3 if topic == "here" else 4)
        assert [re.sub(".*: ", "", warning) for warning in found.warnings] == [
            "absent",
            "followed-1",
            "lagging-0",
        ]

    def test_names_what_is_kept_without_effect(self) -> None:
        acl = b'{"version":1,"acls":[]}'
        nodes = cluster() | {
            "/kafka-acl": b"",
            "/kafka-acl/Topic": b"",
            "/kafka-acl/Topic/t": acl,
            "/delegation_token": b"",
            "/delegation_token/tokens": b"",
            "/delegation_token/tokens/id": b"{}",
            "/config/users/alice": znodes.encode_config({"SCRAM-SHA-256": "salt=,"}),
        }
        found = for_odradek(nodes, broker_id=0, cluster_id=CLUSTER_ID)
        for start, sentence in zip(
            ("1 ACLs", "1 delegation", "SCRAM"), found.warnings, strict=True
        ):
            assert sentence.startswith(start)
        assert found.nodes["/kafka-acl/Topic/t"] == acl
        assert "/delegation_token/tokens/id" in found.nodes
        assert for_kafka(found.nodes).nodes["/kafka-acl/Topic/t"] == acl


class TestChecks:
    def test_another_cluster(self) -> None:
        other = cluster(HERE) | {znodes.CLUSTER_ID: znodes.encode_cluster_id(OTHER_ID)}
        for check in (check_target, check_store):
            with pytest.raises(TransferRefused, match=f"another cluster: {OTHER_ID}, not"):
                check(other, cluster(HERE), force=False)
        with pytest.raises(TransferRefused, match=f"another cluster: {OTHER_ID}, not"):
            check_target(other, cluster(HERE), force=True)
        check_store(other, cluster(HERE), force=True)

    def test_an_earlier_state_may_be_overwritten(self) -> None:
        earlier, later = cluster(HERE, controller_epoch=3), cluster(HERE, controller_epoch=4)
        for check in (check_target, check_store):
            check({}, later, force=False)
            check(earlier, later, force=False)
            check(later, later, force=False)
            with pytest.raises(TransferRefused, match=r"later state .*epoch 4, not 3"):
                check(later, earlier, force=False)
            check(later, earlier, force=True)

    def test_a_target_in_use(self) -> None:
        with pytest.raises(TransferRefused, match="registered in ZooKeeper"):
            check_target(cluster() | {znodes.broker_path(4): b""}, cluster(), force=True)

    def test_a_target_that_lost_its_id(self) -> None:
        with pytest.raises(TransferRefused, match="no cluster id"):
            check_target(
                {k: v for k, v in cluster(HERE).items() if "id" not in k}, cluster(), force=False
            )

    def test_counters_never_fall(self) -> None:
        block = znodes.ProducerIdBlock(0, 1000, 1999).encode()
        nodes = cluster(controller_epoch=2) | {znodes.PRODUCER_ID_BLOCK: block}
        assert changes(cluster(controller_epoch=9), nodes) == []
        assert changes(nodes, cluster(controller_epoch=9)) == [
            Set(znodes.CONTROLLER_EPOCH, b"9"),
            Set(znodes.PRODUCER_ID_BLOCK, cluster()[znodes.PRODUCER_ID_BLOCK]),
        ]

    def test_a_store_keeps_the_settings_of_its_groups(self) -> None:
        there = cluster(HERE) | {znodes.group_config_path("g"): b"{}"}
        nodes = from_kafka(for_kafka(there).nodes)
        assert changes(there, nodes) == [Create(znodes.FEATURE, znodes.EMPTY_FEATURE)]

    def test_a_topic_that_is_gone_goes(self) -> None:
        gone = {change.path for change in changes(cluster(HERE), cluster())}
        assert gone >= set(HERE)
        assert znodes.partitions_path("here") in gone


def found(topic: str, partition: int, **more: object) -> FoundPartition:
    values = {"topic_id": TOPIC_ID, "leader_epoch": 5, "producer_id": -1} | more
    return FoundPartition(topic, partition, f"/d/{topic}-{partition}", **values)  # type: ignore[arg-type]


def rebuild(*partitions: FoundPartition, create_missing: bool = False) -> dict[str, bytes]:
    return rebuilt(
        partitions,
        broker_id=3,
        cluster_id=CLUSTER_ID,
        create_missing=create_missing,
        randbytes=lambda count: b"r" * count,
    ).nodes


class TestRebuilt:
    def test_a_topic(self) -> None:
        nodes = rebuild(found("t", 1, leader_epoch=-1), found("t", 0, producer_id=4711))
        assert assignment_of(nodes, "t").partitions == {0: (3,), 1: (3,)}
        assert assignment_of(nodes, "t").topic_id == TOPIC_ID
        epochs = [state_of(nodes, "t", partition) for partition in (0, 1)]
        assert [state.leader_epoch for state in epochs if state] == [6, 0]
        block = znodes.ProducerIdBlock.decode(nodes[znodes.PRODUCER_ID_BLOCK])
        assert (block.producer_id_first, block.producer_id_last) == (1_004_000, 1_004_999)

    def test_no_record_is_deleted_by_settings_that_were_lost(self) -> None:
        nodes = rebuild(found("t", 0), found("__consumer_offsets", 0))
        kept = znodes.decode_config(nodes[znodes.topic_config_path("t")])
        assert kept == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        internal = znodes.decode_config(nodes[znodes.topic_config_path("__consumer_offsets")])
        assert internal["cleanup.policy"] == "compact"

    def test_gaps(self) -> None:
        with pytest.raises(TransferRefused, match="no directory: t-0, t-2"):
            rebuild(found("t", 1), found("t", 3))
        nodes = rebuild(found("t", 1), found("t", 3), create_missing=True)
        assert sorted(assignment_of(nodes, "t").partitions) == [0, 1, 2, 3]

    def test_two_topics_of_one_name(self) -> None:
        with pytest.raises(TransferRefused, match="/d/t-0 and /d/t-1 are of two topics"):
            rebuild(found("t", 0), found("t", 1, topic_id=b"x" * 16))

    def test_a_partition_that_is_there_twice(self) -> None:
        with pytest.raises(TransferRefused, match="t-0 is there twice"):
            rebuild(found("t", 0), found("t", 0)._replace(directory="/e/t-0"))

    def test_a_topic_without_an_id(self) -> None:
        nodes = rebuild(found("t", 0, topic_id=None))
        assert assignment_of(nodes, "t").topic_id == b"r" * 16
