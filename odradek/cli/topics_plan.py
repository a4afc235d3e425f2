"""`odradek topics plan`: which brokers the replicas of a new topic would get."""

import random

import click

from odradek.broker.core.assignment import (
    BrokerRack,
    assign_replicas,
    check_counts,
    check_racks,
)
from odradek.protocol.errors import Refused

from .brokers import brokers_of
from .clients import Cluster, cluster_options
from .cluster_view import parse_numbers, view
from .commands import command
from .errors import CommandError
from .options import json_option
from .tables import NOTHING, show_json, show_table

PARTITIONS_MAX = 1_000_000


def parse_racks(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> list[BrokerRack] | None:
    """A click callback for 0=a,1=b."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (b.isascii() and b.isdigit() and rack) for b, _, rack in pairs):
        raise click.BadParameter(f"{text!r} is not like 0=a,1=b", ctx, param)
    brokers = [BrokerRack(int(broker), rack) for broker, _, rack in pairs]
    if len({broker.broker_id for broker in brokers}) < len(brokers):
        raise click.BadParameter("a broker is named twice", ctx, param)
    return brokers


@command("plan")
@click.option("-p", "--partitions", type=click.IntRange(1), required=True, help="How many.")
@click.option("-r", "--replication-factor", type=click.IntRange(1), required=True, help="Each.")
@click.option(
    "--brokers",
    "broker_ids",
    metavar="B,B,…",
    callback=parse_numbers,
    help="Plan for brokers of these ids, without a cluster.",
)
@click.option(
    "--racks",
    metavar="B=RACK,…",
    callback=parse_racks,
    help="The same, with the rack of each: 0=a,1=b,2=c.",
)
@click.option(
    "--start",
    type=click.IntRange(0),
    help="The broker of the first replica, and the distance of the others.  Default: random, as in "
    "Kafka.",
)
@json_option
@cluster_options
def plan(
    cluster: Cluster,
    partitions: int,
    replication_factor: int,
    broker_ids: list[int] | None,
    racks: list[BrokerRack] | None,
    start: int | None,
    as_json: bool,
) -> None:
    """Show which brokers the replicas of a new topic would get, by Kafka's rules; create nothing.

    The last line can be given to `topics create --assignment`.
    """
    if broker_ids is not None and racks is not None:
        raise click.UsageError("--racks already says which brokers there are")
    brokers = racks or [BrokerRack(broker_id) for broker_id in broker_ids or ()]
    if not brokers:
        with brokers_of(cluster) as connected:
            brokers = view(connected, []).racks
    try:
        check_counts(partitions, replication_factor, len(brokers), partitions_max=PARTITIONS_MAX)
        check_racks(brokers)
    except Refused as refused:
        raise CommandError(f"{refused.message} ({refused.code.name})") from None
    shift = random.randrange(len(brokers)) if start is None else start
    first = random.randrange(len(brokers)) if start is None else start
    assigned = assign_replicas(brokers, partitions, replication_factor, start=first, shift=shift)
    rack_of = {broker.broker_id: broker.rack or NOTHING for broker in brokers}
    text = ",".join(":".join(map(str, replicas)) for replicas in assigned)
    if as_json:
        show_json({"partitions": assigned, "assignment": text})
        return
    rows = [
        [p, replicas[0], ",".join(map(str, replicas)), ",".join(rack_of[b] for b in replicas)]
        for p, replicas in enumerate(assigned)
    ]
    show_table(["PARTITION", "LEADER", "REPLICAS", "RACKS"], rows)
    click.echo(f"--assignment {text}")
