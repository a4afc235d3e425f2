"""`odradek reassign`: moves replicas between brokers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from .brokers import Brokers, brokers_of
from .clients import Cluster, cluster_options
from .cluster_view import (
    PartitionView,
    TopicPartition,
    controller_of,
    parse_partitions,
    replica_sizes,
    size_text,
    view,
)
from .commands import group
from .errors import CommandError
from .options import json_option
from .reassign_files import plan_document, read_plan
from .reassign_planning import plan
from .reassign_requests import Moving, alter, ongoing
from .reassign_throttles import Rates, set_throttles, take_throttles_away, throttled
from .tables import NOTHING, show_json, show_table

LISTS: Final = ("replicas", "adding", "removing")
UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@group()
def reassign() -> None:
    """Move replicas between the brokers of any Kafka cluster.

    A broker that goes down keeps its replicas: nothing moves by itself.  First make a plan, look
    at it, then execute it; status tells when it is done.
    """


reassign.add_command(plan)
plan_argument = click.argument("path", metavar="PLAN.json", type=click.Path(path_type=Path))
preserve_option = click.option(
    "--preserve-throttles", is_flag=True, help="Leave throttles as they are."
)


def parse_rate(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """A click callback for bytes per second: 50000000, 50M."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if unit not in UNITS or not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise click.BadParameter(f"{text!r} is not like 50000000 or 50M", ctx, param)
    return int(number) * UNITS[unit]


@reassign.command("execute")
@plan_argument
@click.option(
    "--throttle",
    "rate",
    metavar="RATE",
    callback=parse_rate,
    help="The most bytes per second that each broker sends and receives for the plan: 50M.  "
    "Default: no change.",
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    "log_dirs_rate",
    metavar="RATE",
    callback=parse_rate,
    help="The most bytes per second that moves between log directories copy on each broker.",
)
@cluster_options
def execute(cluster: Cluster, path: Path, rate: int | None, log_dirs_rate: int | None) -> None:
    """Start to move replicas as a plan says.

    Prints the current assignment, which is the plan for the way back. Throttles stay until `status
    PLAN.json` finds that all moves are done. If a broker refuses the throttles, nothing starts.
    """
    rates = Rates(rate, log_dirs_rate)
    wanted = read_plan(path)
    with brokers_of(cluster) as brokers:
        found = view(brokers, sorted({topic for topic, _ in wanted}))
        controller = controller_of(found)
        before = {p.key: p.replicas for p in found.partitions()}
        for topic, partition in wanted:
            if (topic, partition) not in before:
                raise CommandError(f"there is no partition {partition} of {topic}")
        for topic, partition in ongoing(brokers, controller):
            if (topic, partition) in wanted:
                raise CommandError(
                    f"{topic}-{partition} is being moved already: wait for it, or cancel it"
                )
        moves = {key: (before[key], after) for key, after in wanted.items()}
        if rates.configs:
            set_throttles(brokers, throttled(moves), rates)
        show_json(plan_document({key: before[key] for key in wanted}))
        alter(brokers, controller, wanted, "began to move")


@reassign.command("status")
@click.argument("path", metavar="[PLAN.json]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--remove-throttles",
    is_flag=True,
    help="If nothing is being moved any more, remove the throttles of all topics and brokers.",
)
@preserve_option
@json_option
@cluster_options
def status(
    cluster: Cluster,
    path: Path | None,
    remove_throttles: bool,
    preserve_throttles: bool,
    as_json: bool,
) -> None:
    """Show what is being moved; with a plan, also its progress.

    With a plan, and once nothing is being moved any more, the throttles of its topics and of all
    brokers are removed.
    """
    if remove_throttles and preserve_throttles:
        raise click.UsageError("either --remove-throttles or --preserve-throttles")
    wanted = {} if path is None else read_plan(path)
    with brokers_of(cluster) as brokers:
        found = view(brokers)
        moving = ongoing(brokers, controller_of(found))
        partitions = {p.key: p for p in found.partitions()}
        live = [broker.node_id for broker in found.brokers]
        sizes = replica_sizes(brokers, live) if moving else {}
        documents = [
            _status(key, partitions.get(key), moving.get(key), wanted.get(key), sizes)
            for key in sorted({*moving, *wanted})
        ]
        if as_json:
            show_json(documents)
        else:
            _show_status(documents)
        if remove_throttles and moving:
            raise CommandError("the throttles stay: replicas are still being moved")
        topics = {topic.name or "" for topic in found.topics}
        if not remove_throttles:
            topics &= {topic for topic, _ in wanted}
        if remove_throttles or (wanted and not moving and not preserve_throttles):
            _remove_throttles(brokers, topics, live)


