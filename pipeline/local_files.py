"""Files of this machine, read without starting Spark."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from .errors import PipelineError
from .files import FileStatus


def local_path(uri: str) -> Path | None:
    """The local path that a URI names; None if it names a file elsewhere."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri).expanduser() if not parts.scheme else None


class LocalFiles:
    """A folder and all below it: the reading half of `Files`."""

    def __init__(self, root: Path) -> None:
        self.uri = str(root)
        self._root = root

    def exists(self, path: str = "") -> bool:
        """Whether a file or folder exists."""
        return (self._root / path).exists()

    def read(self, path: str) -> bytes:
        """The contents of a file.  Raises: PipelineError."""
        try:
            return (self._root / path).read_bytes()
        except OSError as error:
            raise PipelineError(f"cannot read {self._root / path}: {error.strerror}") from error

    def absolute(self, path: str = "") -> str:
        """The path of a file or folder."""
        return str(self._root / path)

    def folders(self, path: str = "") -> list[str]:
        """The subfolders of a folder, sorted; none if it does not exist."""
        found = (self._root / path).glob("*")
        return sorted(str(one.relative_to(self._root)) for one in found if one.is_dir())

    def list(self, path: str = "", *, recursive: bool = False) -> list[FileStatus]:
        """The files in a folder, without subfolders, sorted; none if it does not exist."""
        found = (self._root / path).glob("**/*" if recursive else "*")
        return sorted(
            (
                FileStatus(str(file.relative_to(self._root)), file.stat().st_size)
                for file in found
                if file.is_file()
            ),
            key=lambda status: status.path,
        )
