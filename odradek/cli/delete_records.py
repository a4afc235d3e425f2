"""`odradek topics delete-records`: moves the start of logs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Final

import click

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

from . import positions
from .brokers import Brokers, brokers_of, refusal
from .clients import Cluster, cluster_options, error_name
from .commands import command
from .completion import complete_topics
from .errors import CommandError
from .group_offsets import Partition
from .log_offsets import TopicLeaders, chosen_leaders, existing_topic, log_offsets
from .options import json_option, partitions_option
from .tables import show_json, show_rows

TIMEOUT_MS: Final = 30_000


@command("delete-records")
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "--before",
    metavar="WHERE",
    required=True,
    help="The first record that stays: an offset, +N (delete N), -N (keep the last N), @TIME"
    " (milliseconds, ISO, or -7d), or end.",
)
@partitions_option
@click.option("--dry-run", is_flag=True, help="Show what would be deleted.")
@json_option
@cluster_options
def delete_records(
    cluster: Cluster,
    topic: str,
    before: str,
    partitions: tuple[int, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete the oldest records of a topic."""
    wanted = _parse_place(before)
    with brokers_of(cluster) as brokers:
        leaders = existing_topic(brokers, topic)
        chosen = list(chosen_leaders(topic, leaders, partitions))

        @cache  # the ends are looked up here and in find_offsets
        def look_up(time_ms: int) -> Mapping[positions.Partition, int]:
            return _offsets(brokers, topic, leaders, chosen, time_ms)

        starts = look_up(positions.EARLIEST)
        _refuse_beyond(wanted.start, look_up(positions.LATEST))
        found = positions.find_offsets(look_up, wanted, lambda text: click.echo(text, err=True))
        to = {number: at.start for (_, number), at in found.items()}
        codes = {} if dry_run else _delete(brokers, topic, leaders, to)
    rows = [
        {
            "topic": topic,
            "partition": number,
            "start": starts[topic, number],
            "new_start": to[number],
            "error": error_name(codes[number]) if codes.get(number) else None,
        }
        for number in chosen
    ]
    if as_json:
        show_json(rows)
    else:
        columns = ["topic", "partition", "start", "new_start", "error"]
        if not any(codes.values()):
            columns.pop()
        show_rows(columns, rows)
    if failed := [f"{topic}-{number}" for number in chosen if codes.get(number)]:
        raise CommandError(f"not deleted: {', '.join(failed)}")


def _parse_place(text: str) -> positions.Range:
    now = datetime.now(UTC)
    try:
        wanted = positions.parse_range([text], now=now)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--before") from None
    if wanted.stop is not None or text.endswith(":"):
        raise click.BadParameter("one place, not a range", param_hint="--before")
    if wanted.start.kind == "timestamp" and wanted.start.number > now.timestamp() * 1000:
        raise click.BadParameter(f"{text} is in the future", param_hint="--before")
    return wanted


def _refuse_beyond(place: positions.Position, ends: Mapping[positions.Partition, int]) -> None:
    """Refuse an offset that a partition does not have, as Kafka does: OFFSET_OUT_OF_RANGE."""
    if place.kind != "offset":
        return
    for (topic, number), end in ends.items():
        if place.number > end:
            raise CommandError(
                f"{topic}-{number} ends at offset {end}, before {place.number}:"
                " choose partitions with -p (OFFSET_OUT_OF_RANGE)"
            )


def _offsets(
    brokers: Brokers, topic: str, leaders: TopicLeaders, chosen: list[int], time_ms: int
) -> dict[positions.Partition, int]:
    asked = [Partition(topic, number) for number in chosen]
    found = log_offsets(brokers, {topic: leaders}, asked, time_ms)
    for partition, answer in found.items():
        if answer.code:
            raise refusal(str(partition), answer.code, "its offsets cannot be read")
    return {
        (p.topic, p.partition): -1 if at.offset is None else at.offset for p, at in found.items()
    }


def _delete(
    brokers: Brokers, topic: str, leaders: TopicLeaders, to: Mapping[int, int]
) -> dict[int, int]:
    """Delete the records below these offsets; returns the error code of each partition."""
    codes: dict[int, int] = {}
    for leader in sorted({leaders.leaders[number] for number in to}):
        led = [number for number in to if leaders.leaders[number] == leader]
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=number, offset=to[number])
                        for number in led
                    ],
                )
            ],
            timeout_ms=TIMEOUT_MS,
        )
        answer = brokers.ask(request, DeleteRecordsResponse, node_id=leader)
        codes |= dict.fromkeys(led, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        codes |= {p.partition_index: p.error_code for t in answer.topics for p in t.partitions}
    return codes
