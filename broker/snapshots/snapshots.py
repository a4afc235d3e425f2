"""The snapshots of a process's brokers, by their ids."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..coordination.embedded import EmbeddedStore
from .copies import copy_files
from .image import CannotUndo, Image, Undo
from .restore import restore
from .take import image_of, keep_producers, settled

if TYPE_CHECKING:
    from ..local_cluster import LocalCluster
    from ..runtime import Runtime
    from ..server import Broker

SNAPSHOTS_MAX: Final = 100
ID_BITS: Final = 64
DIRECTORY_SUFFIX: Final = "-snapshots"


class SnapshotRefused(Exception):
    """A snapshot can't be taken here; a sentence that says why."""


class Snapshot(NamedTuple):
    """A state that the brokers can return to."""

    id: str
    """Unlike that of any snapshot of any other process."""
    directory: Path
    """The files, for brokers that are started on a copy of them."""
    image: Image


class Snapshots:
    """Takes snapshots and returns to them."""

    def __init__(self, running: "Broker | LocalCluster", runtime: "Runtime") -> None:
        self._running = running
        self._runtime = runtime
        self._taken: dict[str, Snapshot] = {}

    def __getitem__(self, snapshot_id: str) -> Snapshot:
        return self._taken[snapshot_id]

    async def take(self) -> Snapshot:
        """Remember the state of now.  Raises: SnapshotRefused, OSError, StorageError."""
        store, brokers = self._store, self._brokers
        if len(self._taken) >= SNAPSHOTS_MAX:
            raise SnapshotRefused(f"there are {SNAPSHOTS_MAX} snapshots already: delete some")
        await settled(store, brokers.values())
        # From here on nothing is awaited, so nothing changes.
        snapshot_id = f"{self._runtime.random_bits(ID_BITS):016x}"
        source = self._directory
        directory = source.with_name(source.name + DIRECTORY_SUFFIX) / snapshot_id
        image = image_of(store, brokers)
        keep_producers(brokers.values())
        try:
            copy_files(source, store, directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        snapshot = self._taken[snapshot_id] = Snapshot(snapshot_id, directory, image)
        return snapshot

    async def restore(self, snapshot_id: str) -> Undo:
        """Return to a snapshot; what was undone.  Raises: KeyError, CannotUndo."""
        snapshot = self._taken[snapshot_id]
        try:
            store = self._store
            undo = await restore(store, self._brokers, snapshot.image)
        except SnapshotRefused as refused:
            raise CannotUndo(str(refused)) from refused
        if snapshot_id in self._taken:
            # The same but for bookkeeping: next time, only what is written until then is compared.
            image = snapshot.image._replace(nodes=store.data())
            self._taken[snapshot_id] = snapshot._replace(image=image)
        return undo

    def drop(self, snapshot_id: str) -> None:
        """Forget a snapshot, and remove its files.  Raises: KeyError."""
        snapshot = self._taken.pop(snapshot_id)
        shutil.rmtree(snapshot.directory, ignore_errors=True)

    @property
    def _brokers(self) -> "Mapping[int, Broker]":
        from ..running import broker_ids_of, brokers_of

        brokers = brokers_of(self._running)
        down = sorted(set(broker_ids_of(self._running)) - brokers.keys())
        if down:
            raise SnapshotRefused(f"broker {down[0]} is down: start it first")
        for number, broker in brokers.items():
            if broker.is_paused:
                raise SnapshotRefused(f"broker {number} is paused: resume it first")
        return brokers

    @property
    def _store(self) -> EmbeddedStore:
        store = next(iter(self._brokers.values())).store
        if not isinstance(store, EmbeddedStore):
            raise SnapshotRefused(
                "with zookeeper.connect there are no snapshots: the state is in ZooKeeper, too"
            )
        return store

    @property
    def _directory(self) -> Path:
        from ..server import Broker

        if not isinstance(self._running, Broker):
            return Path(self._running.directory)
        directories = self._running.config.data_dirs
        if len(directories) > 1:
            raise SnapshotRefused(
                "snapshots need all logs in one directory: log.dirs names several"
            )
        return Path(directories[0])
