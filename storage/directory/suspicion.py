"""Replicas that may lack records that they once had: noted beside the logs until they are cleared.

A broker that dies loses nothing, for the system keeps what was written. A machine that dies may
lose what was not synced, and a log that ends at a batch boundary does not show it. So the note
names the machine's boot, and whose logs were open when another boot began. What recovery finds
missing below the checkpointed high watermark is suspect too.

The note is written before the marker of a clean stop is removed, so that neither a kill while
loading nor a clean stop of a suspect replica changes what is known. Kafka leaves the file alone.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, Self

from ..errors import DiskFull
from ..files import FileSystem
from ..log.checkpoint import TopicPartition, parse_lines, render_lines

logger: Final = logging.getLogger("odradek.storage")

BOOT_NOTE: Final = ".odradek_boot_id"
NO_BOOT_ID: Final = "-"


class BootNote(NamedTuple):
    """What the file says; no boot id: the system has none."""

    boot_id: str | None
    suspects: frozenset[TopicPartition] = frozenset()

    def render(self) -> bytes:
        """The file: version 0, a count, the boot id, then a suspect replica a line."""
        suspects = [f"{topic} {partition}" for topic, partition in sorted(self.suspects)]
        return render_lines([self.boot_id or NO_BOOT_ID, *suspects])

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Raises: ValueError."""
        boot_id, *lines = parse_lines(data)
        pairs = (line.split(" ") for line in lines)
        suspects = frozenset((topic, int(partition)) for topic, partition in pairs)
        return cls(None if boot_id == NO_BOOT_ID else boot_id, suspects)


class NotePlan:
    """Write the note; only one plan of a directory may run at a time."""

    __slots__ = ("_data", "_files", "_path", "note")

    def __init__(self, files: FileSystem, path: str, note: BootNote) -> None:
        self._files = files
        self._path = path
        self._data = note.render()
        self.note = note

    def run(self) -> None:
        """Replace the file, with fsync.  Raises: DiskFull, LogDirFailed."""
        self._files.write_atomic(self._path, self._data)


class Suspicion:
    """The suspect replicas of one data directory."""

    def __init__(self, files: FileSystem, directory: str, boot_id: str | None = None) -> None:
        self.suspects: set[TopicPartition] = set()
        self._files = files
        self._path = f"{directory}/{BOOT_NOTE}"
        self._boot_id = boot_id
        self._written: BootNote | None = None

    def begin(self, found: Collection[TopicPartition], *, was_clean: bool) -> None:
        """Read the note, suspect all that is `found` if the boot was another one, write it anew.

        Call it while the marker is still there.  Raises: LogDirFailed.
        """
        noted = self._written = self._read()
        if noted is not None:
            self.suspects = set(noted.suspects)
            if self._boot_id is None:
                self._boot_id = noted.boot_id
            elif not was_clean and noted.boot_id not in (None, self._boot_id) and found:
                logger.warning(
                    "the machine was started anew and the broker was not stopped before: its "
                    "replicas may lack what was not synced path=%s partitions=%d",
                    self._path,
                    len(found),
                )
                self.suspects.update(found)
        self.write()

    def add(self, key: TopicPartition, reason: str) -> None:
        """Suspect a replica; `plan` or `write` makes it last."""
        if key not in self.suspects:
            self.suspects.add(key)
            logger.warning("replica is suspect topic=%s partition=%d reason=%s", *key, reason)

    def plan(self) -> NotePlan | None:
        """How to write the note, if it has changed; `plan.run()` in any thread, then `planned`."""
        note = BootNote(self._boot_id, frozenset(self.suspects))
        if note == (self._written or BootNote(None)):
            return None
        return NotePlan(self._files, self._path, note)

    def planned(self, plan: NotePlan) -> None:
        """The plan was run without an error."""
        self._written = plan.note

    def write(self) -> None:
        """Write the note now, if it has changed.

        A full disk lets the broker start all the same: then the old note counts once more.
        Raises: LogDirFailed.
        """
        plan = self.plan()
        if plan is None:
            return
        try:
            plan.run()
        except DiskFull as error:
            logger.warning("boot id not noted path=%s error=%s", self._path, error)
        else:
            self.planned(plan)

    def _read(self) -> BootNote | None:
        data = self._files.read_bytes(self._path)
        if data is None:
            return None
        try:
            return BootNote.parse(data)
        except ValueError as error:
            logger.warning(
                "boot note unreadable, all is suspect path=%s error=%s", self._path, error
            )
            return BootNote("?")


def settle(suspicions: Iterable[tuple[Suspicion, Collection[TopicPartition]]]) -> None:
    """Let each replica be noted in the directory in which it lies by now, each with what it holds.

    A suspect one may have been moved.
    """
    pairs = list(suspicions)
    everywhere = {key for suspicion, _ in pairs for key in suspicion.suspects}
    for suspicion, held in pairs:
        suspicion.suspects = everywhere.intersection(held)
