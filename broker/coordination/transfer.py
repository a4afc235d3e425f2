"""Moving a broker's metadata between Apache Kafka's ZooKeeper and the embedded store.

`for_kafka` and `for_odradek` build the tree for the other side; `check_target` and `check_store`
refuse to overwrite what should be kept.  `stored_tree.py` and `zookeeper_tree.py` read and write
the trees.

Ephemeral nodes and notifications to running brokers are left behind silently.  Anything else that
is left behind causes a warning.
"""

from typing import Final, NamedTuple

from . import znodes
from .interface import CoordinationError
from .json_fields import MalformedZnode
from .paths import split_path
from .plain_tree import (
    Change,
    Nodes,
    assignment_of,
    children_of,
    controller_epoch_of,
    decoded,
    differences,
    has_cluster,
    is_below,
    named,
    producer_id_block_of,
    state_of,
    topics_of,
    with_parents,
)

TOKENS: Final = "/delegation_token/tokens"
MIGRATION: Final = "/migration"
OWN_SETTINGS: Final = "odradek."

KEPT: Final = frozenset(
    {
        znodes.CLUSTER_ID,
        znodes.CONTROLLER_EPOCH,
        znodes.BROKER_TOPICS,
        znodes.BROKER_SEQUENCE,
        znodes.PRODUCER_ID_BLOCK,
        znodes.FEATURE,
        znodes.DELETE_TOPICS,
        "/config/topics",
        "/config/brokers",
        "/config/users",
        "/config/clients",
        "/config/ips",
        *znodes.ACLS,
        TOKENS,
    }
)
"""Nodes that are transferred, with everything below them."""

PASSING: Final = frozenset(
    {
        znodes.BROKER_IDS,
        znodes.CONTROLLER,
        znodes.CONFIG_CHANGES,
        znodes.ISR_CHANGES,
        znodes.LOG_DIR_EVENTS,
        "/kafka-acl-changes",
        "/kafka-acl-extended-changes",
        "/delegation_token/token_changes",
        znodes.SCRAM_SECRET,
        "/zookeeper",
    }
)
"""Nodes left behind silently: those between running brokers, ZooKeeper's own, and a secret that is
made anew."""

KAFKA_ROOTS: Final = znodes.STARTUP_PATHS


class TransferRefused(CoordinationError):
    """The transfer is refused; the message is one sentence for the operator."""


class Transfer(NamedTuple):
    """The nodes for the other side, and warnings for the user, one sentence each."""

    nodes: dict[str, bytes]
    warnings: list[str]


# From a store to Apache Kafka.


def for_kafka(nodes: Nodes) -> Transfer:
    """Convert a store's tree for Apache Kafka 3.9.  Raises: TransferRefused, MalformedZnode."""
    cluster_id_of(nodes, "the store")
    taken, warnings = _kept(nodes)
    for path in [path for path in taken if is_below(path, ("/config/brokers",))]:
        taken[path] = _without_own_settings(taken, path, warnings)
    groups = children_of(nodes, znodes.CONFIG_GROUPS)
    if groups:
        warnings.append(
            "settings of groups stay behind, Kafka 3.9 has none in ZooKeeper mode: "
            + named([znodes.group_of_config(name) for name in groups])
        )
    taken[znodes.FEATURE] = znodes.EMPTY_FEATURE
    for topic in topics_of(taken):
        _check_topic(taken, topic)
    return Transfer(with_parents(taken, KAFKA_ROOTS), warnings)


def check_target(there: Nodes, nodes: Nodes, *, force: bool) -> None:
    """Check that `nodes` may be exported to a ZooKeeper that holds `there`.

    ZooKeeper may be empty, or hold the same cluster without live brokers and in no later state;
    with `force` the state may be a later one.
    Raises: TransferRefused, MalformedZnode.
    """
    if not has_cluster(there):
        return
    _check_same_cluster("ZooKeeper", there, nodes)
    live = children_of(there, znodes.BROKER_IDS)
    if live:
        raise TransferRefused(
            f"brokers are registered in ZooKeeper ({named(live)}): stop them first (after a crash "
            "a broker stays registered until its session times out)"
        )
    if not force:
        _check_not_ahead("ZooKeeper", there, nodes, "run odradek import-zookeeper first")


# From Apache Kafka to a store.


