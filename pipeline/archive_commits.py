"""How a batch becomes part of an archive atomically, also for readers of plain Parquet.

Spark writes into a hidden *staging* folder. An *intent* names every staged file and its final path;
then the files are moved there, and then the commit is written. The next start rolls an intent
forward or back, so a crash at any point leaves nothing half done, and no offset is ever seen twice.
On a local disk, the files that a commit names are synced before the commit is written.

Only one job at a time adds to an archive. Each start *claims* it under a number of its own, and the
highest claim wins, as with Kafka's producer epochs; no lock is needed, only that a rename happens
once. A job looks for a higher claim after staging. A new claim deletes older staging folders. A job
that was suspended since it looked then finds neither its staged files nor its intent, which is
staged, too. All that such a job can still do is what its successor does as well: whether an intent
can be rolled forward does not depend on who asks, and nothing of a later claim is ever removed.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .documents import encode
from .errors import PipelineError
from .files import TEMPORARY, Files, Folder
from .manifest import (
    ABOUT,
    COMMITS,
    ROOM,
    SNAPSHOT,
    About,
    ArchivedFile,
    Commit,
    OffsetRange,
    commit_path,
    ends,
    live,
    read_commit,
    read_commits,
    snapshot,
)
from .offsets import Spans, TopicPartition

HISTORY: Final = f"{ROOM}/history"
"""Commits that a snapshot has replaced, kept for people to read."""
CLAIMS: Final = f"{ROOM}/claims"
INTENTS: Final = f"{ROOM}/intents"
STAGING: Final = f"{ROOM}/staging"
SNAPSHOT_EVERY: Final = 100
OURS: Final = re.compile(r"/\d{10}-(?P<claim>\d{8}-[0-9a-z]+)-part-[^/]+\.parquet$")
"""Names of files that this job writes; it must not remove any others in the folder."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that Spark has written into a staging folder."""

    source: str
    topic: str
    records: int
    size_bytes: int
    spans: Spans = field(default_factory=dict)
    """The offsets that it covers, by partition."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A commit, and the staged paths of its files."""

    commit: Commit
    sources: Mapping[str, str]
    """Final path to staged path."""

    def encode(self) -> bytes:
        """The intent as JSON."""
        return encode({"commit": self.commit.to_json(), "sources": dict(self.sources)})

    @classmethod
    def decode(cls, data: bytes) -> "Intent":
        """Read the JSON of `encode`."""
        document = json.loads(data)
        return cls(Commit.from_json(document["commit"]), document["sources"])


def begin(files: Files, about: About) -> None:
    """Create an archive in an empty folder.  Raises: PipelineError."""
    check_empty(files)
    files.write(ABOUT, encode(about.to_json()))


def check_empty(files: Folder) -> None:
    """Refuse a folder that holds something else than an archive.  Raises: PipelineError."""
    entries = [*files.folders(), *(status.path for status in files.list())]
    # A killed start leaves its temporary files, and it must be possible to repeat it.
    strangers = [e for e in entries if e != ROOM and not e.startswith(TEMPORARY)]
    if strangers:
        raise PipelineError(
            f"{files.absolute()} is no archive and holds {strangers[0]}: give an empty folder, or "
            "one that does not exist"
        )


