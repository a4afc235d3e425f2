"""`odradek elect-leaders`: elects preferred replicas as leaders, or uncleanly any live one."""

import click

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)

from .brokers import brokers_of, refusal
from .clients import Cluster, cluster_options, error_name
from .cluster_view import chosen_partitions, controller_of, parse_partitions, view
from .commands import command
from .errors import CommandError

PREFERRED, UNCLEAN = 0, 1
UNCLEAN_FIRST = 1
TIMEOUT_MS = 30_000


@command("elect-leaders")
@click.option(
    "--topic",
    "asked",
    metavar="TOPIC[:PARTITION]",
    multiple=True,
    callback=parse_partitions,
    help="May be repeated.  Default: all partitions.",
)
@click.option(
    "--unclean",
    "--accept-loss",
    "unclean",
    is_flag=True,
    help="For partitions without a leader: elect a replica that is not in sync, and LOSE the "
    "records that it lacks. If a replica waits because it may have lost records with its "
    "machine, elect the one with the longest log. Needs --topic.",
)
@cluster_options
def elect_leaders(cluster: Cluster, asked: list[tuple[str, int | None]], unclean: bool) -> None:
    """Let the first replica of each partition lead again, if it is alive and in sync."""
    if unclean and not asked:
        raise click.UsageError(
            "--unclean (--accept-loss) loses records: name the partitions with --topic"
        )
    with brokers_of(cluster) as brokers:
        found = view(brokers, [topic for topic, _ in asked] or None)
        request = ElectLeadersRequest(
            election_type=UNCLEAN if unclean else PREFERRED,
            topic_partitions=None,
            timeout_ms=TIMEOUT_MS,
        )
        if asked:
            partitions: dict[str, list[int]] = {}
            for p in chosen_partitions(found, asked):
                partitions.setdefault(p.topic, []).append(p.partition)
            request.topic_partitions = [
                TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in partitions.items()
            ]
        answer = brokers.ask(
            request,
            ElectLeadersResponse,
            node_id=controller_of(found),
            first=UNCLEAN_FIRST if unclean else None,
        )
    if answer.error_code:
        raise refusal("no election", answer.error_code)
    _report(answer)


def _report(answer: ElectLeadersResponse) -> None:
    elected, refused = 0, 0
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            name = f"{topic.topic}-{result.partition_id}"
            if result.error_code == ErrorCode.NONE:
                elected += 1
                click.echo(f"elected a leader of {name}", err=True)
            elif result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                refused += 1
                message = result.error_message or "refused"
                click.echo(f"{name}: {message} ({error_name(result.error_code)})", err=True)
    if refused:
        raise CommandError(f"{refused} partitions could not be given a leader")
    if not elected:
        click.echo("every leader is the right one already", err=True)