def for_odradek(
    nodes: Nodes, *, broker_id: int, cluster_id: str, only_this_broker: bool = False
) -> Transfer:
    """Convert ZooKeeper's tree for the store of broker `broker_id` of cluster `cluster_id`.

    `only_this_broker`: leave the other brokers' replicas behind.
    Raises: TransferRefused, MalformedZnode.
    """
    found_id = cluster_id_of(nodes, "ZooKeeper")
    if found_id != cluster_id:
        raise TransferRefused(
            f"ZooKeeper has the cluster {found_id}, but the data directory belongs to the cluster "
            f"{cluster_id}"
        )
    live = children_of(nodes, znodes.BROKER_IDS)
    if str(broker_id) in live:
        raise TransferRefused(
            f"broker {broker_id} is registered in ZooKeeper: stop it first (after a crash it stays "
            "registered until its session times out)"
        )
    if MIGRATION in nodes:
        raise TransferRefused(f"this cluster is being migrated to KRaft: there is {MIGRATION}")
    taken, warnings = _kept(nodes)
    if live:
        warnings.append(f"other brokers of this cluster are running: {named(live)}")
    for topic in topics_of(taken):
        _check_topic(taken, topic)
    _keep_to_broker(taken, broker_id, warnings, only_this_broker=only_this_broker)
    warnings += _without_effect(taken)
    return Transfer(with_parents(taken, znodes.STARTUP_PATHS), warnings)


def check_store(there: Nodes, nodes: Nodes, *, force: bool) -> None:
    """Check that `nodes` may be imported into a store that holds `there`.

    The store may have no topics, or hold the same cluster in no later state; with `force` it may
    hold anything.  Raises: TransferRefused, MalformedZnode.
    """
    if force or not topics_of(there):
        return
    _check_same_cluster("the store", there, nodes)
    _check_not_ahead("the store", there, nodes, "it would lose what happened here since")


def _keep_to_broker(
    taken: dict[str, bytes], broker_id: int, warnings: list[str], *, only_this_broker: bool
) -> None:
    """Make this broker the only replica of all partitions.  Raises: TransferRefused."""
    alone = (broker_id,)
    topics = {topic: assignment_of(taken, topic) for topic in topics_of(taken)}
    shared = {
        topic: node for topic, node in topics.items() if set(node.partitions.values()) != {alone}
    }
    if shared and not only_this_broker:
        raise TransferRefused(
            f"topics have replicas on other brokers than {broker_id} ({named(list(shared))}): move "
            f"them to broker {broker_id}, or leave those replicas behind with --only-this-broker"
        )
    absent, empty, behind = [], [], []
    for topic, node in shared.items():
        here = [p for p, replicas in node.partitions.items() if broker_id in replicas]
        if not here:
            absent.append(topic)
            for path in [path for path in taken if is_below(path, _paths_of(topic))]:
                del taken[path]
            continue
        for partition in node.partitions:
            state = state_of(taken, topic, partition)
            if partition not in here:
                empty.append(f"{topic}-{partition}")
            elif state is not None and broker_id not in state.isr:
                behind.append(f"{topic}-{partition}")
            _lead_alone(taken, topic, partition, broker_id, state)
        assignment = znodes.TopicAssignment(dict.fromkeys(node.partitions, alone), node.topic_id)
        taken[znodes.topic_path(topic)] = assignment.encode()
    for partitions, sentence in (
        (absent, "topics without a replica here are left out"),
        (empty, "partitions without a replica here begin empty; their records stay where they are"),
        (behind, "the replica here was not in sync, so that its last records may be missing"),
    ):
        if partitions:
            warnings.append(f"{sentence}: {named(partitions)}")


def _paths_of(topic: str) -> tuple[str, ...]:
    return (
        znodes.topic_path(topic),
        znodes.topic_config_path(topic),
        znodes.delete_topic_path(topic),
    )


def _lead_alone(
    taken: dict[str, bytes],
    topic: str,
    partition: int,
    broker_id: int,
    state: znodes.PartitionStateNode | None,
) -> None:
    """Make the broker the leader and the whole ISR, in a new leader epoch."""
    if state is None or (state.leader, state.isr) == (broker_id, (broker_id,)):
        return  # no leader yet, or this broker already leads alone
    led = state._replace(leader=broker_id, isr=(broker_id,), leader_epoch=state.leader_epoch + 1)
    taken[znodes.partition_state_path(topic, partition)] = led.encode()


