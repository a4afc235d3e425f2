"""Repairs a data directory or a partition: turns the findings of `check_*.py` into steps.

Nothing changes before a step's `apply`. A partition has two rounds: first the segments; then, after
another check, the files derived from them. Whatever the next start recovers after an unclean
shutdown is left to it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ..files import FileSystem
from ..log.checkpoint import (
    CLEANER,
    HIGH_WATERMARK,
    LEADER_EPOCH,
    LOG_START,
    PARTITION_METADATA,
    RECOVERY_POINT,
    TopicPartition,
    parse_partition_metadata,
    render_offsets,
)
from ..log.producer_snapshot import snapshot_path
from ..log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from .check_directory import (
    DirectoryReport,
    check_directory,
    check_partition,
    is_data_directory,
    partition_of,
    read_directory,
)
from .check_partition import DAMAGED_SUFFIX, PartitionCheck, PartitionReport
from .check_segment import SegmentReport
from .context import Context
from .findings import Advance, Finding, Report
from .repair_segments import plan_lines, rewrite, save_aside, saved_name
from .repair_side_files import rebuild_epochs, rebuild_from_batches, rebuild_metadata

_INDEXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(frozen=True, slots=True)
class Step:
    """One change to `path`."""

    path: str
    what: str
    apply: Callable[[], None]

    def to_json(self, *, applied: bool) -> dict[str, Any]:
        """The step with stable keys, for a line of JSON."""
        return {"type": "step", "file": self.path, "what": self.what, "applied": applied}

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@dataclass(slots=True)
class PartitionRepair:
    """The repair of one partition: `first_round`, `check_again`, `second_round`."""

    files: FileSystem
    result: PartitionReport
    context: Context
    rewritten: set[int] = field(default_factory=set)
    """Base offsets of the segments written in the first round."""

    def first_round(self) -> list[Step]:
        """Steps to remove leftovers and to rewrite segments."""
        result, steps = self.result, []
        if result.problem is not None:
            return []
        for name in result.leftovers:
            path = f"{result.directory}/{name}"
            what = "remove what a repair left behind"
            steps.append(Step(path, what, partial(self.files.unlink, path)))
        for segment in result.segments:
            if segment.must_be_rewritten:
                is_last = segment is result.segments[-1]
                what = "; ".join(plan_lines(segment, is_last=is_last))
                steps.append(Step(segment.path(), what, partial(self._rewrite, segment, is_last)))
        return steps

    def _rewrite(self, segment: SegmentReport, is_last: bool) -> None:
        self.rewritten.update(rewrite(self.files, segment, is_last=is_last))

    def check_again(self) -> None:
        """Check the partition again, after the first round was applied.  Raises: LogDirFailed."""
        directory = self.result.directory
        self.result = PartitionCheck(self.files, directory, self.context, _ignore, _skip).run()

    def second_round(self, topic_id: bytes | None) -> list[Step]:
        """Steps for all files except the segments' batches."""
        files, result = self.files, self.result
        if result.problem is not None:
            return []
        steps = [*self._gap_steps(), *self._derived_steps()]
        if result.bad_epochs:
            path = f"{result.directory}/{LEADER_EPOCH}"
            what = f"write the {len(result.epochs)} epochs of the batches; keep the old file aside"
            steps.append(Step(path, what, partial(rebuild_epochs, files, result)))
        if result.bad_metadata:
            path = f"{result.directory}/{PARTITION_METADATA}"
            what = "write the topic id of the topic's other partitions"
            if topic_id is None:
                what = "remove it, since the topic id is not known"
            apply = partial(rebuild_metadata, files, result.directory, topic_id)
            steps.append(Step(path, f"{what}; keep the old file aside", apply))
        return steps

    def _gap_steps(self) -> list[Step]:
        steps = []
        for first, end in self.result.gaps:
            path = f"{self.result.directory}/{saved_name(first, end)}"
            what = f"note in an empty file that the offsets {first}..{end - 1} are lost"
            apply = partial(save_aside, self.files, path, b"")
            steps.append(Step(path + DAMAGED_SUFFIX, what, apply))
        return steps

    def _derived_steps(self) -> list[Step]:
        result, end = self.result, self.result.log_end_offset
        bad: dict[int, set[str]] = {}
        for segment in result.segments:
            if segment.base_offset in self.rewritten:
                bad[segment.base_offset] = set(_INDEXES)
            elif segment.bad_indexes and not segment.doubtful:
                bad[segment.base_offset] = segment.bad_indexes
        above = sorted(one for one in result.bad_snapshots if one > end)
        snapshots = {one for one in result.bad_snapshots if one <= end}
        if self.rewritten and self.context.clean:
            snapshots.add(end)
        steps = []
        for one in above:
            path = snapshot_path(result.directory, one)
            what = f"set it aside: the log ends at {end}"
            steps.append(Step(path, what, partial(_set_aside, self.files, path)))
        if bad or snapshots:
            names = [f"{base:020d}{suffix}" for base in bad for suffix in sorted(bad[base])]
            names += [f"{one:020d}.snapshot" for one in sorted(snapshots)]
            what = f"make from the batches: {', '.join(names)}"
            apply = partial(self._rebuild, bad, snapshots)
            steps.append(Step(result.directory, what, apply))
        return steps

    def _rebuild(self, bad: dict[int, set[str]], snapshots: Collection[int]) -> None:
        for one in snapshots:
            _set_aside(self.files, snapshot_path(self.result.directory, one))
        rebuild_from_batches(self.files, self.result, bad, snapshots)


