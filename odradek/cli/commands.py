"""What all commands have: examples in their help, and options that are given once."""

from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from odradek.collecting import collecting_later
from odradek.early_signals import raise_at_interrupts
from odradek.spelling import nearest

from .examples import EXAMPLES


class Command(click.Command):
    """A command whose help ends with examples, and that refuses an option given twice.

    Ctrl-C raises KeyboardInterrupt in it, unless it takes care of signals from the first moment on.
    """

    def __init__(self, *rest: Any, takes_signals: bool = False, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._takes_signals = takes_signals

    def invoke(self, ctx: click.Context) -> Any:
        """As click's."""
        if not self._takes_signals:
            raise_at_interrupts()
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's, which lets the last of several values win silently."""
        if ctx.resilient_parsing:  # for completion: the user is still typing
            return super().parse_args(ctx, args)
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for parameter, count in Counter(given).items():
            if count > 1 and isinstance(parameter, click.Option) and _takes_one(parameter):
                raise click.UsageError(f"{parameter.opts[-1]} is given more than once", ctx)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        super().format_epilog(ctx, formatter)
        write_examples(ctx, formatter)


class Group(click.Group):
    """A group of such commands, which suggests the nearest name for an unknown one."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with a suggestion."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            close = nearest(args[0], names)
            hint = f" Did you mean {close}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
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
        with collecting_later():
            command = getattr(import_module(f"odradek.cli.{self.prefix}{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands with their help, without importing any."""
        return [
            CompletionItem(name, help=text)
            for name, text in self.table.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)


class Program(LazyGroup):
    """The group of all commands.  Ctrl-C ends those that take no care of it with exit code 130."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click's, which ends them with exit code 1, as if they had failed."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from .signals import EXIT_INTERRUPTED  # serve starts without it

            click.echo(err=True)  # behind the ^C of the terminal
            ctx.exit(EXIT_INTERRUPTED)


def command(name: str | None = None, **rest: Any) -> Callable[[Callable[..., Any]], Command]:
    """As click.command, for commands outside a group."""
    return click.command(name, cls=Command, **rest)


def group(name: str | None = None, **rest: Any) -> Callable[[Callable[..., Any]], Group]:
    """As click.group."""
    return click.group(name, cls=Group, **rest)


def write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the examples of a command as they are typed."""
    path = _path(ctx)
    if examples := EXAMPLES.get(path):
        with formatter.section("Examples" if len(examples) > 1 else "Example"):
            for example in examples:
                formatter.write(
                    f"{'':>{formatter.current_indent}}odradek {path} {example}".rstrip()
                )
                formatter.write("\n")


def _path(ctx: click.Context) -> str:
    """The names of a command and its groups, without that of the program."""
    if ctx.parent is None:
        return ""
    return f"{_path(ctx.parent)} {ctx.info_name}".lstrip()


def _takes_one(option: click.Option) -> bool:
    return not option.multiple and not option.is_flag and not option.count
