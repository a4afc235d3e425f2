"""export-zookeeper, import-zookeeper and import-directory: what they do, and their refusals."""

import sys
from pathlib import Path

import pytest

from odradek.broker.coordination import znodes
from odradek.broker.coordination.plain_tree import assignment_of, state_of, topics_of
from odradek.broker.coordination.zookeeper import zookeeper_access
from odradek.cli import zookeeper_config
from odradek.protocol.records import Record
from odradek.storage.files import RealFileSystem
from tests.broker.coordination.trees import CLUSTER_ID, TOPIC_ID, cluster
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
from tests.kafka.process import free_port


@pytest.fixture
def closed_port() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_config, "TIMEOUT_MS", 200)


@pytest.mark.slow
def test_zookeeper_out_of_reach(tmp_path: Path, closed_port: str) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    expected = f"ZooKeeper cannot be reached at {closed_port}\n"
    options = ("--zookeeper", f"{closed_port}/kafka", "--data-dir", store)
    assert sentence(run("export-zookeeper", *options)) == expected
    assert sentence(run("import-zookeeper", *options)) == expected


def test_bad_address(tmp_path: Path) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    for address in ("", "/chroot", "a b", "host:1//x"):
        result = run("export-zookeeper", "--zookeeper", address, "--data-dir", store)
        assert "is not HOST:PORT" in sentence(result)


def test_how_long_to_wait_for_zookeeper(tmp_path: Path) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text("zookeeper.connection.timeout.ms=7000\nzookeeper.session.timeout.ms=5000\n")
    for named, expected in ((None, (200, 200)), (str(file), (7_000, 5_000))):
        access = zookeeper_access(zookeeper_config.zookeeper_settings("somewhere:1", named))
        assert (access.connection_timeout_ms, access.session_timeout_ms) == expected


def test_without_kazoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(tmp_path / "d", cluster(HERE))
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    result = run("export-zookeeper", "--zookeeper", "x:1", "--data-dir", store)
    assert "pip install 'odradek[zookeeper]'" in sentence(result)


@pytest.mark.parametrize("command", ["export-zookeeper", "import-zookeeper", "import-directory"])
def test_directories_that_cannot_be_used(tmp_path: Path, command: str) -> None:
    options = [] if command == "import-directory" else ["--zookeeper", "nowhere:1"]

    def refusal(*directories: Path) -> str:
        return sentence(run(command, *options, "--data-dir", ",".join(map(str, directories))))

    assert "there is no directory" in refusal(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    assert "no meta.properties" in refusal(tmp_path / "empty")
    kraft = make_data_dir(tmp_path / "kraft")
    (kraft / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    assert "KRaft" in refusal(kraft)
    ours = make_data_dir(tmp_path / "ours")
    other = make_data_dir(tmp_path / "other", broker_id=1)
    assert "belong to different brokers" in refusal(ours, other)
    lock = RealFileSystem().lock(str(ours / ".lock"))
    try:
        assert "locked by another broker" in refusal(ours)
    finally:
        lock.release()
    assert run(command, *options, "--data-dir", f"{ours},{ours}").exit_code == 2


def test_the_directory_with_the_store_comes_first(tmp_path: Path) -> None:
    store = make_store(tmp_path / "with", cluster())
    without = make_data_dir(tmp_path / "without")
    make_partition(without, "t", 0)
    result = run("import-directory", "--data-dir", f"{without},{store}", "--force")
    assert f"next: odradek serve --broker-id 0 --data-dir {store},{without}\n" in result.stdout
    assert topics_of(stored(store)) == ["t"]
    assert not (without / STORE).exists()


def test_export_without_a_store(tmp_path: Path) -> None:
    data_dir = make_data_dir(tmp_path / "d")
    result = run("export-zookeeper", "--zookeeper", "nowhere:1", "--data-dir", data_dir)
    assert "no store of Odradek" in sentence(result)
    assert not (data_dir / STORE).exists()


class TestImportDirectory:
    def test_topics_come_back(self, tmp_path: Path) -> None:
        one, two = make_data_dir(tmp_path / "one"), make_data_dir(tmp_path / "two")
        make_partition(one, "t", 0, Record(0, NOW_MS, b"k", b"v"))
        make_partition(two, "t", 1)
        make_partition(one, "__consumer_offsets", 0)
        (one / "t-0.0123456789abcdef0123456789abcdef-delete").mkdir()
        result = run("import-directory", "--data-dir", f"{one},{two}")
        assert result.exit_code == 0, result.output
        nodes = stored(one)
        assert topics_of(nodes) == ["__consumer_offsets", "t"]
        assert assignment_of(nodes, "t") == znodes.TopicAssignment({0: (0,), 1: (0,)}, TOPIC_ID)
        state = state_of(nodes, "t", 0)
        assert state is not None and state.leader_epoch == 5
        block = znodes.ProducerIdBlock.decode(nodes[znodes.PRODUCER_ID_BLOCK])
        assert (block.producer_id_first, block.producer_id_last) == (1_005_000, 1_005_999)
        assert znodes.decode_cluster_id(nodes[znodes.CLUSTER_ID]) == CLUSTER_ID
        assert "settings of topics are lost" in result.stderr
        assert "-delete is no partition" in result.stderr

    def test_dry_run_changes_nothing(self, tmp_path: Path) -> None:
        data_dir = make_data_dir(tmp_path / "d")
        make_partition(data_dir, "t", 0)
        before = sorted(data_dir.rglob("*"))
        result = run("import-directory", "--data-dir", data_dir, "--dry-run")
        assert result.exit_code == 0
        assert "create\t/brokers/topics/t/partitions/0/state" in result.stdout
        assert sorted(data_dir.rglob("*")) == sorted([*before, data_dir / ".lock"])

    def test_gaps(self, tmp_path: Path) -> None:
        data_dir = make_data_dir(tmp_path / "d")
        make_partition(data_dir, "t", 2)
        refused = sentence(run("import-directory", "--data-dir", data_dir))
        assert "no directory: t-0, t-1" in refused
        result = run("import-directory", "--data-dir", data_dir, "--create-missing")
        assert result.exit_code == 0
        assert len(assignment_of(stored(data_dir), "t").partitions) == 3

    def test_a_store_with_topics_is_kept(self, tmp_path: Path) -> None:
        store = make_store(tmp_path / "d", cluster(HERE))
        make_partition(store, "t", 0)
        assert "later state" in sentence(run("import-directory", "--data-dir", store))
        assert topics_of(stored(store)) == ["here"]
        assert run("import-directory", "--data-dir", store, "--force").exit_code == 0
        assert topics_of(stored(store)) == ["t"]

    @pytest.mark.parametrize("version", [0, 1])
    def test_producer_ids_of_transactions_count(self, tmp_path: Path, version: int) -> None:
        data_dir = make_data_dir(tmp_path / "d")
        value = bytes((0, version)) + (77_000).to_bytes(8, "big") + b"rest"
        make_partition(data_dir, "__transaction_state", 0, Record(0, NOW_MS, b"\0\0\0\1t", value))
        assert run("import-directory", "--data-dir", data_dir).exit_code == 0
        block = znodes.ProducerIdBlock.decode(stored(data_dir)[znodes.PRODUCER_ID_BLOCK])
        assert block.producer_id_first == 1_077_000
