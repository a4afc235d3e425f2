"""`odradek replay`: sends the requests of a journal to brokers, and compares the answers."""

import asyncio
from pathlib import Path

import click

from odradek.protocol.errors import MalformedMessage

from .clients import Cluster, cluster_options
from .commands import command
from .errors import CommandError
from .options import Seconds
from .reach import parse_bootstrap_servers
from .replay_file import read_journal


@command()
@click.argument("file", type=click.Path(path_type=Path))
@cluster_options
@click.option(
    "--pace",
    type=click.Choice(["fast", "recorded"]),
    default="fast",
    show_default=True,
    help="As fast as the answers come, or at the recorded times.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(0.001),
    default=60.0,
    show_default=True,
    help="How many seconds an answer may take.",
)
def replay(cluster: Cluster, file: Path, pace: str, timeout_s: float) -> None:
    """Send the requests of a journal to a broker, and say which answers have other errors.

    FILE is what `journal.save(FILE)` of a test writes, or what the admin API answers to
    GET /admin/v1/journal?recordings=true. The brokers that are recorded must have
    odradek.journal.frames.bytes.

    Each request goes to the broker with the recorded id, or to the first one that -b names if there
    is none. Ids of producers, members, generations, fetch sessions and topics are replaced by those
    of this cluster. Logins and other requests that may hold a password are not recorded; a request
    whose connection was closed first is sent, and not compared. Exit code 1: an answer is
    different.
    """
    from .replay_login import Dialer  # both need the messages
    from .replay_sending import Replay, left_out_sentence

    journal = read_journal(file)
    servers = cluster.bootstrap_servers
    sender = Replay(
        parse_bootstrap_servers(servers),
        open_link=Dialer(cluster).open,
        timeout_s=timeout_s,
        as_recorded=pace == "recorded",
        say=click.echo,
    )
    cluster.check_reachable()
    try:
        outcome = asyncio.run(sender.run(journal.requests))
    except (OSError, TimeoutError) as error:
        raise CommandError(f"cannot replay to {servers}: {error or 'no answer'}") from error
    except MalformedMessage as error:
        raise CommandError(f"{file} has a request that cannot be read: {error}") from error
    click.echo(f"sent {outcome.sent} requests")
    left_out = dict(outcome.left_out)
    if journal.without_bytes:
        left_out["logins and requests without recording"] = journal.without_bytes
    if left_out:
        click.echo(f"left out: {left_out_sentence(left_out.items())}")
    if outcome.different:
        raise CommandError(f"{outcome.different} of {outcome.sent} answers are different")
