"""`odradek groups reset-offsets`: moves the committed offsets of a group."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

from .brokers import Brokers, brokers_of, refusal
from .clients import Cluster, cluster_options, error_name
from .commands import command
from .completion import complete_groups
from .durations import parse_duration
from .errors import CommandError
from .group_descriptions import DEAD, EMPTY, committed_offsets, describe_group
from .group_offsets import (
    Known,
    Move,
    Partition,
    Target,
    by_topic,
    parse_topic,
    plan,
)
from .log_offsets import log_offsets, topic_leaders
from .options import json_option
from .positions import EARLIEST, LATEST, parse_time_ms
from .tables import show_json, show_rows

TIME_FIRST_MS: Final = 0  # negative timestamps mean other things to ListOffsets
TIME_LAST_MS: Final = (1 << 63) - 1

Topics = Sequence[tuple[str, list[int] | None]]


def parse_topics(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Topics:
    """A click callback for repeated TOPIC[:P,P…]."""
    try:
        return [parse_topic(text) for text in values]
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def parse_since(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """A click callback for a time; the result is in milliseconds."""
    now = datetime.now(UTC)
    try:
        if text is None:
            return None
        if param.name == "by_duration":
            since_ms = round((now - parse_duration(text)).timestamp() * 1000)
        else:
            since_ms = parse_time_ms(text, now=now)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long ago", ctx, param) from None
    return min(max(since_ms, TIME_FIRST_MS), TIME_LAST_MS)


@command("reset-offsets")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:P,P…]",
    multiple=True,
    callback=parse_topics,
    help="A topic, or some of its partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All partitions that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the start of each log.")
@click.option("--to-latest", is_flag=True, help="To the end of each log.")
@click.option(
    "--to-current",
    is_flag=True,
    help="To the committed offset, moved into the log's range; to the end where nothing is "
    "committed.",
)
@click.option(
    "--to-datetime",
    metavar="TIME",
    callback=parse_since,
    help="To the first record from that time on: an ISO time (UTC if it names no zone), or ms.",
)
@click.option(
    "--by-duration",
    metavar="DURATION",
    callback=parse_since,
    help="To the first record of this last period: 15m, 3h, 2d, or ISO as in P2DT12H.",
)
@click.option("--to-offset", type=click.IntRange(0), help="To this offset.")
@click.option(
    "--shift-by",
    type=int,
    help="By this many records: forward, or back if negative.",
)
@click.option(
    "--execute/--dry-run",
    "execute",
    default=False,
    help="Do it, or only show the plan (the default).",
)
@json_option
@cluster_options
def reset_offsets(
    cluster: Cluster,
    name: str,
    topics: Topics,
    all_topics: bool,
    execute: bool,
    as_json: bool,
    **scenario: Any,
) -> None:
    """Reset the committed offsets of a group; without --execute, only show the plan."""
    if bool(topics) == all_topics:
        raise click.UsageError("give --topic or --all-topics")
    target, since_ms = _target(**scenario)
    with brokers_of(cluster) as brokers:
        _refuse_active(brokers, name)
        moves = plan(target, _known(brokers, name, None if all_topics else topics, since_ms))
        if not moves:
            raise CommandError(f"{name} has committed nothing")
        new = {move.partition: move.new for move in moves if move.new is not None}
        # All or none: Kafka's own tool moves nothing either, if it cannot plan everything.
        executed = execute and len(new) == len(moves)
        codes = _commit(brokers, name, new) if executed else {}
    _show(name, moves, codes, executed, as_json)
    if not execute and not as_json and len(new) == len(moves):
        click.echo("dry run: nothing was changed, --execute does it", err=True)
    _raise_failed(moves, codes)


def _target(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_datetime: int | None,
    by_duration: int | None,
    to_offset: int | None,
    shift_by: int | None,
) -> tuple[Target, int | None]:
    """The chosen scenario, and the time that it looks up, if any."""
    chosen: list[tuple[Target, int | None]] = []
    if to_earliest:
        chosen.append((Target("earliest"), None))
    if to_latest:
        chosen.append((Target("latest"), None))
    if to_current:
        chosen.append((Target("current"), None))
    chosen += [(Target("time"), t) for t in (to_datetime, by_duration) if t is not None]
    if to_offset is not None:
        chosen.append((Target("offset", to_offset), None))
    if shift_by is not None:
        chosen.append((Target("shift", shift_by), None))
    if len(chosen) != 1:
        raise click.UsageError("say where to, with one of the options --to-…, --by-…, --shift-by")
    return chosen[0]


def _refuse_active(brokers: Brokers, name: str) -> None:
    """Refuse a group with members, which would read on from where they are.

    A Dead group is one that does not exist yet.
    """
    state = describe_group(brokers, name).state
    if state not in (EMPTY, DEAD):
        raise CommandError(
            f"{name} is {state}: offsets can be reset only while the group has no members"
        )


def _known(
    brokers: Brokers, name: str, topics: Topics | None, since_ms: int | None
) -> dict[Partition, Known]:
    """What the cluster knows of the chosen partitions; None chooses those with a commit."""
    committed = committed_offsets(brokers, name)
    names = {p.topic for p in committed} if topics is None else {topic for topic, _ in topics}
    leaders = topic_leaders(brokers, names)
    chosen = set(committed)
    if topics is not None:
        for topic in sorted(names):
            if code := leaders[topic].code:
                raise refusal(topic, code, "its offsets cannot be read")
        chosen = {
            Partition(topic, index)
            for topic, indexes in topics
            for index in (leaders[topic].leaders if indexes is None else indexes)
        }
    starts = log_offsets(brokers, leaders, chosen, EARLIEST)
    ends = log_offsets(brokers, leaders, chosen, LATEST)
    sought = {} if since_ms is None else log_offsets(brokers, leaders, chosen, since_ms)
    for partition in sorted(chosen):
        for found in (starts, ends, sought):
            if partition in found and (code := found[partition].code):
                raise refusal(str(partition), code, "its offsets cannot be read")
    return {
        partition: Known(
            start=starts[partition].offset or 0,
            end=ends[partition].offset or 0,
            committed=committed.get(partition),
            at_time=sought[partition].offset if sought else None,
        )
        for partition in chosen
    }


def _commit(brokers: Brokers, name: str, moves: Mapping[Partition, int]) -> dict[Partition, int]:
    """Commit offsets; returns the error code of each partition."""
    request = OffsetCommitRequest(
        group_id=name,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=moves[Partition(topic, index)],
                        committed_metadata="",
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(list(moves)).items()
        ],
    )
    answer = brokers.ask_coordinator(name, request, OffsetCommitResponse, _commit_code)
    return {
        Partition(topic.name, p.partition_index): p.error_code
        for topic in answer.topics
        for p in topic.partitions
    }


def _commit_code(answer: OffsetCommitResponse) -> int:
    codes = (p.error_code for topic in answer.topics for p in topic.partitions)
    return next((code for code in codes if code), ErrorCode.NONE)


def _show(
    name: str, moves: Sequence[Move], codes: Mapping[Partition, int], executed: bool, as_json: bool
) -> None:
    rows = [_row(move, codes) for move in moves]
    if as_json:
        show_json({"group": name, "executed": executed, "partitions": rows})
        return
    columns = ["topic", "partition", "committed", "new"]
    if any(row["notice"] for row in rows):
        columns.append("notice")
    show_rows(columns, rows)


def _row(move: Move, codes: Mapping[Partition, int]) -> dict[str, Any]:
    code = codes.get(move.partition, ErrorCode.NONE)
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "committed": move.committed,
        "new": move.new,
        "notice": f"not reset: {error_name(code)}" if code else move.notice,
        "error": error_name(code) if code else None,
    }


def _raise_failed(moves: Sequence[Move], codes: Mapping[Partition, int]) -> None:
    """Raises: CommandError if any offset could not be moved."""
    failed = [f"{move.partition}: {move.notice}" for move in moves if move.new is None]
    failed += [f"{partition}: {error_name(code)}" for partition, code in codes.items() if code]
    if failed:
        raise CommandError(f"not reset: {'; '.join(failed)}")
