"""Rebalances: how a classic group gets from one generation to the next.

    Empty, Stable,  --prepare-->  PreparingRebalance  --all joined, or time is up-->
    CompletingRebalance           |                   CompletingRebalance --assigned--> Stable
                                  +--nobody left-->   Empty

The *join* deadline ends PreparingRebalance: missing dynamic members are removed, static ones stay
until their session ends.  For the first members of an empty group it is
group.initial.rebalance.delay.ms; in a new group it is extended while more members join, up to the
rebalance timeout.  The *sync* deadline removes members that joined but did not fetch their
assignment; the assignment itself is `classic_sync`'s.
"""

import logging
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode

from ..effects import Effect
from .classic_records import subscribed_topics
from .classic_state import TRANSITIONS, ClassicState, Phase

if TYPE_CHECKING:
    from .classic import ClassicGroup

logger = logging.getLogger(__name__)

IDLE_WAIT_MS_MIN: Final = 1_000
"""Keeps silent members with a rebalance timeout of 0 from causing a busy loop."""


def prepare_if_possible(group: "ClassicGroup", reason: str) -> None:
    """Begin a rebalance if the state allows it; while one is being prepared, do nothing."""
    if ClassicState.PREPARING_REBALANCE in TRANSITIONS[group.state]:
        prepare(group, reason)


def prepare(group: "ClassicGroup", reason: str) -> None:
    """Begin a rebalance: all members must join again."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        drop_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.roster.unsynced.clear()
    group.deadlines.clear(Phase.SYNC)
    group.is_initial, group.is_extended = group.state is ClassicState.EMPTY, False
    group.transition(ClassicState.PREPARING_REBALANCE)
    group.journal.note("rebalance", reason)
    logger.info(
        "rebalance group=%s generation=%d reason=%s", group.group_id, group.generation_id, reason
    )
    timeout_ms = group.roster.rebalance_timeout_ms
    if group.is_initial:
        delay_ms = group.settings().initial_rebalance_delay_ms
        group.extendable_ms = max(timeout_ms - delay_ms, 0)
        group.deadlines.set(Phase.JOIN, group.now_ms + delay_ms)
    else:
        group.deadlines.set(Phase.JOIN, group.now_ms + timeout_ms)
        complete_if_all_joined(group)


def complete_if_all_joined(group: "ClassicGroup") -> None:
    """Begin the next generation if all have joined and no initial delay is running."""
    preparing = group.state is ClassicState.PREPARING_REBALANCE
    if preparing and not group.is_initial and group.roster.all_joined:
        _complete(group)


def on_join_deadline(group: "ClassicGroup") -> None:
    """Extend the initial delay if members have come meanwhile; or begin the next generation."""
    if group.is_initial and group.is_extended and group.extendable_ms:
        group.is_extended = False
        delay_ms = min(group.settings().initial_rebalance_delay_ms, group.extendable_ms)
        group.extendable_ms -= delay_ms
        group.deadlines.set(Phase.JOIN, group.now_ms + delay_ms)
    else:
        _complete(group)


def _complete(group: "ClassicGroup") -> None:
    group.deadlines.clear(Phase.JOIN)
    group.is_initial = False
    for member in group.roster:
        if member.join is None and member.instance_id is None:
            group.strike(member, "timed-out", "did not join again in time")
    if len(group.roster) and not group.roster.elect_joined_leader():
        # Only static members, all of them silent: this lasts until their sessions end.
        group.journal.note("rebalance", "nobody has joined; waiting for the static members")
        wait_ms = max(group.roster.rebalance_timeout_ms, IDLE_WAIT_MS_MIN)
        group.deadlines.set(Phase.JOIN, group.now_ms + wait_ms)
        return
    group.generation_id += 1
    if len(group.roster):
        _begin_generation(group)
    else:
        _become_empty(group)


def _begin_generation(group: "ClassicGroup") -> None:
    group.protocol_name = group.roster.select_protocol()
    group.topics = subscribed_topics(group.protocol_type, group.protocol_name, group.roster)
    group.transition(ClassicState.COMPLETING_REBALANCE)
    leader_id = group.roster.leader_id or ""
    group.journal.note(
        "generation",
        f"generation {group.generation_id} with {len(group.roster)} "
        f"member{'' if len(group.roster) == 1 else 's'}, "
        f"protocol {group.protocol_name}; this member assigns",
        leader_id,
    )
    for member in group.roster:
        if (parked := group.roster.take_join(member)) is not None:
            group.answer_join(parked, group.joined(parked, member.member_id))
        group.restart_session(member)
        member.is_new = False
        group.roster.unsynced.add(member.member_id)
    group.deadlines.set(Phase.SYNC, group.now_ms + group.roster.rebalance_timeout_ms)


def _become_empty(group: "ClassicGroup") -> None:
    group.protocol_name = None
    group.topics = frozenset()
    group.transition(ClassicState.EMPTY)
    group.journal.note("empty", f"generation {group.generation_id} has no members")

    def stored(code: ErrorCode) -> list[Effect]:
        # No request waits. If this record is lost, the last generation is restored at the next
        # start, and its members time out.
        if code is not ErrorCode.NONE:
            logger.warning("empty group not written group=%s code=%s", group.group_id, code.name)
            group.journal.note("not-stored", f"the empty group was not stored: {code.name}")
        return []

    group.store({}, stored)


def on_sync_deadline(group: "ClassicGroup") -> None:
    """Remove the members that joined but did not fetch their assignment."""
    late = [member for member in group.roster if member.member_id in group.roster.unsynced]
    if not late:
        return
    for member in late:
        group.strike(member, "timed-out", "joined, but did not fetch its assignment in time")
    ids = ", ".join(member.member_id for member in late)
    prepare_if_possible(group, f"members did not fetch their assignment in time: {ids}")


def drop_assignments(group: "ClassicGroup", code: ErrorCode) -> None:
    """Drop the assignments of the current generation, and fail the parked SyncGroups."""
    for member in group.roster:
        member.assignment = b""
    group.finish_syncs(code)
