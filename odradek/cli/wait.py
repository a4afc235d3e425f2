"""`odradek wait`: returns when something is there; for scripts."""

import sys
import time
from collections.abc import Callable
from typing import Final

import click

from odradek.protocol.errors import ErrorCode

from .brokers import Brokers, brokers_of
from .clients import Cluster, cluster_options, error_name
from .cluster_view import NO_LEADER
from .commands import group
from .completion import complete_groups, complete_topics
from .errors import CommandError
from .group_descriptions import DEAD, committed_offsets, describe_group
from .log_offsets import log_offsets, topic_leaders
from .positions import LATEST
from .reach import parse_bootstrap_servers

EXIT_TIMED_OUT: Final = 3
RETRY_S: Final = 0.2

# What is still missing, as the rest of a sentence; None: nothing.
Check = Callable[[Brokers], str | None]

timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait; then exit code 3.",
)


@group()
def wait() -> None:
    """Wait until a broker, a topic or a group is ready, or a group has no lag.

    While no broker answers, the command keeps trying.  Exit codes: 0 ready, 3 timed out; stderr
    then says what is missing.
    """


@wait.command("broker")
@click.option(
    "--count", type=click.IntRange(1), default=1, show_default=True, help="The number of brokers."
)
@timeout_option
@cluster_options
def wait_for_broker(cluster: Cluster, count: int, timeout_s: float) -> None:
    """Wait for a broker that answers, or for several in the cluster."""

    def check(brokers: Brokers) -> str | None:
        there = len(brokers.nodes())
        return None if there >= count else f"the cluster has {there} of {count} brokers"

    _wait(cluster, timeout_s, check)


@wait.command("topic")
@click.argument("names", metavar="TOPIC…", nargs=-1, required=True, shell_complete=complete_topics)
@timeout_option
@cluster_options
def wait_for_topic(cluster: Cluster, names: tuple[str, ...], timeout_s: float) -> None:
    """Wait for topics with a leader for each partition."""

    def check(brokers: Brokers) -> str | None:
        found = topic_leaders(brokers, names)
        for name in names:
            if found[name].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return f"there is no topic {name!r}"
            if found[name].code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                return f"{name}: {error_name(found[name].code)}"
            leaders = found[name].leaders
            if found[name].code or not leaders or NO_LEADER in leaders.values():
                return f"{name} has partitions without a leader"
        return None

    _wait(cluster, timeout_s, check)


@wait.command("group")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--members",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The minimum number of members.",
)
@timeout_option
@cluster_options
def wait_for_group(cluster: Cluster, name: str, members: int, timeout_s: float) -> None:
    """Wait for a group that is Stable, with its members."""

    def check(brokers: Brokers) -> str | None:
        found = describe_group(brokers, name)
        there = len(found.members)
        if found.state == "Stable" and there >= members:
            return None
        if found.state == DEAD:
            return f"there is no group {name!r}"
        return f"{name} is {found.state}, with {there} of {members} members"

    _wait(cluster, timeout_s, check)


@wait.command("lag")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--max",
    "lag_max",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="The highest total lag of all partitions that counts as done.",
)
@timeout_option
@cluster_options
def wait_for_lag(cluster: Cluster, name: str, lag_max: int, timeout_s: float) -> None:
    """Wait until a group has no lag in the partitions for which it has committed offsets."""

    def check(brokers: Brokers) -> str | None:
        committed = committed_offsets(brokers, name)
        if not committed:
            return f"{name} has no committed offsets"
        leaders = topic_leaders(brokers, {p.topic for p in committed})
        ends = log_offsets(brokers, leaders, committed, LATEST)
        if unknown := [p for p in committed if ends[p].offset is None]:
            return f"the end of {unknown[0]} is not known"
        lag = sum(max(0, (ends[p].offset or 0) - offset) for p, offset in committed.items())
        return None if lag <= lag_max else f"{name} lags by {lag}"

    _wait(cluster, timeout_s, check)


def _wait(cluster: Cluster, timeout_s: float, check: Check) -> None:
    """Return when nothing is missing; exit with code 3 when the time is up."""
    parse_bootstrap_servers(cluster.bootstrap_servers)  # waiting does not mend a wrong option
    cluster.admin_options()
    deadline = time.monotonic() + timeout_s
    missing: str | None = None
    while True:
        try:
            with brokers_of(cluster) as brokers:
                missing = _watch(brokers, check, deadline)
        except CommandError as error:
            missing = error.format_message()
        if missing is None:
            return
        if time.monotonic() >= deadline:
            click.echo(f"not in {timeout_s:g} s: {missing}", err=True)
            sys.exit(EXIT_TIMED_OUT)
        time.sleep(RETRY_S)


def _watch(brokers: Brokers, check: Check, deadline: float) -> str | None:
    """Check until nothing is missing or the time is up.  Raises: CommandError."""
    while (missing := check(brokers)) is not None and time.monotonic() < deadline:
        time.sleep(RETRY_S)
    return missing
