"""A disk whose power is cut: what no sync has reached may be gone, torn, or where it was before."""

import random
from collections.abc import Callable, Iterable

from tests.pipeline.disk import Disk, Process, nothing


class PoweredDisk(Disk):
    """It knows what of its content a power cut may undo."""

    def __init__(self) -> None:
        super().__init__()
        self.unsynced: set[str] = set()
        """Files whose bytes may not be there."""
        self.moved: dict[str, str | None] = {}
        """Names that may not be there, and what the file is called then; None: it is gone."""
        self.deleted: dict[str, bytes] = {}
        """Files that may be there again."""

    def cut(self, rng: random.Random) -> Disk:
        """What a start finds after a power cut."""
        disk = Disk()
        kept = {path: data for path, data in self.deleted.items() if rng.random() < 0.5}
        for path, data in self.content.items():
            torn = path in self.unsynced and rng.random() < 0.5
            name: str | None = path
            if path in self.moved and rng.random() < 0.5:
                name = self.moved[path]
            if name is not None:
                kept[name] = b"" if torn else data
        disk.content.update(kept)
        return disk


class PoweredProcess(Process):
    """A process on such a disk."""

    def __init__(self, disk: PoweredDisk, before: Callable[[int], None] = nothing) -> None:
        super().__init__(disk, before)
        self.disk = disk

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data)
        self.disk.unsynced.add(path)
        self.disk.moved[path] = None

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        super().write(path, data, overwrite=overwrite)
        self._settle([path])

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        disk = self.disk
        disk.moved[target] = disk.moved.pop(source, source)
        if source in disk.unsynced:
            disk.unsynced.remove(source)
            disk.unsynced.add(target)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        before = dict(self.content)
        deleted = super().delete(path, recursive=recursive)
        for name in before.keys() - self.content.keys():
            was: str | None = self.disk.moved.pop(name, name)
            self.disk.unsynced.discard(name)
            if was is not None:
                self.disk.deleted[was] = before[name]
        return deleted

    def sync(self, paths: Iterable[str]) -> None:
        super().sync(())
        self.disk.unsynced.difference_update(paths)

    def sync_names(self, paths: Iterable[str]) -> None:
        super().sync_names(())
        self._settle(paths)

    def _settle(self, paths: Iterable[str]) -> None:
        """The folders of these files are as they are seen."""
        folders = {path.rpartition("/")[0] for path in paths}
        for changes in (self.disk.moved, self.disk.deleted):
            for path in [path for path in changes if path.rpartition("/")[0] in folders]:
                del changes[path]
