"""`odradek log dump`: the contents of log files, as JSON lines."""

import json
import os
from itertools import islice

import click

from odradek.storage.inspect.batch_lines import DumpOptions
from odradek.storage.inspect.lines import dump_path, is_known
from odradek.storage.inspect.read_only import ReadOnlyFileSystem

from .commands import command
from .log_files import CouldNotRun, absolute, could_not_run


@command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--records", is_flag=True, help="Show the records after each batch.")
@click.option(
    "--offsets-decoder/--no-offsets-decoder",
    default=None,
    help="Decode records of groups and offsets; the default in __consumer_offsets.",
)
@click.option(
    "--from-offset", type=click.IntRange(0), help="Leave out everything before this offset."
)
@click.option("--to-offset", type=click.IntRange(0), help="Leave out everything after this offset.")
@click.option("--max", "count", type=click.IntRange(1), help="Stop after this many lines.")
def dump(
    paths: tuple[str, ...],
    records: bool,
    offsets_decoder: bool | None,
    from_offset: int | None,
    to_offset: int | None,
    count: int | None,
) -> None:
    """Show files, or all files below directories, one JSON object a line.

    Shows the fields of each batch and whether its checksum is correct, and each entry of indexes,
    snapshots, epochs and checkpoints. Unreadable parts are shown as damage, and the dump continues
    after them. Nothing is changed, and a broker may be running.
    """
    files = ReadOnlyFileSystem()
    options = DumpOptions(
        records=records,
        offset_first=from_offset,
        offset_last=to_offset,
        groups=offsets_decoder,
    )
    for path in paths:
        if not os.path.exists(path):
            raise CouldNotRun(f"{path} is not there")
        if os.path.isfile(path) and not is_known(os.path.basename(path)):
            raise CouldNotRun(f"{path} has a name that no file of a log has")
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    with could_not_run():
        lines = (line for path in paths for line in dump_path(files, absolute(path), options))
        for line in islice(lines, count):
            click.echo(encode(line))
