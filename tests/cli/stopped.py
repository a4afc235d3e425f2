"""Data directories of stopped brokers, and the commands that work on them."""

from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from odradek.broker.coordination.stored_tree import StoredTree
from odradek.broker.coordination.transfer import changes
from odradek.cli import main
from odradek.protocol.records import Record, build_batch, read_header
from odradek.storage.directory.meta_properties import MetaProperties, render_meta_properties
from odradek.storage.files import RealFileSystem
from odradek.storage.log.log_config import LogConfig
from odradek.storage.recovery.load import create_log
from tests.broker.coordination.trees import CLUSTER_ID, TOPIC_ID, topic_nodes

STORE: Final = ".odradek-store.sqlite3"
HERE: Final = topic_nodes("here", {0: (0,), 1: (0,)})
NOW_MS: Final = 1_700_000_000_000


def run(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [command, *map(str, arguments)])


def sentence(result: Result) -> str:
    """Of a refusal, which must be one line on stderr and exit code 1."""
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ")


def make_data_dir(path: Path, *, broker_id: int = 0, cluster_id: str = CLUSTER_ID) -> Path:
    path.mkdir()
    owner = MetaProperties(broker_id, cluster_id)
    (path / "meta.properties").write_bytes(render_meta_properties(owner))
    return path


def make_store(path: Path, nodes: dict[str, bytes]) -> Path:
    make_data_dir(path)
    with StoredTree(path / STORE) as store:
        store.apply(changes({}, nodes), wall_ms=NOW_MS)
    return path


def stored(path: Path) -> dict[str, bytes]:
    with StoredTree(path / STORE) as store:
        return store.nodes


def make_partition(
    data_dir: Path, topic: str, partition: int, *records: Record, topic_id: bytes | None = TOPIC_ID
) -> None:
    log = create_log(
        RealFileSystem(),
        str(data_dir / f"{topic}-{partition}"),
        topic,
        partition,
        topic_id=topic_id,
        config=LogConfig(),
        leader_epoch=4,
    )
    if records:
        batch = build_batch(records, producer_id=5432, producer_epoch=0, base_sequence=0)
        log.append(memoryview(batch), read_header(batch), leader_epoch=4, wall_ms=NOW_MS)
    log.close()
