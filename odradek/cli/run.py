"""`odradek run`: runs a command, such as a test suite in any language, beside a broker of its own.

The broker is a child in a session of its own. Ctrl-C in a terminal reaches the command, which is
in this process's group, and not the broker. If this process is killed, the broker ends, too.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

import click

from odradek.testing import Broker, BrokerFailed
from odradek.testing.marker import Refused, Topics, check_settings, read_topics

from .commands import command
from .errors import CommandError
from .options import parse_pairs

EXIT_NOT_FOUND: Final = 127
EXIT_NOT_EXECUTABLE: Final = 126
EXIT_SIGNALLED: Final = 128
"""Plus the number of the signal.  These three are what shells answer."""
PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP)


def _topics(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    try:
        return read_topics(part for text in values for part in text.split(","))
    except Refused as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _settings(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    settings = parse_pairs(ctx, param, values)
    try:
        check_settings(settings)
    except Refused as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return settings


# What follows the command's name are its own arguments, with and without `--`.
@command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--topics",
    metavar="NAME[:PARTITIONS][,…]",
    multiple=True,
    callback=_topics,
    help="Topics that the command finds; may be repeated.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many brokers the cluster has.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_settings,
    help="A setting of the brokers; may be repeated.",
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    topics: Topics,
    brokers: int,
    settings: dict[str, str],
    words: tuple[str, ...],
) -> None:
    """Run a command beside a broker of its own, and exit with its exit code.

    The command finds the broker in KAFKA_BOOTSTRAP_SERVERS and ODRADEK_BOOTSTRAP_SERVERS, and its
    admin API in ODRADEK_ADMIN_URL. The broker is on free ports, keeps its files in a temporary
    directory, and ends with the command.

    A command that a signal ends gives 128 + its number, one that is not found 127, and one that
    can't be executed 126. SIGTERM and SIGHUP are passed on to the command.
    """
    try:
        broker = Broker(brokers=brokers, settings=settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    code = 0
    try:
        with _signals(_end), broker:
            for name, partitions in topics:
                broker.topics.create(name, partitions=partitions)
            code = _run(words, _environment(broker))
    except BrokerFailed as error:
        what, _, log = str(error).partition("\n")
        if log:
            click.echo(log, err=True)
        code = _failed(what, code or CommandError.exit_code)
    ctx.exit(code)


def _environment(broker: Broker) -> Mapping[str, str]:
    return {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "ODRADEK_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "ODRADEK_ADMIN_URL": broker.admin_url,
    }


def _run(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command, and return the exit code that a shell would give it."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number not in PASSED_ON:
            return  # the terminal has sent SIGINT to the command, too
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    with _signals(pass_on):
        try:
            process = subprocess.Popen(words, env=environment)
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            code = EXIT_NOT_FOUND if is_missing else EXIT_NOT_EXECUTABLE
            return _failed(f"cannot run {words[0]}: {error.strerror}", code)
        for number in early:
            process.send_signal(number)
        code = process.wait()
    return EXIT_SIGNALLED - code if code < 0 else code


def _failed(sentence: str, code: int) -> int:
    """Say why, and return the exit code."""
    CommandError(sentence).show()
    return code


def _end(number: int, frame: FrameType | None) -> None:
    """While no command runs, a signal ends this process, and the broker with it."""
    raise SystemExit(EXIT_SIGNALLED + number)


@contextmanager
def _signals(handler: "signal._HANDLER") -> Iterator[None]:
    """Handle signals by this function, but those that are ignored (by nohup, say)."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *PASSED_ON)}
    taken = [number for number, known in before.items() if known != signal.SIG_IGN]
    try:
        for number in taken:
            signal.signal(number, handler)
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
