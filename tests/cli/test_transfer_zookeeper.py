"""export-zookeeper and import-zookeeper with a real ZooKeeper."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from odradek.broker.coordination import znodes
from odradek.broker.coordination.plain_tree import assignment_of, topics_of
from odradek.protocol.group_records import GroupRecord, encode_record
from odradek.protocol.group_records.consumer import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from odradek.protocol.records import Record
from tests.broker.coordination.trees import cluster, topic_nodes
from tests.cli.stopped import (
    HERE,
    NOW_MS,
    STORE,
    make_data_dir,
    make_partition,
    make_store,
    run,
    sentence,
    stored,
)
from tests.kafka.apache import Kafka39

pytestmark = pytest.mark.java
CHROOTS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ZooKeeper without a Kafka."""
    kafka = Kafka39(tmp_path_factory.mktemp("zookeeper"))
    try:
        kafka.start_zookeeper()
        yield kafka.zookeeper
    finally:
        kafka.close()


@pytest.fixture
def zookeeper(server: str) -> str:
    """A chroot that is not there yet."""
    return f"{server}/clusters/{next(CHROOTS)}"


@contextmanager
def client(zookeeper: str) -> Iterator[KazooClient]:
    """Speaks to the nodes below the chroot."""
    kazoo = KazooClient(hosts=zookeeper)
    try:
        kazoo.start()
        yield kazoo
    finally:
        kazoo.stop()
        kazoo.close()


def read(zookeeper: str) -> dict[str, bytes | None]:
    """All nodes below the chroot; None is null data, as Kafka writes it."""
    nodes, paths = {}, ["/"]
    with client(zookeeper) as kazoo:
        for path in paths:
            for name in kazoo.get_children(path):
                child = f"{path.rstrip('/')}/{name}"
                paths.append(child)
                nodes[child] = kazoo.get(child)[0]
    return nodes


def export(store: Path, zookeeper: str, *more: str) -> str:
    """What the command prints when it has worked."""
    result = run("export-zookeeper", "--data-dir", store, "--zookeeper", zookeeper, *more)
    assert result.exit_code == 0, result.output
    return result.output


def test_export_then_import(tmp_path: Path, zookeeper: str) -> None:
    nodes = cluster(HERE)
    store = make_store(tmp_path / "d", nodes)
    printed = export(store, zookeeper)
    assert f"{zookeeper}: nodes: " in printed and " created" in printed
    for line in ("broker.id=0", f"log.dirs={store}", f"zookeeper.connect={zookeeper}"):
        assert line in printed.splitlines()
    there = read(zookeeper)
    kafkas = nodes | {znodes.FEATURE: znodes.EMPTY_FEATURE}
    assert there == {path: data or None for path, data in kafkas.items()}

    assert "nothing to change" in export(store, zookeeper)

    (store / STORE).unlink()
    result = run("import-zookeeper", "--zookeeper", zookeeper, "--data-dir", store)
    assert result.exit_code == 0, result.output
    assert f"odradek serve --broker-id 0 --data-dir {store}" in result.output
    assert stored(store) == kafkas


def test_nodes_that_only_brokers_may_use(tmp_path: Path, zookeeper: str) -> None:
    """With zookeeper.set.acl, as brokers make and read them."""
    file = tmp_path / "server.properties"
    file.write_text(
        "zookeeper.set.acl=true\nodradek.zookeeper.auth.username=broker\n"
        "odradek.zookeeper.auth.password=right\nlisteners=nonsense\n"
    )
    nodes = cluster(HERE) | {"/config/users/alice": b'{"version":1,"config":{}}'}
    store = make_store(tmp_path / "d", nodes)
    broker = ("--zookeeper-config", str(file))
    export(store, zookeeper, *broker)
    with client(zookeeper) as stranger:
        with pytest.raises(NoAuthError):
            stranger.get("/config/users/alice")
        assert stranger.get("/brokers/topics/here")[0] == nodes["/brokers/topics/here"]
        with pytest.raises(NoAuthError):
            stranger.set("/brokers/topics/here", b"mine")
    (store / STORE).unlink()
    taking = ("import-zookeeper", "--zookeeper", zookeeper, "--data-dir", store)
    dump = ("zookeeper", "dump", "--zookeeper", zookeeper, "/config/users")
    assert "its ACL" in sentence(run(*taking))
    assert "ACL" in sentence(run(*dump))
    taken, shown = run(*taking, *broker), run(*dump, *broker)
    assert taken.exit_code == 0, taken.output
    assert stored(store).items() >= nodes.items()
    assert shown.exit_code == 0, shown.output
    assert "/config/users/alice" in shown.stdout


def test_many_topics(tmp_path: Path, zookeeper: str) -> None:
    topics = [topic_nodes(f"t{n}", dict.fromkeys(range(4), (0,))) for n in range(150)]
    store = make_store(tmp_path / "d", cluster(*topics))
    export(store, zookeeper)
    (store / STORE).unlink()
    assert run("import-zookeeper", "--zookeeper", zookeeper, "--data-dir", store).exit_code == 0
    assert len(topics_of(stored(store))) == 150


