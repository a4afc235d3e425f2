"""The embedded store's file: the nodes in one SQLite database.

It is not a log.  It holds the nodes as of the last commit, one row per node, and the number of the
last transaction.  In write-ahead mode with synchronous=FULL, a transaction survives a power cut
once `commit` has returned.  The exclusive lock keeps a second process out (and makes the
shared-memory file unnecessary).

SQLite accesses its own files; they are the only ones in the broker that bypass the FileSystem.
sqlite3 is imported in the thread that first opens a file, so that the event loop does not wait.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from .interface import StoreError
from .reserve import Reserve
from .tree import Node

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID: Final = 0x4F647261  # "Odra"
FORMAT_VERSION: Final = 1
COLUMNS: Final = "path, data, czxid, mzxid, pzxid, version, children_created, ctime_ms, mtime_ms"
TYPED_COLUMNS: Final = (
    "path TEXT PRIMARY KEY NOT NULL, data BLOB NOT NULL, "
    "czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, pzxid INTEGER NOT NULL, "
    "version INTEGER NOT NULL, children_created INTEGER NOT NULL, "
    "ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL"
)
SCHEMA: Final = (
    "BEGIN IMMEDIATE",
    f"CREATE TABLE node ({TYPED_COLUMNS}) WITHOUT ROWID",
    "CREATE TABLE last (zxid INTEGER NOT NULL)",
    "INSERT INTO last VALUES (0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
    "COMMIT",
)
INSERT: Final = f"INSERT OR REPLACE INTO node ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
STATEMENTS_CACHED: Final = 16
FOR_ITS_OWNER: Final = 0o600
"""The mode of a new store; one that is there keeps its own."""
SYNCHRONOUS = "FULL"
"""Every commit is synced.  Only tests of other things may lower this to save time."""


class Saved(NamedTuple):
    """The contents of a journal."""

    nodes: list[tuple[str, Node]]
    zxid: int


class Journal(Protocol):
    """Durable storage of nodes.  Called from any thread, but never concurrently."""

    def open(self) -> Saved:
        """Lock and read the journal; create it if missing.  Raises: StoreError."""
        ...

    def commit(self, zxid: int, changes: Sequence[tuple[str, Node | None]]) -> None:
        """Make nodes (None: deleted) and the transaction number durable, all or nothing.

        Raises: any exception; the changes must then be considered lost.
        """
        ...

    def close(self) -> None:
        """Release the journal.  Idempotent."""
        ...


class SqliteJournal:
    """A `Journal` in one SQLite file."""

    def __init__(self, path: str | os.PathLike[str], *, syncs: bool = True) -> None:
        """`syncs` false: a commit may be lost, or the file damaged, by a power failure."""
        self._path = os.fspath(path)
        self._synchronous = SYNCHRONOUS if syncs else "OFF"
        self._connection: sqlite3.Connection | None = None
        self._reserve = Reserve(f"{self._path}-reserve")

    def open(self) -> Saved:
        """Lock the file and read all of it.  Raises: StoreError."""
        import sqlite3

        # It has the keys of SCRAM users. SQLite gives its mode to the files beside it.
        with suppress(OSError):  # sqlite3 fails below, and says why
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, FOR_ITS_OWNER))
        try:
            self._connection = sqlite3.connect(
                self._path,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,  # a pool's threads take turns
                cached_statements=STATEMENTS_CACHED,
            )
            self._configure(self._connection)
            return self._read(self._connection)
        except (sqlite3.Error, StoreError) as error:
            self.close()
            if isinstance(error, StoreError):
                raise
            raise StoreError(self._sentence(error)) from error

    def commit(self, zxid: int, changes: Sequence[tuple[str, Node | None]]) -> None:
        """One SQLite transaction; on a full disk the reserve is freed.  Raises: sqlite3.Error."""
        import sqlite3

        connection = self._connection
        assert connection is not None, "commit before open"
        try:
            self._commit(connection, zxid, changes)
        except sqlite3.OperationalError as error:
            is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            if not (is_full and self._reserve.give_up()):
                raise
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._commit(connection, zxid, changes)
        else:
            self._reserve.keep()

    def _commit(
        self, connection: sqlite3.Connection, zxid: int, changes: Sequence[tuple[str, Node | None]]
    ) -> None:
        put = [(path, *node[:-1]) for path, node in changes if node is not None]  # no owner
        gone = [(path,) for path, node in changes if node is None]
        connection.execute("BEGIN IMMEDIATE")
        if gone:
            connection.executemany("DELETE FROM node WHERE path = ?", gone)
        if put:
            connection.executemany(INSERT, put)
        connection.execute("UPDATE last SET zxid = ?", (zxid,))
        connection.execute("COMMIT")

    def close(self) -> None:
        """Merge the write-ahead log into the file and close it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self._reserve.give_up()

    def _configure(self, connection: sqlite3.Connection) -> None:
        # This must come first: after a read in WAL mode, SQLite would keep using shared memory.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(f"the store {self._path} cannot use a write-ahead log (mode {mode})")
        connection.execute("BEGIN IMMEDIATE")  # fails unless the file is writable
        connection.execute("ROLLBACK")
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if (application_id, version, tables) == (0, 0, 0):
            for statement in SCHEMA:
                connection.execute(statement)
        elif application_id != APPLICATION_ID:
            raise StoreError(f"{self._path} is not a store of Odradek but another SQLite file")
        elif version != FORMAT_VERSION:
            raise StoreError(
                f"the store {self._path} has format {version}; "
                f"this release of Odradek reads format {FORMAT_VERSION} only"
            )

    def _read(self, connection: sqlite3.Connection) -> Saved:
        zxids = connection.execute("SELECT zxid FROM last").fetchall()
        rows = connection.execute(f"SELECT {COLUMNS} FROM node").fetchall()
        if len(zxids) != 1 or not isinstance(zxids[0][0], int):
            raise StoreError(f"the store {self._path} is damaged: no transaction number")
        for path, data, *numbers in rows:
            if not (
                isinstance(path, str)
                and isinstance(data, bytes)
                and all(isinstance(number, int) for number in numbers)
            ):
                raise StoreError(f"the store {self._path} is damaged: bad row for node {path!r}")
        return Saved([(path, Node(*columns)) for path, *columns in rows], zxids[0][0])

    def _sentence(self, error: sqlite3.Error) -> str:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return f"the store {self._path} is in use by another process"
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return f"the store {self._path} is damaged: {error}"
        return f"the store {self._path} cannot be opened: {error}"
