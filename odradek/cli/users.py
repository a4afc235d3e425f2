"""`odradek users`: those who log in by SCRAM."""

import re
from collections.abc import Callable, Sequence
from typing import Final

import click

from odradek.broker.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS
from odradek.secure.secret import Secret

from .commands import group
from .doors import Door, door_options
from .errors import CommandError
from .options import json_option
from .passwords import new_password, password_file_option
from .tables import show_json, show_table
from .user_credentials import users_behind

DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
_KAFKAS: Final = re.compile(
    r"(?P<mechanism>SCRAM-SHA-[0-9]+)=\[(?:iterations=(?P<iterations>[0-9]{1,9}),)?"
    r"password=(?P<password>[^\]]+)\]"
)


@group("users")
def users() -> None:
    """List, add and delete users who log in by SCRAM.

    Without --data-dir and --zookeeper, in a running cluster.
    """


def _mechanism_option(text: str) -> Callable[..., Callable[..., None]]:
    return click.option(
        "--mechanism",
        "mechanisms",
        type=click.Choice(list(MECHANISMS)),
        multiple=True,
        help=text,
    )


@users.command("list")
@click.argument("names", metavar="[USER…]", nargs=-1)
@json_option
@door_options
def list_users(door: Door, names: tuple[str, ...], as_json: bool) -> None:
    """List the users, or some of them, and how they log in.

    Quotas make no user: who has only quotas is not listed.
    """
    with users_behind(door, writes=False) as found:
        described = found.described(names)
    if missing := [name for name in names if name not in described]:
        raise CommandError(f"there is no user {missing[0]!r}")
    rows = [
        (user, mechanism, iterations)
        for user, known in sorted(described.items())
        for mechanism, iterations in known.items()
    ]
    columns = ("user", "mechanism", "iterations")
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show_table([column.upper() for column in columns], rows)


@users.command()
@click.argument("name", metavar="USER")
@_mechanism_option(
    f"The mechanism by which the user logs in; may be repeated. Default: {DEFAULT_MECHANISM}."
)
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="The number of times that the password is hashed.",
)
@password_file_option
@click.option(
    "--add-config",
    metavar="MECHANISM=[iterations=N,password=P]",
    help="The mechanism and the password, in the form of kafka-configs. Other users of this "
    "machine can see this password, so prefer the options above.",
)
@door_options
def add(
    door: Door,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
    add_config: str | None,
) -> None:
    """Add a user, or give one a new password.

    The password is asked for, or is in a file. Credentials of other mechanisms stay as they are.
    """
    if not name:
        raise click.UsageError("a user needs a name")
    if add_config is not None:
        if mechanisms or password_file is not None:
            raise click.UsageError("--add-config says mechanism and password already")
        new = [_as_kafka_writes_it(add_config)]
    else:
        password = new_password(password_file, name)
        chosen = dict.fromkeys(mechanisms or (DEFAULT_MECHANISM,))
        new = [Secret.new(one, password, iterations) for one in chosen]
    with users_behind(door, writes=True) as found:
        found.set(name, new)
    click.echo(f"user {name}: set {_named([one.mechanism for one in new])}", err=True)


@users.command()
@click.argument("names", metavar="USER…", nargs=-1, required=True)
@_mechanism_option("Only these credentials; may be repeated.")
@click.option("--if-exists", is_flag=True, help="Accept users that do not exist.")
@door_options
def delete(
    door: Door, names: tuple[str, ...], mechanisms: tuple[str, ...], if_exists: bool
) -> None:
    """Delete users: they can no longer log in.

    Their quotas and ACLs stay, and so do connections that are open.
    """
    missing = []
    with users_behind(door, writes=True) as found:
        described = found.described(names)
        for name in dict.fromkeys(names):
            present = described.get(name, {})
            chosen = [one for one in present if not mechanisms or one in mechanisms]
            if chosen:
                found.delete(name, chosen)
                click.echo(f"user {name}: deleted {_named(chosen)}", err=True)
            else:
                missing.append(name)
    if missing and not if_exists:
        what = f" with {_named(mechanisms)}" if mechanisms else ""
        raise CommandError(f"there is no user {missing[0]!r}{what}")


def _as_kafka_writes_it(text: str) -> Secret:
    found = _KAFKAS.fullmatch(text.strip())
    if found is None or found["mechanism"] not in MECHANISMS:
        raise click.UsageError(  # the text is not shown: it has the password
            f"--add-config is not like {DEFAULT_MECHANISM}=[iterations={ITERATIONS_MIN},password=…]"
        )
    iterations = int(found["iterations"] or ITERATIONS_MIN)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise click.UsageError(f"iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return Secret.new(found["mechanism"], found["password"], iterations)


def _named(mechanisms: Sequence[str]) -> str:
    return " and ".join(mechanisms)