def _remove_throttles(brokers: Brokers, topics: Iterable[str], live: Sequence[int]) -> None:
    """Remove the throttles of topics and brokers, and report each.  Raises: CommandError."""
    for what in take_throttles_away(brokers, sorted(topics), live):
        click.echo(f"removed the throttle of {what}", err=True)


def _status(
    key: TopicPartition,
    found: PartitionView | None,
    moving: Moving | None,
    wanted: tuple[int, ...] | None,
    sizes: Mapping[int, Mapping[TopicPartition, int]],
) -> dict[str, Any]:
    state, copied, size = "moving", 0, 0
    if moving is None:
        is_done = found is not None and found.replicas == wanted
        state = "done" if is_done else "no such partition" if found is None else "not moved"
    elif found is not None:
        size = sizes.get(found.leader, {}).get(key, 0) * len(moving.adding)
        copied = sum(sizes.get(broker, {}).get(key, 0) for broker in moving.adding)
    return {
        "topic": key[0],
        "partition": key[1],
        "state": state,
        "replicas": list(found.replicas if found is not None else ()),
        "adding": list(moving.adding if moving is not None else ()),
        "removing": list(moving.removing if moving is not None else ()),
        "copied_bytes": copied,
        "to_copy_bytes": size,
    }


def _show_status(documents: list[dict[str, Any]]) -> None:
    if not documents:
        click.echo("nothing is being moved")
        return
    rows = []
    for d in documents:
        lists = [",".join(map(str, d[name])) or NOTHING for name in LISTS]
        copied, size = d["copied_bytes"], d["to_copy_bytes"]
        progress = f"{size_text(copied)} of {size_text(size)}" if d["adding"] else NOTHING
        rows.append([d["topic"], d["partition"], d["state"], *lists, progress])
    show_table(["TOPIC", "PARTITION", "STATE", "REPLICAS", "ADDING", "REMOVING", "COPIED"], rows)


@reassign.command("cancel")
@click.option(
    "--topic",
    "asked",
    metavar="TOPIC[:PARTITION]",
    multiple=True,
    callback=parse_partitions,
    help="A topic or partition to leave where it was; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Everything that is being moved.")
@preserve_option
@cluster_options
def cancel(
    cluster: Cluster,
    asked: list[tuple[str, int | None]],
    everything: bool,
    preserve_throttles: bool,
) -> None:
    """Cancel reassignments: partitions get back the replicas that they had.

    If nothing else is being moved, the throttles are removed, too.
    """
    if bool(asked) == everything:
        raise click.UsageError("give --topic, or --all")
    with brokers_of(cluster) as brokers:
        found = view(brokers, [])
        controller = controller_of(found)
        moving = ongoing(brokers, controller)
        chosen = [k for k in moving if everything or k in asked or (k[0], None) in asked]
        if not chosen:
            click.echo("nothing is being moved", err=True)
            return
        alter(brokers, controller, dict.fromkeys(chosen), "cancelled")
        if len(chosen) == len(moving) and not preserve_throttles:
            live = [broker.node_id for broker in found.brokers]
            _remove_throttles(brokers, {topic for topic, _ in chosen}, live)
