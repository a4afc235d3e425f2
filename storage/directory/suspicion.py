"""Suspect replicas: they may lack records that they once had; kept in a note in the data directory.

If only the broker dies, nothing is lost: the kernel keeps what was written. If the machine dies,
unsynced records may be lost, and a log that ends at a batch boundary does not show it. So the note
has the machine's boot id; after an unclean shutdown, replicas are suspect if the boot id changed.
Replicas that lack records below the checkpointed high watermark are suspect too.

The note is written before the clean-shutdown marker is removed, so that neither a kill during
loading nor a clean shutdown clears a suspect replica. Kafka leaves the file alone.
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
    """The contents of the note; `boot_id` is None if the system has none."""

    boot_id: str | None
    suspects: frozenset[TopicPartition] = frozenset()

    def render(self) -> bytes:
        """The file: version 0, the line count, the boot id, then one suspect replica a line."""
        suspects = [f"{topic} {partition}" for topic, partition in sorted(self.suspects)]
        return render_lines([self.boot_id or NO_BOOT_ID, *suspects])

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The inverse of `render`.  Raises: ValueError."""
        boot_id, *lines = parse_lines(data)
        pairs = (line.split(" ") for line in lines)
        suspects = frozenset((topic, int(partition)) for topic, partition in pairs)
        return cls(None if boot_id == NO_BOOT_ID else boot_id, suspects)


class NotePlan:
    """Write the note; only one plan per directory may run at a time."""

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
        """Read the note, suspect `found` if the machine may have crashed, and rewrite the note.

        It may have crashed if the shutdown was unclean, and the boot id has changed or the note is
        unreadable. Call this before the clean-shutdown marker is removed.  Raises: LogDirFailed.
        """
        noted = self._written = self._read()
        if noted is not None:
            self.suspects = set(noted.suspects)
            if self._boot_id is None:
                self._boot_id = noted.boot_id
            elif not was_clean and noted.boot_id not in (None, self._boot_id) and found:
                logger.warning(
                    "the machine rebooted and the last shutdown was not clean: replicas may lack "
                    "unsynced records path=%s partitions=%d",
                    self._path,
                    len(found),
                )
                self.suspects.update(found)
        self.write()

    def add(self, key: TopicPartition, reason: str) -> None:
        """Add a suspect replica; `plan` or `write` writes it down."""
        if key not in self.suspects:
            self.suspects.add(key)
            logger.warning("replica is suspect topic=%s partition=%d reason=%s", *key, reason)

    def plan(self) -> NotePlan | None:
        """A plan to write the note, if it changed; `plan.run()` in any thread, then `planned`."""
        note = BootNote(self._boot_id, frozenset(self.suspects))
        if note == (self._written or BootNote(None)):
            return None
        return NotePlan(self._files, self._path, note)

    def planned(self, plan: NotePlan) -> None:
        """Note that the plan ran without an error."""
        self._written = plan.note

    def write(self) -> None:
        """Write the note now, if it changed.

        A full disk does not prevent startup: the old note then stays.  Raises: LogDirFailed.
        """
        plan = self.plan()
        if plan is None:
            return
        try:
            plan.run()
        except DiskFull as error:
            logger.warning("boot id not written path=%s error=%s", self._path, error)
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
                "boot note unreadable: after a shutdown that was not clean, all replicas are "
                "suspect path=%s error=%s",
                self._path,
                error,
            )
            return BootNote("?")


def settle(suspicions: Iterable[tuple[Suspicion, Collection[TopicPartition]]]) -> None:
    """Assign each suspect replica to the directory that holds it now: it may have been moved.

    `suspicions`: each directory's suspicion, with the partitions that it holds.
    """
    pairs = list(suspicions)
    everywhere = {key for suspicion, _ in pairs for key in suspicion.suspects}
    for suspicion, held in pairs:
        suspicion.suspects = everywhere.intersection(held)
