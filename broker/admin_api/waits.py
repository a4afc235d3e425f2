"""Waiting until there is a topic, until it has records, until a group is stable or has caught up.

A wait that is in vain is answered with what is there instead and, of a group, why it rebalanced.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.k20001_describe_group_journal import DescribeGroupJournalRequest
from odradek.protocol.primitives import INT32_MAX, INT64_MAX
from odradek.spelling import did_you_mean
from odradek.storage.errors import StorageError

from ..core.partition import Partition
from ..core.partition_state import TopicPartition
from ..core.topic_names import INTERNAL_TOPICS
from ..node import Node
from ..peers.own import ask_self
from . import groups, schemas, topics
from .asking import any_node, leader_node, states_of
from .controls import Controls
from .fields import DURATION, TEXT, Field, Json, nullable, whole
from .reading import READ_BYTES_MAX, Limit, read_records
from .records import COMMITTED, ISOLATION
from .watching import NotYet, Watch, wait_until, watch_groups, watch_metadata

STABLE: Final = "Stable"
JOURNAL_VERSION: Final = 0
JOURNAL_LINES: Final = 12
READ_AT_ONCE: Final = 1000

COUNT: Final = schemas.members(count=schemas.INTEGER)
LAG: Final = schemas.members(lag=schemas.INTEGER)
TOPIC: Final = (Field("timeout", DURATION, "How long at most.", 5.0),)
RECORDS: Final = (
    Field("count", whole(0, INT64_MAX), "At least so many."),
    ISOLATION,
    *TOPIC,
)
GROUP: Final = (
    Field("members", whole(0, INT32_MAX), "Exactly so many.", 1),
    Field("assigned", nullable(whole(0, INT32_MAX)), "So many partitions, to all members.", None),
    Field("timeout", DURATION, "How long at most.", 15.0),
)
GROUP_LAG: Final = (
    Field("lag", whole(0, INT64_MAX), "At most so many records, in all partitions together."),
    Field("topic", nullable(TEXT), "Only of this one; default: where it has committed.", None),
    *TOPIC,
)


async def topic(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Wait until there is a topic, and all of its partitions have leaders."""

    async def look(watch: Watch) -> Json:
        watch_metadata(watch, controls)
        return _led_topic(controls, path["topic"])

    return await wait_until(look, fields["timeout"])


def _led_topic(controls: Controls, name: str) -> Json:
    """The topic, if all brokers here know its leaders, and those run.  Raises: NotYet."""
    _check_topic(controls, name)
    down = set(controls.broker_ids) - controls.brokers.keys()
    for broker in controls.brokers.values():
        info = broker.node.metadata.topics.get(name)
        if info is None or topics.led_count(info) < len(info.partitions):
            raise NotYet(f"topic {name} has partitions without a leader")
        if gone := down.intersection(state.leader for state in info.partitions):
            raise NotYet(f"broker {min(gone)}, which leads partitions of topic {name}, is down")
    return topics.show(controls, {"topic": name}, {})


def _check_topic(controls: Controls, name: str) -> None:
    """Raises: NotYet."""
    known = [each for each in any_node(controls).metadata.topics if each not in INTERNAL_TOPICS]
    if name in known or name in INTERNAL_TOPICS:
        return
    raise NotYet(f"there is no topic {name[:250]!a}{did_you_mean(name, known)}")


class _Counted:
    """The records of a partition that have been counted."""

    def __init__(self, partition: Partition) -> None:
        self.log = partition.log
        self.start_offset = self.next_offset = partition.log.log_start_offset
        self.count = 0

    def is_of(self, partition: Partition) -> bool:
        """Whether they are all still there."""
        log = partition.log
        is_whole = log.log_start_offset == self.start_offset
        return log is self.log and is_whole and self.next_offset <= log.log_end_offset