class ArchiveWriter:
    """The only job that may add to an archive, until a later one claims it."""

    def __init__(self, files: Files, token: str, owner: Mapping[str, object]) -> None:
        """Claim the archive and finish or undo what an earlier job left.

        `token` is unique to this start (digits, small letters); `owner` is shown to jobs that lose
        their claim to it.
        Raises: PipelineError.
        """
        self.files = files
        self.claim = _claim(files, token, owner)
        self._check_claim()
        self._recover()
        self._commits = read_commits(files)
        self._staged = 0

    @property
    def commits(self) -> Sequence[Commit]:
        """The commits of the archive; a snapshot replaces those before it."""
        return self._commits

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset after the last archived one, by topic and partition."""
        return ends(self._commits)

    def stage(self) -> str:
        """Path of a new hidden folder for files; files that are not committed are removed."""
        self._staged += 1
        return f"{STAGING}/{self.claim}/{self._staged:010d}"

    def commit(
        self,
        folder: str,
        staged: Sequence[StagedFile],
        ranges: Sequence[OffsetRange] = (),
        removed: Sequence[str] = (),
    ) -> Commit:
        """Add staged files to the archive and remove others, atomically.

        Files keep their subfolders of the staging folder.  Raises: PipelineError, also if another
        job has claimed the archive.
        """
        number = self._commits[-1].number + 1 if self._commits else 0
        placed = {self._place(folder, file.source, number): file for file in staged}
        archived = tuple(
            ArchivedFile(path, file.topic, file.records, file.size_bytes, file.spans)
            for path, file in placed.items()
        )
        commit = Commit(number, tuple(ranges), archived, tuple(removed))
        intent = Intent(commit, {path: file.source for path, file in placed.items()})
        written, path = f"{folder}/_intent", f"{INTENTS}/{number:020d}-{self.claim}"
        # After the intent, the contents of the files are not checked again.
        self.files.sync(file.source for file in staged)
        self.files.write(written, intent.encode())
        self._check_claim()
        self._rename(written, path)
        self._roll_forward(path, intent)
        self.files.delete(folder, recursive=True)
        self._commits = _with(self._commits, commit)
        if (number + 1) % SNAPSHOT_EVERY == 0:
            self.write_snapshot()
        return commit

    def write_snapshot(self) -> None:
        """Replace the commits so far with a snapshot, so that nobody has to read them all."""
        self._commits = [snapshot(self._commits)]
        path = commit_path(self._commits[-1].number, SNAPSHOT)
        if not self.files.exists(path):
            self.files.write(path, encode(self._commits[-1].to_json()))
        self._retire()

    def _retire(self) -> None:
        """Move commits before the previous snapshot to the history; its readers can go on."""
        names = _names(self.files, COMMITS)
        snapshots = [name for name in names if name.endswith(SNAPSHOT)]
        for name in names:
            # By name, a commit sorts before its snapshot.
            if len(snapshots) > 1 and name < snapshots[-2]:
                self._rename(f"{COMMITS}/{name}", f"{HISTORY}/{name}")

    def _check_claim(self) -> None:
        highest = max(_names(self.files, CLAIMS), default=self.claim)
        if highest > self.claim:
            owner = json.loads(self.files.read(f"{CLAIMS}/{highest}"))
            who = ", ".join(f"{name} {value}" for name, value in owner.items())
            raise PipelineError(
                f"another job has taken over the archive {self.files.absolute()} ({who}): let only "
                "one job write to an archive; this one has stopped, and nothing is lost or doubled"
            )

    # -- after a crash

    def _recover(self) -> None:
        for path, intent in list(self._intents()):
            if self._is_complete(intent):
                self._roll_forward(path, intent)
        for claim in self.files.folders(STAGING):
            if claim.rpartition("/")[2] < self.claim:
                self.files.delete(claim, recursive=True)
        # A suspended job may have begun to move files after the first loop. What it has not moved
        # by now is deleted, so from here on only this job changes anything.
        for path, intent in list(self._intents()):
            if self._is_complete(intent):
                self._roll_forward(path, intent)
            else:
                self._roll_back(path, intent)
        self._remove_orphans()
        for claim in _names(self.files, CLAIMS):
            if claim < self.claim:
                self.files.delete(f"{CLAIMS}/{claim}")

    def _intents(self) -> Iterator[tuple[str, Intent]]:
        for name in _names(self.files, INTENTS):
            path = f"{INTENTS}/{name}"
            try:
                yield path, Intent.decode(self.files.read(path))
            except PipelineError:
                if self.files.exists(path):  # else its writer has finished it
                    raise

    def _is_complete(self, intent: Intent) -> bool:
        """Whether it can be rolled forward; if not, its writer has lost the archive."""
        if self._is_taken(intent.commit):
            return False
        # The staged path first: another job may be moving files at this moment.
        return self._is_written(intent.commit) or all(
            self.files.exists(source) or self.files.exists(place)
            for place, source in intent.sources.items()
        )

    def _is_written(self, commit: Commit) -> bool:
        path = commit_path(commit.number)
        return self.files.exists(path) and read_commit(self.files, path) == commit

    def _is_taken(self, commit: Commit) -> bool:
        """Whether another commit has its number."""
        return self.files.exists(commit_path(commit.number)) and not self._is_written(commit)

    def _roll_forward(self, path: str, intent: Intent) -> None:
        commit = intent.commit
        if not self._is_written(commit):
            for place, source in intent.sources.items():
                self._rename(source, place)
            # Spark's checkpoint advances past a commit, so its files must survive a power cut.
            self.files.sync_names(intent.sources)
            try:
                self.files.write(commit_path(commit.number), encode(commit.to_json()))
            except PipelineError:
                if not self._is_written(commit):
                    self._check_claim()
                    raise
        # Only after the commit is written: a job that has lost the archive does not get here.
        for removed in commit.removed:
            self.files.delete(removed)
        self.files.delete(path)

    def _rename(self, source: str, target: str) -> None:
        """Move a file unless `target` exists.

        Raises: PipelineError, also if the archive was claimed and the staged file removed.
        """
        if self.files.exists(target):
            return
        try:
            self.files.rename(source, target)
        except PipelineError:
            # Another job that rolls the same intent forward may have moved it.
            if not self.files.exists(target):
                self._check_claim()
                raise

    def _roll_back(self, path: str, intent: Intent) -> None:
        logger.warning("intent rolled back path=%s", path)
        held = {file.path for commit in read_commits(self.files) for file in commit.files}
        for place in intent.sources:
            if place not in held:
                self.files.delete(place)
        self.files.delete(path)

    def _remove_orphans(self) -> None:
        visible = [
            status.path
            for status in self.files.list(recursive=True)
            if not any(part[0] in "._" for part in status.path.split("/"))  # readers skip those
        ]
        held = {file.path for commit in read_commits(self.files) for file in commit.files}
        for path in visible:
            ours = OURS.search(path)
            if ours is None:
                logger.warning("file does not belong to the archive path=%s", path)
            elif path not in held and ours["claim"] < self.claim:
                logger.warning("orphan removed path=%s", path)
                self.files.delete(path)

    def _place(self, folder: str, source: str, number: int) -> str:
        """The final path of a staged file; its name tells the commit and the claim."""
        below, _, name = source.removeprefix(f"{folder}/").rpartition("/")
        return f"{below}/{number:010d}-{self.claim}-{name}"


def _claim(files: Files, token: str, owner: Mapping[str, object]) -> str:
    highest = max((int(name[:8]) for name in _names(files, CLAIMS)), default=0)
    claim = f"{highest + 1:08d}-{token}"
    files.write(f"{CLAIMS}/{claim}", encode(dict(owner)))
    return claim


def _names(files: Files, folder: str) -> list[str]:
    """The names in one of our folders, without temporary files of interrupted writes."""
    names = (status.path.rpartition("/")[2] for status in files.list(folder))
    return sorted(name for name in names if name[:8].isdecimal())


def _with(commits: Sequence[Commit], commit: Commit) -> list[Commit]:
    return live([*commits, commit]) if commit.removed else [*commits, commit]
