"""Completion in the shell: `odradek completion`, and names of what a cluster has."""

from collections.abc import Callable
from typing import Any, Final

import click

from .brokers import Brokers
from .clients import CONNECT_TIMEOUT, Client, chosen_cluster
from .commands import command
from .errors import CommandError
from .transaction_requests import list_transactions

PATIENCE_MS: Final = "1000"
PROGRAM: Final = "odradek"


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and names in a shell.

    Topics, groups and transactional ids are those of the cluster that the command line, the context
    or the environment names.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of topics for click's `shell_complete`; Kafka's own only if they are begun."""
    names = _ask(ctx, lambda admin: [str(topic["name"]) for topic in admin.describe_topics()])
    shown = [n for n in names if not n.startswith("__") or incomplete.startswith("__")]
    return [name for name in shown if name.startswith(incomplete)]


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Ids of groups for click's `shell_complete`."""
    ids = _ask(ctx, lambda admin: [str(group["group_id"]) for group in admin.list_groups()])
    return [group_id for group_id in ids if group_id.startswith(incomplete)]


def complete_transactional_ids(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str]:
    """Transactional ids for click's `shell_complete`."""
    ids = _ask(ctx, lambda admin: [t.transactional_id for t in list_transactions(Brokers(admin))])
    return [name for name in ids if name.startswith(incomplete)]


def _ask(ctx: click.Context, question: Callable[[Client], list[str]]) -> list[str]:
    """The sorted answer of a broker; nothing if none answers soon, since the user is typing."""
    given: dict[str, Any] = ctx.params
    try:
        cluster = chosen_cluster(
            given.get("bootstrap_servers"),
            given.get("context"),
            given.get("command_config"),
            {CONNECT_TIMEOUT: PATIENCE_MS, **(given.get("properties") or {})},
        )
        with cluster.admin() as admin:
            return sorted(question(admin))
    except CommandError:
        return []
