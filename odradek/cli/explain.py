"""`odradek groups explain`: what happened in a group and why, from its coordinator's journal."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k20001_describe_group_journal import (
    DescribedGroupJournal,
    DescribeGroupJournalRequest,
    DescribeGroupJournalResponse,
    JournalEntry,
)

from .brokers import Brokers, brokers_of, refusal
from .clients import Cluster, cluster_options
from .commands import command
from .completion import complete_groups
from .group_descriptions import GroupView, existing_group
from .journals import ask_journal
from .options import json_option
from .tables import NOTHING, count_of, local_time, show_json, show_table

REBALANCE: Final = "rebalance"
GENERATION_EVENTS: Final = ("generation", "assigned", "empty", "loaded")
EPOCH: Final = re.compile(r"^group epoch \d+: ")
GENERATION: Final = re.compile(r"generation (\d+)")
MINUTES: Final = 10
MINUTE_MS: Final = 60_000


@command("explain")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--minutes",
    type=click.IntRange(1),
    default=MINUTES,
    show_default=True,
    help="How far back rebalances are counted.",
)
@json_option
@cluster_options
def explain(cluster: Cluster, name: str, minutes: int, as_json: bool) -> None:
    """Show what happened in a group and why; only Odradek's brokers keep this journal."""
    with brokers_of(cluster) as brokers:
        group = existing_group(brokers, name)
        journal = _journal(brokers, name)
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    counted = rebalances_since(journal.entries, now_ms - minutes * MINUTE_MS)
    if as_json:
        show_json(_document(group, journal, minutes, counted))
        return
    for line in summary(group, journal.entries, minutes, counted):
        click.echo(line)
    if journal.entries:
        click.echo()
        rows = [_row(entry) for entry in journal.entries]
        show_table(("TIME", "EVENT", "MEMBER", "REASON"), rows)


def _journal(brokers: Brokers, name: str) -> DescribedGroupJournal:
    answer = ask_journal(
        brokers,
        name,
        DescribeGroupJournalRequest(groups=[name]),
        DescribeGroupJournalResponse,
        lambda answer: answer.groups[0].error_code,
        kept_of="groups",
    )
    (journal,) = answer.groups
    if journal.error_code != ErrorCode.NONE:
        raise refusal(name, journal.error_code, journal.error_message)
    return journal


def rebalances_since(entries: Sequence[JournalEntry], since_ms: int) -> Counter[str]:
    """The reasons of the rebalances since a time, and how often each occurred."""
    names = "|".join(re.escape(name) for name in {e.member_id for e in entries} if name)
    member = re.compile(rf"(?<![\w-])(?:member )?(?:{names})(?![\w-])") if names else None
    counted: Counter[str] = Counter()
    for entry in entries:
        if entry.event == REBALANCE and entry.timestamp_ms >= since_ms:
            # Reasons that differ only in member or epoch count as the same.
            reason = EPOCH.sub("", entry.reason)
            counted[member.sub("a member", reason) if member else reason] += 1
    return counted


def generation_of(entries: Sequence[JournalEntry]) -> int | None:
    """The last generation that a classic group's journal names."""
    for entry in reversed(entries):
        found = GENERATION.match(entry.reason) if entry.event in GENERATION_EVENTS else None
        if found:
            return int(found[1])
    return None


def summary(
    group: GroupView, entries: Sequence[JournalEntry], minutes: int, counted: Counter[str]
) -> list[str]:
    """Sentences that say how the group is now, how often it rebalanced, and why."""
    generation = generation_of(entries)
    at = "" if generation is None else f" in generation {generation}"
    if group.epoch is not None:
        at = f" at epoch {group.epoch}"
    members = count_of(len(group.members), "member")
    lines = [f"{group.group_id} is {group.state}{at}, with {members}."]
    if not entries:
        return [*lines, "Its journal is empty: nothing has happened since the broker started."]
    lines.append(
        f"{count_of(counted.total(), 'rebalance')} in the last {count_of(minutes, 'minute')}."
    )
    if counted:
        reason, times = counted.most_common(1)[0]
        if counted.total() > 1:
            lines.append(f"The commonest reason ({times} of {counted.total()}): {reason}")
        else:
            lines.append(f"The reason: {reason}")
    return lines


def _row(entry: JournalEntry) -> list[str]:
    return [local_time(entry.timestamp_ms), entry.event, entry.member_id or NOTHING, entry.reason]


def _document(
    group: GroupView, journal: DescribedGroupJournal, minutes: int, counted: Counter[str]
) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": journal.protocol_type,
        "epoch": group.epoch,
        "generation": None if group.epoch is not None else generation_of(journal.entries),
        "member_count": len(group.members),
        "minutes": minutes,
        "rebalances": counted.total(),
        "rebalance_reasons": dict(counted.most_common()),
        "entries": [
            {
                "timestamp": entry.timestamp_ms,
                "event": entry.event,
                "member_id": entry.member_id or None,
                "reason": entry.reason,
            }
            for entry in journal.entries
        ],
    }
