"""The SQLite file: what it keeps, what it refuses."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import CoordinationLost, StoreError
from odradek.broker.coordination.journal import SqliteJournal
from odradek.broker.coordination.reserve import RESERVE_BYTES
from odradek.broker.coordination.tree import Node
from odradek.broker.runtime import Runtime
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.fakes import fake_runtime

NODE = Node(b"data", 1, 2, 3, 4, 5, 6, 7)
numbers = st.integers(0, 2**63 - 1)
nodes = st.builds(Node, st.binary(max_size=20), *[numbers] * 7, st.just(0))
changes = st.dictionaries(st.sampled_from(["/", "/a", "/a/b", "/c"]), st.none() | nodes)


@contextmanager
def opened(path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(path)
    journal.open()
    try:
        yield journal
    finally:
        journal.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a store with 200 nodes."""
    path = tmp_path / "store.sqlite3"
    with opened(path) as journal:
        journal.commit(9, [(f"/n{index}", NODE) for index in range(200)])
    return path


@given(commits=st.lists(changes, max_size=5))
@settings(max_examples=10, deadline=None)
def test_the_last_of_everything_is_kept(commits: list[dict[str, Node | None]]) -> None:
    with TemporaryDirectory() as directory:
        check_kept(Path(directory) / "store.sqlite3", commits)


def check_kept(path: Path, commits: list[dict[str, Node | None]]) -> None:
    expected: dict[str, Node] = {}
    with opened(path) as journal:
        for zxid, change in enumerate(commits, 1):
            journal.commit(zxid, list(change.items()))
            expected.update({key: node for key, node in change.items() if node is not None})
            for key in [key for key, node in change.items() if node is None]:
                expected.pop(key, None)
    journal = SqliteJournal(path)
    saved = journal.open()
    journal.close()
    assert (dict(saved.nodes), saved.zxid) == (expected, len(commits))


def test_settings_that_durability_needs(path: Path) -> None:
    with opened(path) as journal:
        connection = journal._connection
        assert connection is not None
        for pragma, value in (("journal_mode", "wal"), ("synchronous", 2)):
            assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        SqliteJournal(path).open()
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


def test_not_a_database(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be looked at " * 100)
    assert "is damaged" in refusal(path)


def test_a_torn_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "is damaged" in refusal(path)


@pytest.mark.parametrize("page", [1, 2, 3, 4])
def test_an_overwritten_page(path: Path, page: int) -> None:
    data = bytearray(path.read_bytes())
    data[page * 4096 : page * 4096 + 4096] = bytes(range(256)) * 16
    path.write_bytes(data)
    assert "is damaged" in refusal(path)


def test_a_foreign_database(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE node (path TEXT)")
    assert "not a store of Odradek" in refusal(path)


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("PRAGMA user_version = 2", "has format 2"),
        ("UPDATE node SET data = 'text' WHERE path = '/n7'", "bad row for node '/n7'"),
        ("UPDATE node SET version = 'x' WHERE path = '/n7'", "bad row for node '/n7'"),
        ("DELETE FROM last", "no transaction number"),
        ("UPDATE last SET zxid = 'x'", "no transaction number"),
        ("DROP TABLE last", "cannot be opened: no such table"),
        ("ALTER TABLE node DROP COLUMN mtime_ms", "cannot be opened: no such column"),
    ],
)
def test_edited_by_somebody(path: Path, statement: str, reason: str) -> None:
    edit(path, statement)
    assert reason in refusal(path)


def test_a_refused_file_is_let_go(path: Path) -> None:
    edit(path, "PRAGMA user_version = 2")
    journal = SqliteJournal(path)
    with pytest.raises(StoreError):
        journal.open()
    edit(path, "PRAGMA user_version = 1")
    assert len(journal.open().nodes) == 200
    journal.close()


def test_in_use(path: Path) -> None:
    with opened(path):
        assert "is in use by another process" in refusal(path)
    with opened(path):
        pass


def test_no_such_directory(tmp_path: Path) -> None:
    assert "cannot be opened" in refusal(tmp_path / "missing" / "store.sqlite3")


def test_a_directory(tmp_path: Path) -> None:
    assert "cannot be opened" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE node SET path = 'n7' WHERE path = '/n7'", "invalid path 'n7'"),
        ("UPDATE node SET path = '/x/n7' WHERE path = '/n7'", "/x/n7 has no parent"),
        ("UPDATE node SET czxid = 10 WHERE path = '/n7'", "/n7 is newer than transaction 9"),
    ],
)
@asynchronous
async def test_not_a_tree(path: Path, statement: str, reason: str) -> None:
    edit(path, statement)
    store = EmbeddedStore(path, runtime=fake_runtime())
    with pytest.raises(StoreError) as caught:
        await store.start()
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)
    with opened(path):  # it is free again
        pass


@asynchronous
async def test_a_full_disk(path: Path, system: Runtime) -> None:
    journal = SqliteJournal(path)
    store = EmbeddedStore(path, runtime=system, journal=journal)
    await store.start()
    session = await store.open_session(10_000)
    await session.create("/kept", b"x" * 10_000)
    assert journal._connection is not None
    journal._connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size
    results = await asyncio.gather(
        *[session.create(f"/lost{index}", b"x" * 10_000) for index in range(3)],
        return_exceptions=True,
    )
    for result in results:
        assert isinstance(result, CoordinationLost)
        assert isinstance(result.__cause__, sqlite3.OperationalError)
        assert str(path) in str(result)
    await store.close()
    journal = SqliteJournal(path)
    saved = dict(journal.open().nodes)
    journal.close()
    assert saved["/kept"].data == b"x" * 10_000
    assert "/lost0" not in saved


def test_a_full_disk_is_met_with_the_reserve(path: Path) -> None:
    with opened(path) as journal:
        journal.commit(1, [])
        reserve = path.with_name(f"{path.name}-reserve")
        assert reserve.stat().st_size == RESERVE_BYTES
        connection = FullConnection(journal._connection, failures=1)
        journal._connection = connection  # type: ignore[assignment]
        journal.commit(2, [])
        assert not reserve.exists()
        journal.commit(3, [])
        assert reserve.exists()
        connection.failures = 2
        with pytest.raises(sqlite3.OperationalError, match="full"):
            journal.commit(4, [])
        journal._connection = connection.real


class FullConnection:
    """A connection whose commits fail for want of room, so many times."""

    def __init__(self, real: sqlite3.Connection | None, failures: int) -> None:
        assert real is not None
        self.real = real
        self.failures = failures
        self.executemany = real.executemany

    @property
    def in_transaction(self) -> bool:
        return self.real.in_transaction

    def execute(self, statement: str, *more: Any) -> sqlite3.Cursor:
        if statement == "COMMIT" and self.failures:
            self.failures -= 1
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self.real.execute(statement, *more)


def test_a_new_store_is_for_its_owner_only(tmp_path: Path) -> None:
    """It has the keys of users, and so has what is beside it; an older one keeps its mode."""
    path = tmp_path / "store"
    with opened(path) as journal:
        journal.commit(1, [("/a", NODE)])
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert {modes["store"], modes["store-wal"]} == {0o600}
    path.chmod(0o640)
    with opened(path):
        assert path.stat().st_mode & 0o777 == 0o640
