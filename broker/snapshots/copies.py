"""The files of a snapshot: a directory on which brokers start in the state of that moment.

It is as `kill -9` would have left it at that moment, so that brokers recover from it as from a
crash. The store's file is written anew, since the live one belongs to SQLite.
"""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from odradek import __version__
from odradek.storage.log.checkpoint import CLEAN_SHUTDOWN
from odradek.storage.log.log import DELETED_SUFFIX

from ..coordination.embedded import EmbeddedStore
from ..coordination.journal import SqliteJournal
from ..server import STORE_FILE

LABEL: Final = "odradek-snapshot.json"
LOCK: Final = ".lock"
_OMITTED_SUFFIXES: Final = (DELETED_SUFFIX, ".deleted", ".tmp")


def copy_files(directory: Path, store: EmbeddedStore, target: Path) -> None:
    """Copy the directory of running brokers and their store.  Blocks.  Raises: OSError."""
    shutil.copytree(directory, target, ignore=_omitted)
    store.copy_to(SqliteJournal(target / STORE_FILE, syncs=False))
    (target / LABEL).write_text(json.dumps({"version": __version__}))


def _omitted(directory: str, names: Collection[str]) -> set[str]:
    return {name for name in names if not _is_copied(name)}


def _is_copied(name: str) -> bool:
    return not (
        name in (LOCK, CLEAN_SHUTDOWN)
        or name.startswith(STORE_FILE)
        or name.endswith(_OMITTED_SUFFIXES)
    )
