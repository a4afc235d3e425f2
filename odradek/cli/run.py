"""`odradek run`: runs a command, such as a test suite in any language, beside a broker of its own.

The broker is a child in a session of its own. Ctrl-C in a terminal reaches the command, which is
in this process's group, and not the broker. If this process is killed, the broker ends, too.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

import click

from odradek.early_signals import EXIT_SIGNALLED
from odradek.testing import Broker, BrokerFailed
from odradek.testing.acls import parse_acls, users_of
from odradek.testing.marker import Refused, Topics, check_settings, read_topics
from odradek.testing.scratch import Scratch
from odradek.testing.security import MECHANISMS

from .commands import command
from .errors import CommandError
from .options import parse_pairs
from .run_command import failed, run_command, taken
from .run_environment import environment_of, write_files


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
@command(takes_signals=True, context_settings={"allow_interspersed_args": False})
@click.option(
    "--topics",
    metavar="NAME[:PARTITIONS][,…]",
    multiple=True,
    callback=_topics,
    help="Topics to create before the command starts; may be repeated.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The number of brokers.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_settings,
    help="A setting of the brokers; may be repeated.",
)
@click.option("--tls", is_flag=True, help="Require clients to use TLS.")
@click.option(
    "--sasl",
    metavar="MECHANISM",
    type=click.Choice(MECHANISMS),
    help=f"Require clients to log in by this mechanism: {', '.join(MECHANISMS)}.",
)
@click.option(
    "--acl",
    "acls",
    metavar="ACL",
    multiple=True,
    help="An ACL, such as 'User:alice read,write topic:orders'; may be repeated. Needs --sasl.",
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    topics: Topics,
    brokers: int,
    settings: dict[str, str],
    tls: bool,
    sasl: str | None,
    acls: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    """Run a command beside a broker of its own, and exit with its exit code.

    The command finds the broker in KAFKA_BOOTSTRAP_SERVERS and ODRADEK_BOOTSTRAP_SERVERS, its
    admin API in ODRADEK_ADMIN_URL, and files for clients in the directory ODRADEK_CLIENT_FILES, as
    those of `odradek serve --secure`: java.properties, librdkafka.conf and others. The broker is on
    free ports, keeps its files in a temporary directory, and ends with the command.

    With --tls and --sasl, KAFKA_SECURITY_PROTOCOL, KAFKA_SSL_CA_LOCATION, KAFKA_SASL_MECHANISM,
    KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD say how to connect, as the user admin, who may do
    everything. With --acl, the users that ACLs name have files in users/NAME.

    A command that a signal ends gives 128 + its number, one that is not found 127, and one that
    can't be executed 126. SIGINT, SIGTERM and SIGHUP are passed on to the command. If it goes on
    for 30 s after SIGTERM, it is killed.
    """
    try:
        broker = Broker(
            brokers=brokers, settings=settings, tls=tls, sasl=sasl, acls=list(acls) or None
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    code = 0
    try:
        with _signals_end_this() as end_if_one_came, broker, closing(Scratch()) as scratch:
            for name, partitions in topics:
                broker.topics.create(name, partitions=partitions)
            write_files(broker, users_of(parse_acls(acls)), scratch.path)
            environment = environment_of(broker, scratch.path)
            end_if_one_came()
            code = run_command(words, environment)
    except BrokerFailed as error:
        what, _, log = str(error).partition("\n")
        if log:
            click.echo(log, err=True)
        code = failed(what, code or CommandError.exit_code)
    ctx.exit(code)


@contextmanager
def _signals_end_this() -> Iterator[Callable[[], None]]:
    """While no command runs, a signal ends this process, and the broker with it.

    Yields a function that ends it if one came before: Python drops what a handler raises in a
    finalizer, or in the callback that frees an import's lock.
    """
    came: list[int] = []
    show_dropped = sys.unraisablehook

    def end_if_one_came() -> None:
        if came:
            raise SystemExit(EXIT_SIGNALLED + came[0])

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        end_if_one_came()

    sys.unraisablehook = lambda dropped: None if came else show_dropped(dropped)
    before = {number: signal.signal(number, end) for number in taken()}
    try:
        yield end_if_one_came
    finally:
        sys.unraisablehook = show_dropped
        for number, handler in before.items():
            signal.signal(number, handler)
