"""Files on any file system that Hadoop supports: file:, hdfs:, s3a: …"""

import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from .errors import PipelineError, explainable, reason
from .spark_types import SparkSession

TEMPORARY: Final = ".odradek-"
"""Prefix of the names of unfinished files; Spark's readers skip names with a leading dot."""

NO_FSYNC: Final = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that cannot sync, such as mounted object stores."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file."""

    path: str
    """Relative to the root."""
    size_bytes: int


class Folder(Protocol):
    """A folder for reading: `Files`, or `LocalFiles`, which needs no Spark."""

    uri: str

    def exists(self, path: str = "") -> bool:
        """Whether a file or folder exists."""

    def read(self, path: str) -> bytes:
        """The contents of a file."""

    def absolute(self, path: str = "") -> str:
        """The path to name in errors, or for Spark's readers."""

    def folders(self, path: str = "") -> "list[str]":
        """The subfolders of a folder."""

    def list(self, path: str = "", *, recursive: bool = False) -> list[FileStatus]:
        """The files of a folder."""


class Files:
    """A folder and all below it; paths are relative to it.  All methods raise PipelineError.

    The folder need not exist: the first write creates it.  Not thread-safe.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.spark = spark
        self.uri = uri
        context = spark.sparkContext
        self._jvm = context._jvm
        with self._explained("use", ""):
            path = self._jvm.org.apache.hadoop.fs.Path(uri)
            configuration = context._jsc.hadoopConfiguration()
            self._filesystem = path.getFileSystem(configuration)
            self._root = self._filesystem.makeQualified(path)
            self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                self._root.toUri(), configuration
            )
        self.uri = str(self._root.toString())
        root = self._root.toUri()
        self._local = Path(root.getPath()) if root.getScheme() == "file" else None

    def absolute(self, path: str = "") -> str:
        """The path in the form that Spark's readers and writers take."""
        return str(self._path(path).toString())

    def exists(self, path: str = "") -> bool:
        """Whether a file or folder exists."""
        with self._explained("look at", path):
            return bool(self._filesystem.exists(self._path(path)))

    def read(self, path: str) -> bytes:
        """The contents of a file."""
        with self._explained("read", path):
            stream = self._filesystem.open(self._path(path))
            try:
                # A byte array crosses to Python in one piece.
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write a file atomically; an existing file is an error unless `overwrite`.

        The file is as durable as `sync` and `sync_names` make it.
        """
        if not overwrite and self.exists(path):
            raise PipelineError(f"{self.absolute(path)} is there already and is not overwritten")
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/{TEMPORARY}{uuid.uuid4().hex}-{name}".lstrip("/")
        with self._explained("write", path):
            stream = self._filesystem.create(self._path(temporary), False)
            try:
                stream.write(bytearray(data))
                _sync(stream)
            finally:
                stream.close()
        self.sync([temporary])
        self._rename(temporary, path, overwrite=overwrite)
        self.sync_names([path])

    def folders(self, path: str = "") -> list[str]:
        """The subfolders of a folder, sorted, relative to the root; none if it does not exist."""
        with self._explained("list", path):
            if not self._filesystem.exists(self._path(path)):
                return []
            statuses = self._filesystem.listStatus(self._path(path))
            return sorted(self._relative(s.getPath()) for s in statuses if s.isDirectory())

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder, creating parents of `target`; an existing `target` is an error."""
        self._rename(source, target, overwrite=False)

    def sync(self, paths: Iterable[str]) -> None:
        """Make the contents of files survive a power cut, if they are on a local disk.

        Elsewhere files are as durable as their file system makes them when they are closed.
        """
        if self._local is not None:
            for path in paths:
                file = self._local / path
                with self._explained("write", path):
                    _fsync(file)
                    _fsync(file.with_name(f".{file.name}.crc"))  # Hadoop's checksums

    def sync_names(self, paths: Iterable[str]) -> None:
        """The same for the names of files: syncs their folders, up to the root."""
        if self._local is not None:
            folders = {folder for path in paths for folder in Path(path).parents}
            for folder in sorted(folders, reverse=True):
                with self._explained("write", str(folder)):
                    _fsync(self._local / folder)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file or folder; returns whether there was one."""
        with self._explained("remove", path):
            return bool(self._filesystem.delete(self._path(path), recursive))

    def check_writable(self) -> None:
        """Write and remove a small file, so that a job fails before its first record."""
        name = f"{TEMPORARY}check-{uuid.uuid4().hex}"
        self.write(name, b"")
        self.delete(name)

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        # FileSystem.rename returns false for any failure, and replaces local files.
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self.spark.sparkContext._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE if overwrite else rename.NONE
        with self._explained(f"write {self._shown(target)} from", source):
            self._filesystem.mkdirs(self._path(target).getParent())
            self._context.rename(self._path(source), self._path(target), options)

    def _path(self, path: str) -> Any:
        if not path:
            return self._root
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)

    def _relative(self, path: Any) -> str:
        root = str(self._root.toString()).rstrip("/")
        return str(path.toString()).removeprefix(root).lstrip("/")

    @contextmanager
    def _explained(self, deed: str, path: str) -> Iterator[None]:
        try:
            yield
        except explainable() as error:
            raise PipelineError(f"cannot {deed} {self._shown(path)}: {reason(error)}") from error

    def _shown(self, path: str) -> str:
        return "/".join(part for part in (self.uri.rstrip("/"), path) if part)

    # Comes last, because its name hides the class `list` in annotations below it.
    def list(self, path: str = "", *, recursive: bool = False) -> list[FileStatus]:
        """The files in a folder, without subfolders, sorted; none if it does not exist."""
        found = []
        with self._explained("list", path):
            if not self._filesystem.exists(self._path(path)):
                return []
            statuses = self._filesystem.listFiles(self._path(path), recursive)
            while statuses.hasNext():
                status = statuses.next()
                found.append(FileStatus(self._relative(status.getPath()), status.getLen()))
        return sorted(found, key=lambda file: file.path)


def _sync(stream: Any) -> None:
    """Make the bytes durable where the file system supports it: Hadoop's local one does not."""
    if stream.hasCapability("hsync"):
        stream.hsync()


def _fsync(path: Path) -> None:
    """Sync a file or folder; a missing one is ignored.  Raises: OSError."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in NO_FSYNC:
                raise
        finally:
            os.close(descriptor)