def checkpoint_steps(
    files: FileSystem, directory: DirectoryReport, partitions: dict[TopicPartition, PartitionReport]
) -> list[Step]:
    """Steps for checkpoints that can't be read or have offsets past the end of a log."""
    ends = {key: one.log_end_offset for key, one in partitions.items() if one.problem is None}
    steps = []
    for name, clamped in (
        (RECOVERY_POINT, True), (HIGH_WATERMARK, True), (LOG_START, False), (CLEANER, False)
    ):  # fmt: skip
        path = f"{directory.path}/{name}"
        old = directory.offsets.get(name, {})
        new = dict(old)
        for key, end in ends.items():
            if new.get(key, 0) > end:
                if clamped:
                    new[key] = end
                else:
                    del new[key]
        if name in directory.bad_checkpoints:
            if name == RECOVERY_POINT and directory.clean:
                new = ends
            what = f"write it with {len(new)} entries; save the old file aside"
        elif new != old:
            changed = sorted(f"{t}-{p}" for t, p in old if new.get((t, p)) != old[t, p])
            what = f"bring {', '.join(changed)} back to the end of the log"
            if not clamped:
                what = f"drop {', '.join(changed)}, past the end of the log"
        else:
            continue
        steps.append(Step(path, what, partial(_replace, files, path, new)))
    return steps


def _replace(files: FileSystem, path: str, offsets: dict[TopicPartition, int]) -> None:
    old = files.read_bytes(path)
    if old:
        save_aside(files, path, old)
    files.write_atomic(path, render_offsets(offsets))


def _set_aside(files: FileSystem, path: str) -> None:
    data = files.read_bytes(path)
    if data is not None:
        save_aside(files, path, data)
        files.unlink(path)


def _ignore(finding: Finding) -> None:
    """Report nothing: the second check only decides what to do."""


def _skip(size_bytes: int) -> None:
    """Show no progress."""


def topic_ids(files: FileSystem, directory: str, names: Collection[str]) -> dict[str, bytes]:
    """The topic ids, from the partitions with a readable partition.metadata."""
    found = {}
    for name in names:
        key = partition_of(name)
        data = files.read_bytes(f"{directory}/{name}/{PARTITION_METADATA}")
        if key is None or not data:
            continue
        try:
            found[key[0]] = parse_partition_metadata(data)
        except ValueError:
            continue
    return found


class Repair:
    """The repair of a data directory, or of one partition in it."""

    def __init__(
        self, files: FileSystem, path: str, wanted: Context, report: Report, advance: Advance
    ) -> None:
        """Check everything and report the findings.  Raises: LogDirFailed."""
        self._files = files
        if is_data_directory(files, path):
            self._directory = check_directory(files, path, wanted, report, advance)
        else:
            parent, _, name = path.rpartition("/")
            self._directory = read_directory(files, parent, report)
            key = partition_of(name) or (name, 0)
            found = check_partition(files, path, wanted, report, advance)
            self._directory.partitions[key] = found
        self._wanted = wanted

    def run(self, do: Callable[[Step], None], *, apply: bool) -> None:
        """Pass every step to `do`, which applies it if `apply` is set.

        Raises: DiskFull, LogDirFailed.
        """
        directory = self._directory
        infos = self._files.list_directory(directory.path)
        names = [info.name for info in infos if info.is_directory]
        ids = topic_ids(self._files, directory.path, names)
        for key, result in directory.partitions.items():
            context = directory.context(key, self._wanted)
            repair = PartitionRepair(self._files, result, context)
            first_round = repair.first_round()
            for step in first_round:
                do(step)
            if apply and first_round:
                repair.check_again()
            for step in repair.second_round(ids.get(key[0])):
                do(step)
            directory.partitions[key] = repair.result
        for step in checkpoint_steps(self._files, directory, directory.partitions):
            do(step)