def test_dry_runs_change_nothing(tmp_path: Path, zookeeper: str) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    printed = export(store, zookeeper, "--dry-run")
    assert "create\t/brokers/topics/here\n" in printed and "not done: dry run" in printed
    address, _, chroot = zookeeper.partition("/")
    with client(address) as kazoo:
        assert not kazoo.exists(f"/{chroot}")
    export(store, zookeeper)
    (store / STORE).unlink()
    result = run("import-zookeeper", "--zookeeper", zookeeper, "--data-dir", store, "--dry-run")
    assert result.exit_code == 0 and "create\t/brokers/topics/here\n" in result.output
    assert not (store / STORE).exists()


def test_a_target_that_is_not_ours(tmp_path: Path, zookeeper: str) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    other_id = "AAAAAAAAAAAAAAAAAAAAAA"
    address, _, chroot = zookeeper.partition("/")
    with client(address) as kazoo:
        kazoo.create(f"/{chroot}/cluster/id", znodes.encode_cluster_id(other_id), makepath=True)
    before = read(zookeeper)
    for force in ((), ("--force",)):
        refused = run("export-zookeeper", "--data-dir", store, "--zookeeper", zookeeper, *force)
        assert other_id in sentence(refused)
    assert other_id in sentence(
        run("import-zookeeper", "--zookeeper", zookeeper, "--data-dir", store)
    )
    assert read(zookeeper) == before


def test_a_target_in_use(tmp_path: Path, zookeeper: str) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    export(store, zookeeper)
    with client(zookeeper) as kazoo:
        kazoo.create("/brokers/ids/0", b"", ephemeral=True)
        for command in ("export-zookeeper", "import-zookeeper"):
            refused = run(command, "--data-dir", store, "--zookeeper", zookeeper)
            assert "registered in ZooKeeper" in sentence(refused)


def test_a_later_state_is_overwritten_by_force_only(tmp_path: Path, zookeeper: str) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    later = make_store(
        tmp_path / "e", cluster(HERE, topic_nodes("new", {0: (0,)}), controller_epoch=9)
    )
    export(later, zookeeper)
    command = ("export-zookeeper", "--data-dir", store, "--zookeeper", zookeeper)
    assert "later state" in sentence(run(*command))
    assert "/brokers/topics/new" in read(zookeeper)
    assert "deleted" in export(store, zookeeper, "--force")
    assert "/brokers/topics/new" not in read(zookeeper)
    assert read(zookeeper)[znodes.CONTROLLER_EPOCH] == b"9"
    # The store is behind now, and may be overwritten.
    command = ("import-zookeeper", "--data-dir", store, "--zookeeper", zookeeper)
    assert run(*command).exit_code == 0
    assert stored(store)[znodes.CONTROLLER_EPOCH] == b"9"


def test_other_brokers_replicas(tmp_path: Path, zookeeper: str) -> None:
    nodes = cluster(HERE, topic_nodes("shared", {0: (1, 0), 1: (1,)}))
    export(make_store(tmp_path / "d", nodes), zookeeper)
    data_dir = make_data_dir(tmp_path / "e")
    command = ("import-zookeeper", "--data-dir", data_dir, "--zookeeper", zookeeper)
    assert "--only-this-broker" in sentence(run(*command))
    assert not topics_of(stored(data_dir))
    result = run(*command, "--only-this-broker")
    assert result.exit_code == 0
    assert "begin empty; their records stay where they are: shared-1" in result.stderr
    assert assignment_of(stored(data_dir), "shared").partitions == {0: (0,), 1: (0,)}


def test_no_cluster_there(tmp_path: Path, zookeeper: str) -> None:
    data_dir = make_data_dir(tmp_path / "d")
    refused = run("import-zookeeper", "--data-dir", data_dir, "--zookeeper", zookeeper)
    assert "no cluster in ZooKeeper" in sentence(refused)
    assert not (data_dir / STORE).exists()


def group_record(offset: int, group_id: str, *, is_there: bool) -> Record:
    value = ConsumerGroupMetadataValue(epoch=1) if is_there else None
    key, data = encode_record(GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), value))
    return Record(offset, NOW_MS, key, data)


def test_consumer_groups_are_named(tmp_path: Path, zookeeper: str) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    make_partition(
        store,
        "__consumer_offsets",
        3,
        group_record(0, "there", is_there=True),
        group_record(1, "gone", is_there=True),
        group_record(2, "gone", is_there=False),
    )
    result = run("export-zookeeper", "--data-dir", store, "--zookeeper", zookeeper)
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("Warning: groups of the consumer protocol (KIP-848) are left out")
    assert warning.endswith("group.protocol=classic: there")
