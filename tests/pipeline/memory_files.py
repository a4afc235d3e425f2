"""A file system in memory."""

from collections.abc import Iterable

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.files import Files, FileStatus


class MemoryFiles(Files):
    """Files in a dict, by their paths."""

    def __init__(self, content: dict[str, bytes]) -> None:
        # Not as Files do it: they ask Spark for Hadoop.
        self.uri = "memory:/root"
        self.content = content

    def _step(self) -> None:
        """Before whatever the disk does."""

    def absolute(self, path: str = "") -> str:
        return f"{self.uri}/{path}" if path else self.uri

    def exists(self, path: str = "") -> bool:
        self._step()
        return path in self.content or any(name.startswith(f"{path}/") for name in self.content)

    def read(self, path: str) -> bytes:
        self._step()
        if path not in self.content:
            raise PipelineError(f"{path} is not there")
        return self.content[path]

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._step()
        if path in self.content and not overwrite:
            raise PipelineError(f"{path} is there")
        self.content[path] = data

    def sync(self, paths: Iterable[str]) -> None:
        self._step()

    def sync_names(self, paths: Iterable[str]) -> None:
        self._step()

    def folders(self, path: str = "") -> list[str]:
        self._step()
        start = f"{path}/" if path else ""
        below = [name.removeprefix(start) for name in self.content if name.startswith(start)]
        return sorted({start + name.partition("/")[0] for name in below if "/" in name})

    def rename(self, source: str, target: str) -> None:
        self._step()
        if source not in self.content or target in self.content:
            raise PipelineError(f"{source} cannot become {target}")
        self.content[target] = self.content.pop(source)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        # A folder goes file by file, as on any disk.
        names = [name for name in self.content if name == path or name.startswith(f"{path}/")]
        for name in names:
            self._step()
            self.content.pop(name, None)
        return bool(names)

    def list(self, path: str = "", *, recursive: bool = False) -> list[FileStatus]:
        self._step()
        start = f"{path}/" if path else ""
        return [
            FileStatus(name, len(data))
            for name, data in sorted(self.content.items())
            if name.startswith(start)
            if recursive or "/" not in name.removeprefix(start)
        ]
