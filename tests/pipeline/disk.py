"""Files in memory that stop at any step: what an archive's writer is held against."""

import json
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from odradek.pipeline.archive_commits import ArchiveWriter, StagedFile, begin
from odradek.pipeline.manifest import About, OffsetRange, read_commits
from odradek.pipeline.offsets import TopicPartition
from tests.pipeline.memory_files import MemoryFiles


class Crash(Exception):
    """The process is killed here."""


def nothing(step: int) -> None:
    """Before every step."""


class Disk:
    """What several processes share; a parquet file is a JSON list of offsets."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}


class Process(MemoryFiles):
    """One process's view of the disk.  `before(n)` is called before its n-th step, from 0."""

    def __init__(self, disk: Disk, before: Callable[[int], None] = nothing) -> None:
        super().__init__(disk.content)
        self.steps = 0
        self._before = before

    def put(self, path: str, data: bytes) -> None:
        """A file that Spark writes."""
        self._step()
        self.content[path] = data

    def _step(self) -> None:
        step = self.steps
        self.steps += 1
        self._before(step)


def visible(disk: Disk) -> list[int]:
    """The offsets that a reader of plain Parquet sees: hidden names are passed over."""
    return sorted(
        offset
        for name, data in disk.content.items()
        if not any(part[0] in "._" for part in PurePosixPath(name).parts)
        for offset in json.loads(data)
    )


def committed(disk: Disk) -> list[int]:
    """The offsets that a reader of the manifest sees."""
    return sorted(
        offset
        for commit in read_commits(Process(disk))
        for file in commit.files
        for offset in json.loads(disk.content[file.path])
    )


def open_writer(process: Process, name: str) -> ArchiveWriter:
    """A start of the job."""
    if not process.exists("_odradek/archive.json"):
        begin(process, About())
    return ArchiveWriter(process, name, {"host": name})


def stage(
    process: Process, writer: ArchiveWriter, files: Sequence[Sequence[int]]
) -> list[StagedFile]:
    """What Spark does: a file for each list of offsets, each on another date."""
    folder = writer.stage()
    staged = []
    for index, offsets in enumerate(files):
        path = f"{folder}/topic=t/date=2026-01-0{index + 1}/part-0-{writer.claim}.parquet"
        process.put(path, json.dumps(list(offsets)).encode())
        spans = {0: (min(offsets), max(offsets) + 1)}
        staged.append(StagedFile(path, "t", len(offsets), 0, spans))
    process.put(f"{folder}/_SUCCESS", b"")
    return staged


def archive_batch(process: Process, writer: ArchiveWriter, start: int, end: int) -> None:
    """A batch of two files; skipped, as the job does, if the archive has it already."""
    if writer.ends.get(TopicPartition("t", 0), 0) >= end:
        return
    middle = (start + end) // 2
    staged = stage(process, writer, [range(start, middle), range(middle, end)])
    writer.commit(folder_of(staged), staged, [OffsetRange("t", 0, start, end)])


def compact_all(process: Process, writer: ArchiveWriter) -> None:
    """All files become one."""
    old = [file.path for commit in writer.commits for file in commit.files]
    if len(old) < 2:
        return
    offsets = sorted(offset for path in old for offset in json.loads(process.content[path]))
    staged = stage(process, writer, [offsets])
    writer.commit(folder_of(staged), staged, removed=old)


def folder_of(staged: Sequence[StagedFile]) -> str:
    """The staging folder of staged files."""
    return staged[0].source.partition("/topic=")[0]
