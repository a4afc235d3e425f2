"""`odradek reassign plan`: which replicas to move, and how much data that copies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from odradek.broker.core.reassign_plan import Plan, PlanImpossible, copies, drain, replace, spread

from .brokers import Brokers, brokers_of
from .clients import Cluster, cluster_options
from .cluster_view import (
    NO_LEADER,
    ClusterView,
    PartitionView,
    TopicPartition,
    controller_of,
    parse_numbers,
    replica_sizes,
    size_text,
    view,
)
from .commands import command
from .errors import CommandError
from .options import json_option
from .reassign_files import plan_document
from .reassign_requests import ongoing
from .tables import NOTHING, count_of, show_json, show_table

Partitions = Mapping[TopicPartition, PartitionView]


def parse_replaced(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> dict[int, int]:
    """A click callback for a repeated OLD=NEW."""
    replaced: dict[int, int] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not all(part.isascii() and part.isdigit() for part in (old, new)):
            raise click.BadParameter(f"{text!r} is not OLD=NEW", ctx, param)
        if int(old) in replaced:
            raise click.BadParameter(f"broker {old} is replaced twice", ctx, param)
        replaced[int(old)] = int(new)
    return replaced


@command("plan")
@click.option(
    "--drain",
    "leaving",
    metavar="B[,B…]",
    callback=parse_numbers,
    help="Move everything away from these brokers; they may be down.",
)
@click.option(
    "--replace",
    "replaced",
    metavar="OLD=NEW",
    multiple=True,
    callback=parse_replaced,
    help="Let a new broker take over from an old one, which may be down; may be repeated.",
)
@click.option("--topics", metavar="T[,T…]", help="Spread these topics over --brokers.")
@click.option(
    "--brokers",
    "targets",
    metavar="B,B,…",
    callback=parse_numbers,
    help="The brokers for --topics.  Default: all brokers.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the plan here, for `reassign execute`.",
)
@json_option
@cluster_options
def plan(
    cluster: Cluster,
    leaving: list[int] | None,
    replaced: dict[int, int],
    topics: str | None,
    targets: list[int] | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Plan which replicas to move, as few as possible, and show the bytes to copy.

    Replicas of a partition stay in different racks if there are enough brokers. Nothing is changed.
    --json prints the plan in the format of Kafka's tool.
    """
    if sum((leaving is not None, bool(replaced), topics is not None)) != 1:
        raise click.UsageError("give one of --drain, --replace and --topics")
    if targets is not None and topics is None:
        raise click.UsageError("--brokers goes with --topics")
    with brokers_of(cluster) as brokers:
        found = view(brokers, None if topics is None else topics.split(","))
        partitions = {p.key: p for p in found.partitions()}
        going = {*(leaving or ()), *replaced}
        for topic, partition in ongoing(brokers, controller_of(found)):
            moving = partitions.get((topic, partition))
            if moving is not None and (topics is not None or going & set(moving.replicas)):
                raise CommandError(f"{topic}-{partition} is being moved: wait for it, or cancel it")
        made = _make(found, partitions, leaving, replaced, targets)
        document = plan_document(made.replicas)
        if output is not None:
            _write(output, document)
        if as_json:
            show_json(document)
        else:
            _show(brokers, found, partitions, made)


def _make(
    found: ClusterView,
    partitions: Partitions,
    leaving: list[int] | None,
    replaced: Mapping[int, int],
    targets: list[int] | None,
) -> Plan:
    before = {key: p.replicas for key, p in partitions.items()}
    racks = found.racks
    try:
        if leaving is not None:
            return drain(before, racks, leaving)
        if replaced:
            return replace(before, racks, replaced)
        return spread(before, racks, targets or [broker.broker_id for broker in racks])
    except PlanImpossible as error:
        raise CommandError(str(error)) from None


def _write(path: Path, document: Mapping[str, Any]) -> None:
    import json

    try:
        path.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _show(brokers: Brokers, found: ClusterView, partitions: Partitions, made: Plan) -> None:
    if not made.replicas:
        click.echo("nothing has to be moved")
        return
    before = {key: partitions[key].replicas for key in made.replicas}
    rows = []
    for key, replicas in made.replicas.items():
        notices = ["fewer racks"] * (key in made.fewer_racks)
        notices += ["no leader to copy from"] * (partitions[key].leader == NO_LEADER)
        rows.append(
            [
                *key,
                ",".join(map(str, before[key])),
                ",".join(map(str, replicas)),
                ", ".join(notices),
            ]
        )
    show_table(["TOPIC", "PARTITION", "REPLICAS", "NEW", "NOTICE"], rows)
    live = {broker.node_id for broker in found.brokers}
    leaders = {key: partitions[key].leader for key in made.replicas}
    sizes = replica_sizes(brokers, sorted(live & set(leaders.values())))
    size_bytes = {key: sizes.get(leaders[key], {}).get(key, 0) for key in made.replicas}
    links = copies(made, before, leaders, size_bytes)
    click.echo()
    show_table(
        ["FROM", "TO", "REPLICAS", "BYTES", "SIZE"],
        [
            [
                link.source if link.source >= 0 else NOTHING,
                link.target,
                copied.replica_count,
                copied.size_bytes,
                size_text(copied.size_bytes),
            ]
            for link, copied in links.items()
        ],
    )
    total = sum(copied.size_bytes for copied in links.values())
    count = sum(copied.replica_count for copied in links.values())
    click.echo(f"{count_of(count, 'replica')} to copy, {size_text(total)}")
