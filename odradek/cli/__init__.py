"""The command line: `odradek serve`, and the other commands for any Kafka broker.

Each command is a module that is imported when it is called, so that starting a broker does not
import a Kafka client.  Exit codes: 0 done, 1 failed (one sentence on stderr), 2 wrong usage, 3
timed out with fewer records than requested.
"""

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

from odradek import __version__

COMMANDS: Final = {
    "serve": "Run a broker.",
    "topics": "List, create, describe, change and delete topics.",
    "groups": "List, describe, explain, reset and delete consumer groups.",
    "configs": "Describe and change settings of topics, brokers and groups.",
    "cluster": "Show brokers, controller, and partitions in trouble.",
    "elect-leaders": "Give leadership back to preferred replicas.",
    "reassign": "Move replicas between brokers.",
    "produce": "Write records to a topic.",
    "consume": "Read records of a topic.",
    "log": "Read, check and repair the files of a data directory.",
    "pipeline": "Archive, replay, audit and compute on topics with Spark.",
    "zookeeper": "Look at the nodes in ZooKeeper or in an embedded store.",
    "export-zookeeper": "Let Apache Kafka take over a stopped broker.",
    "import-zookeeper": "Take over a stopped broker of Apache Kafka.",
    "import-directory": "Rebuild a lost store from partition directories.",
}
EPILOG: Final = "Commands with -b work against any Kafka broker, those with --data-dir on files."


class LazyGroup(click.Group):
    """A group that lists its commands by name and imports one when it is called.

    `table` has a line of help for each; `prefix` is the prefix of their modules' names.
    """

    def __init__(self, *, table: Mapping[str, str], prefix: str = "", **rest: Any) -> None:
        super().__init__(**rest)
        self.table = table
        self.prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command from the module of the same name."""
        if cmd_name not in self.table:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"odradek.cli.{self.prefix}{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but suggests the nearest names for an unknown one."""
        if args[0] not in self.table and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.table)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="odradek %(version)s")
def main() -> None:
    """Odradek, a broker that speaks Kafka's wire protocol."""
