"""`odradek log verify`: checks whether a data directory is sound."""

import json
from collections.abc import Callable

import click

from odradek.storage.inspect.check_directory import (
    check_directory,
    check_partition,
    is_data_directory,
    log_size_bytes,
)
from odradek.storage.inspect.context import Context
from odradek.storage.inspect.findings import Finding, Grade
from odradek.storage.inspect.read_only import ReadOnlyFileSystem

from .commands import command
from .log_files import DAMAGED, absolute, could_not_run, held_lock, lock_path, require_logs
from .progress import progress

WHILE_RUNNING = "; check it nevertheless with --while-running"


@command()
@click.argument("directory", metavar="DIR")
@click.option("--deep", is_flag=True, help="Decode every record too, not only the batches.")
@click.option(
    "--while-running",
    is_flag=True,
    help="Verify while a broker is writing, and ignore what it has not finished.",
)
@click.option(
    "--allow-gaps",
    is_flag=True,
    help="Assume that compaction removed missing offsets, as in a copy of a compacted topic.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def verify(
    directory: str, deep: bool, while_running: bool, allow_gaps: bool, as_json: bool
) -> None:
    """Check every file of a data directory, or of one partition's.

    Each finding is a line: how bad it is, file, position, what, offsets. "harmless": nothing has to
    be done; "unclean": the next start recovers it; "repairable": damage that `odradek log repair`
    removes without loss; "lost": bytes of the log that cannot be read. Nothing is changed.

    Exit codes: 0 sound, also when only unclean; 1 damaged (repairable or lost); 2 could not run.
    """
    path = absolute(directory)
    files = ReadOnlyFileSystem()
    wanted = Context(running=while_running, allow_gaps=allow_gaps, deep=deep)
    tally = Tally(finding_printer(as_json=as_json))
    with could_not_run():
        require_logs(files, path)
        lock = None if while_running else lock_path(files, path)
        total = log_size_bytes(files, path)
        with held_lock(files, lock, WHILE_RUNNING), progress("verify", total=total) as advance:
            check = check_directory if is_data_directory(files, path) else check_partition
            check(files, path, wanted, tally.note, advance)
    _print_summary(tally, path, total, as_json=as_json)
    if tally.is_damaged:
        raise SystemExit(DAMAGED)


def _print_summary(tally: "Tally", path: str, size_bytes: int, *, as_json: bool) -> None:
    state = "damaged" if tally.is_damaged else "sound"
    if as_json:
        counts = {str(grade): count for grade, count in tally.counts.items()}
        summary = {"type": "summary", "directory": path, "state": state, "log_bytes": size_bytes}
        click.echo(json.dumps({**summary, "findings": counts}))
        return
    counted = ", ".join(f"{count} {grade}" for grade, count in tally.counts.items() if count)
    click.echo(f"{path} is {state}: {counted or 'nothing found'} in {size_bytes} bytes of log")


class Tally:
    """Counts findings and passes them to `show`."""

    def __init__(self, show: Callable[[Finding], None]) -> None:
        self.counts = dict.fromkeys(Grade, 0)
        self._show = show

    def note(self, finding: Finding) -> None:
        """Count a finding and show it."""
        self.counts[finding.grade] += 1
        self._show(finding)

    @property
    def is_damaged(self) -> bool:
        """Whether any finding is damage."""
        return any(count for grade, count in self.counts.items() if grade.is_damage)


def finding_printer(*, as_json: bool) -> Callable[[Finding], None]:
    """A function that prints a finding on a line."""
    if as_json:
        return lambda finding: click.echo(json.dumps(finding.to_json(), ensure_ascii=False))
    return lambda finding: click.echo(str(finding))