def _without_effect(taken: Nodes) -> list[str]:
    """Warnings about metadata that is kept for the way back, but has no effect in Odradek."""
    acls = sum(is_below(path, znodes.ACLS) and bool(data) for path, data in taken.items())
    tokens = len(children_of(taken, TOKENS))
    users = [name for name in children_of(taken, "/config/users") if _has_scram(taken, name)]
    sentences = []
    if acls:
        sentences.append(
            f"{acls} ACLs are kept: the broker starts only with authorizer.class.name, or with "
            "odradek.acls.ignore=true, and then whoever reaches it may do everything"
        )
    if tokens:
        sentences.append(f"{tokens} delegation tokens are kept but cannot be used with Odradek")
    if users:
        sentences.append(
            "SCRAM credentials are kept, and used only on listeners with SASL: " + named(users)
        )
    return sentences


def _has_scram(taken: Nodes, name: str) -> bool:
    config = decoded(taken, f"/config/users/{name}", znodes.decode_config)
    return any(key.startswith("SCRAM-") for key in config)


# Both ways.


def cluster_id_of(nodes: Nodes, where: str) -> str:
    """The cluster's id.  Raises: TransferRefused, MalformedZnode."""
    data = nodes.get(znodes.CLUSTER_ID)
    if not data:
        raise TransferRefused(f"there is no cluster in {where}: {znodes.CLUSTER_ID} is missing")
    return znodes.decode_cluster_id(data)


def changes(there: Nodes, nodes: Nodes) -> list[Change]:
    """The changes that turn the tree `there` into one with `nodes`, in order.

    Counters never decrease, and a store keeps the settings of its groups, which Kafka does not have
    in ZooKeeper.
    """
    wanted = dict(nodes)
    epoch = max(controller_epoch_of(there), controller_epoch_of(nodes))
    wanted[znodes.CONTROLLER_EPOCH] = znodes.encode_controller_epoch(epoch)
    old, new = producer_id_block_of(there), producer_id_block_of(nodes)
    if old is not None and (new is None or new.producer_id_last < old.producer_id_last):
        wanted[znodes.PRODUCER_ID_BLOCK] = old.encode()
    return differences(there, wanted, tops=KEPT)


def _kept(nodes: Nodes) -> tuple[dict[str, bytes], list[str]]:
    """The nodes to transfer, and a warning that names the others."""
    taken = {path: data for path, data in nodes.items() if is_below(path, KEPT)}
    passing = PASSING | {znodes.CONFIG_GROUPS}
    roots = with_parents({}, (*znodes.STARTUP_PATHS, *KEPT, *passing))
    other = {path for path in nodes if path not in roots and not is_below(path, KEPT | passing)}
    tops = sorted(path for path in other if split_path(path)[0] not in other)
    return taken, [f"nodes of no use there are left out: {named(tops)}"] if tops else []


def _without_own_settings(taken: Nodes, path: str, warnings: list[str]) -> bytes:
    """The data of a broker's config, without the settings that Kafka does not have."""
    config = decoded(taken, path, znodes.decode_config)
    own = [name for name in config if name.startswith(OWN_SETTINGS)]
    if not own:
        return taken[path]
    warnings.append(f"settings that Kafka does not have are left out: {named(own)}")
    return znodes.encode_config({k: v for k, v in config.items() if k not in own})


def _check_topic(taken: Nodes, topic: str) -> None:
    """Check that any controller can use the topic.  Raises: MalformedZnode."""
    node = assignment_of(taken, topic)
    if node.topic_id is None or not node.partitions:
        raise MalformedZnode(f"{znodes.topic_path(topic)} names no topic id or no partitions")
    for partition in node.partitions:
        state_of(taken, topic, partition)
    path = znodes.topic_config_path(topic)
    if path in taken:
        decoded(taken, path, znodes.decode_config)


def _check_same_cluster(where: str, there: Nodes, nodes: Nodes) -> None:
    data = there.get(znodes.CLUSTER_ID)
    found = znodes.decode_cluster_id(data) if data else None
    wanted = znodes.decode_cluster_id(nodes[znodes.CLUSTER_ID])
    if found is None:
        raise TransferRefused(f"{where} has topics but no cluster id: it is not empty")
    if found != wanted:
        raise TransferRefused(f"{where} has another cluster: {found}, not {wanted}")


def _check_not_ahead(where: str, there: Nodes, nodes: Nodes, remedy: str) -> None:
    """Refuse a later state: every election raises the controller epoch, so the higher is later."""
    ahead, behind = controller_epoch_of(there), controller_epoch_of(nodes)
    if ahead > behind:
        raise TransferRefused(
            f"{where} has a later state of this cluster (controller epoch {ahead}, not {behind}): "
            f"{remedy}; --force overwrites it"
        )