async def records(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Wait until a topic has so many records."""
    name, wanted = path["topic"], fields["count"]
    counted: dict[int, _Counted] = {}

    async def look(watch: Watch) -> Json:
        watch_metadata(watch, controls)
        _led_topic(controls, name)
        for state in states_of(controls, name):
            node = leader_node(controls, name, state.partition)
            partition = node.find(name, state.partition)
            watch.over(partition.waiters)
            known = counted.get(state.partition)
            if known is None or not known.is_of(partition):
                known = counted[state.partition] = _Counted(partition)
            await _count(known, node, is_committed=fields["isolation"] == COMMITTED)
        count = sum(each.count for each in counted.values())
        if count >= wanted:
            return {"count": count}
        where = ", ".join(
            f"{each.count} in partition {number}"
            for number, each in sorted(counted.items())
            if each.count
        )
        raise NotYet(
            f"topic {name} has {_number(count, 'record')}, not {wanted}"
            + (f": {where}" if len(counted) > 1 and where else "")
        )

    return await wait_until(look, fields["timeout"])


async def _count(known: _Counted, node: Node, *, is_committed: bool) -> None:
    """Count what has come since.  Raises: NotYet."""
    limit = Limit(READ_AT_ONCE, READ_BYTES_MAX, node.decompressed_bytes_max)
    while True:
        try:
            found = read_records(known.log, known.next_offset, limit, is_committed=is_committed)
        except (StorageError, MalformedMessage) as error:
            raise NotYet(f"{known.log.topic} can't be read: {error}") from error
        if found.next_offset == known.next_offset:
            return
        known.count += len(found.records)
        known.next_offset = found.next_offset
        await asyncio.sleep(0)


async def group(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Wait until a group is stable, with exactly so many members."""
    group_id, members, assigned = path["group"], fields["members"], fields["assigned"]

    async def look(watch: Watch) -> Json:
        watch_groups(watch, controls)
        found = await _group(controls, group_id)
        is_full = assigned is None or _assigned(found) == assigned
        if found["state"] == STABLE and len(found["members"]) == members and is_full:
            return found
        wanted = f"{STABLE} with {_number(members, 'member')}"
        if assigned is not None:
            wanted += f" and {_number(assigned, 'partition')}"
        raise NotYet(f"{_state(found)}, not {wanted}{await _story(controls, found)}")

    return await wait_until(look, fields["timeout"])


async def lag(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Wait until a group has committed all but so many records."""
    group_id, wanted = path["group"], fields["lag"]

    async def look(watch: Watch) -> Json:
        watch_groups(watch, controls)
        found = await _group(controls, group_id)
        committed = {
            (each["topic"], each["partition"]): each["offset"] for each in found["offsets"]
        }
        names = {name for name, _ in committed} if fields["topic"] is None else {fields["topic"]}
        behind = {
            key: lag
            for name in sorted(names)
            for key, lag in _behind(controls, watch, name, committed).items()
        }
        total = sum(behind.values())
        if behind and total <= wanted:
            return {"lag": total}
        what = f"lags by {_number(total, 'record')}" if behind else "has committed nothing"
        where = "".join(
            f"\n  {key[0]}-{key[1]}: {lag} behind, "
            + (f"offset {committed[key]} committed" if key in committed else "nothing committed")
            for key, lag in behind.items()
            if lag
        )
        raise NotYet(
            f"group {group_id} {what}, and may lag by {wanted}{where}\n{_state(found)}"
            + await _story(controls, found)
        )

    return await wait_until(look, fields["timeout"])


def _behind(
    controls: Controls, watch: Watch, name: str, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """How many offsets each partition of a topic is ahead of what is committed.

    Raises: NotYet, Problem, Refused.
    """
    _led_topic(controls, name)
    behind = {}
    for state in states_of(controls, name):
        key = name, state.partition
        partition = leader_node(controls, *key).find(*key)
        watch.over(partition.waiters)
        offset = committed.get(key, partition.log.log_start_offset)
        behind[key] = max(0, partition.log.high_watermark - offset)
    return behind


async def _group(controls: Controls, group_id: str) -> Json:
    """The group as it is now.  Raises: NotYet, Problem."""
    found = await groups.find(controls, group_id)
    if found is None:
        raise groups.unknown(group_id)
    return found


def _state(found: Mapping[str, Any]) -> str:
    members = _number(len(found["members"]), "member")
    return f"group {found['group_id']} is {found['state']} with {members}"


def _assigned(found: Mapping[str, Any]) -> int:
    """How many partitions the members have."""
    return sum(len(each) for member in found["members"] for each in member["assignment"].values())


async def _story(controls: Controls, found: Mapping[str, Any]) -> str:
    """The members of a group and what has happened in it, in lines."""
    lines = [
        f"\n  {member['client_id'] or member['member_id']} at {member['host'].lstrip('/')}: "
        + (", ".join(f"{name} {numbers}" for name, numbers in sorted(owned.items())) or "nothing")
        for member in found["members"]
        for owned in [member["assignment"]]
    ]
    broker = controls.brokers.get(found["coordinator"])
    if broker is None:
        raise NotYet(f"the coordinator of group {found['group_id']} has stopped")
    request = DescribeGroupJournalRequest(groups=[found["group_id"]])
    answer: Any = await ask_self(broker.node, request, JOURNAL_VERSION)
    wall_ms = controls.runtime.clock.wall_ms()
    lines += ["\nWhat has happened in it:"]
    lines += [
        f"\n  {max(0, wall_ms - entry.timestamp_ms) / 1000:.3f} s ago: {entry.event}"
        + (f" {entry.member_id}" if entry.member_id else "")
        + f": {entry.reason}"
        for entry in answer.groups[0].entries[-JOURNAL_LINES:]
    ]
    return "".join(lines)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
