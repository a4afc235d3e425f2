"""`odradek log repair`: removes damage from a data directory."""

import json

import click

from odradek.storage.files import RealFileSystem
from odradek.storage.inspect.check_directory import log_size_bytes
from odradek.storage.inspect.context import Context
from odradek.storage.inspect.read_only import ReadOnlyFileSystem
from odradek.storage.inspect.repair import Repair, Step

from .commands import command
from .log_files import DAMAGED, absolute, could_not_run, held_lock, lock_path, require_logs
from .log_verify import Tally
from .progress import progress


@command()
@click.argument("directory", metavar="DIR")
@click.option(
    "--apply",
    is_flag=True,
    help="Repair the directory; without this option the command only says what it would do.",
)
@click.option(
    "--allow-gaps",
    is_flag=True,
    help="Assume that compaction removed missing offsets, as in a copy of a compacted topic.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def repair(directory: str, apply: bool, allow_gaps: bool, as_json: bool) -> None:
    """Repair what `odradek log verify` finds in a data directory, or in one partition's.

    Every valid batch is kept, with its offsets. Other bytes are saved beside the log in a file that
    ends with .damaged before they are cut out. Indexes, snapshots, epochs and checkpoints are
    rebuilt from the batches. Problems that the next start repairs are left alone.

    Exit codes: 0 nothing is damaged (any more), 1 damage remains, 2 could not run.
    """
    path = absolute(directory)
    files = RealFileSystem() if apply else ReadOnlyFileSystem()
    tally = Tally(lambda finding: None)
    count = 0

    def do(step: Step) -> None:
        nonlocal count
        count += 1
        if apply:
            step.apply()
        if as_json:
            click.echo(json.dumps(step.to_json(applied=apply), ensure_ascii=False))
        else:
            click.echo(f"{'done' if apply else 'would'}: {step}")

    with could_not_run():
        require_logs(files, path)
        with held_lock(files, lock_path(files, path), "; stop it before"):
            wanted = Context(allow_gaps=allow_gaps)
            with progress("verify", total=log_size_bytes(files, path)) as advance:
                repair = Repair(files, path, wanted, tally.note, advance)
            repair.run(do, apply=apply)
            left = Tally(lambda finding: click.echo(str(finding), err=True))
            if apply and tally.is_damaged:
                with progress("verify again", total=log_size_bytes(files, path)) as advance:
                    Repair(files, path, wanted, left.note, advance)
    damaged = left.is_damaged if apply else tally.is_damaged
    if as_json:
        state = "damaged" if damaged else "sound"
        summary = {"type": "summary", "directory": path, "state": state, "steps": count}
        click.echo(json.dumps({**summary, "applied": apply}))
    else:
        _print_end(count, apply=apply, damaged=damaged)
    if damaged:
        raise SystemExit(DAMAGED)


def _print_end(count: int, *, apply: bool, damaged: bool) -> None:
    if not count:
        text = "damage was found that cannot be repaired" if damaged else "nothing to repair"
    elif not apply:
        text = f"{count} steps; nothing was changed, do it with --apply"
    else:
        text = f"{count} steps done; " + ("some damage is left" if damaged else "no damage is left")
    click.echo(text)
