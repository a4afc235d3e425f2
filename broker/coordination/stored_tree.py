"""Offline access to the embedded store: read the whole tree, change it in one transaction."""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from .interface import BadArguments, StoreError
from .journal import SqliteJournal
from .plain_tree import Change
from .tree import Tree


class StoredTree:
    """A store's file, opened exclusively; created if there is none.

    A context manager.  Raises: StoreError on entering.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._journal = SqliteJournal(path)
        self._tree = Tree()
        self.nodes: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        saved = self._journal.open()
        try:
            self._tree = Tree(saved.nodes, saved.zxid)
        except (ValueError, BadArguments) as error:
            self._journal.close()
            raise StoreError(f"the store {self._path} is damaged: {error}") from error
        self.nodes = {path: node.data for path, node in saved.nodes if path != "/"}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._journal.close()

    def apply(self, changes: Sequence[Change], *, wall_ms: int) -> None:
        """Make all changes durable in one transaction.  Raises: MultiFailed, StoreError."""
        import sqlite3

        self._tree.apply(changes, session_id=0, wall_ms=wall_ms)
        try:
            self._journal.commit(self._tree.zxid, self._tree.take_unsaved())
        except sqlite3.Error as error:
            raise StoreError(f"the store {self._path} cannot be written: {error}") from error
