"""How a classic group gets from one generation to the next.

    Empty, Stable,  --prepare-->  PreparingRebalance  --all joined, or time is up-->
    CompletingRebalance           |                   CompletingRebalance --assigned--> Stable
                                  +--nobody left-->   Empty

Three kinds of deadlines.  A member's *session* ends if nothing is heard of it; it cannot speak
while an answer of ours is due, so then the session does not end.  The *join* deadline closes
PreparingRebalance: dynamic members that are missing are removed, static ones stay until their
session ends.  The first members of an empty group are kept for group.initial.rebalance.delay.ms,
again and again while more of them come, but no longer than the rebalance timeout.  The *sync*
deadline removes members that joined but do not fetch their assignment.

The requests are functions in modules of their own that work on this class: classic_join,
classic_static, classic_sync, classic_leave.  What they want done they put into `effects`.
"""

import logging
from collections.abc import Callable
from typing import Final

from odradek.protocol.errors import ErrorCode

from ..effects import Effect
from .classic_base import ClassicBase, Phase
from .classic_member import ClassicMember
from .classic_records import subscribed_topics
from .classic_state import TRANSITIONS, ClassicState
from .settings import ClassicSettings

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
IDLE_WAIT_MS_MIN: Final = 1_000
"""So that members with a rebalance timeout of 0 do not keep us busy while they are silent."""


class Rebalances(ClassicBase):
    """The way of a group through a rebalance."""

    def __init__(
        self,
        group_id: str,
        settings: Callable[[], ClassicSettings],
        new_member_id: Callable[[str], str],
        wall_ms: int,
    ) -> None:
        super().__init__(group_id, settings, new_member_id, wall_ms)
        self._is_initial = False  # members of an empty group gather; not closed before its time
        self._extendable_ms = 0  # how much longer they may be kept in all
        self.is_extended = False
        """Whether another member has come since the first members of the group are kept."""

    # The way through a rebalance

    def transition(self, state: ClassicState) -> None:
        """Go into a state."""
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
        self.state_since_wall_ms = self.journal.wall_ms

    def prepare_if_possible(self, reason: str) -> None:
        """Begin a rebalance, unless one has begun."""
        if ClassicState.PREPARING_REBALANCE in TRANSITIONS[self.state]:
            self.prepare(reason)

    def prepare(self, reason: str) -> None:
        """Begin a rebalance: members shall join again."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self.drop_assignments(ErrorCode.REBALANCE_IN_PROGRESS)
        self.roster.unsynced.clear()
        self.deadlines.clear(Phase.SYNC)
        self._is_initial, self.is_extended = self.state is ClassicState.EMPTY, False
        self.transition(ClassicState.PREPARING_REBALANCE)
        self.journal.note("rebalance", reason)
        logger.info(
            "rebalance group=%s generation=%d reason=%s", self.group_id, self.generation_id, reason
        )
        timeout_ms = self.roster.rebalance_timeout_ms
        if self._is_initial:
            delay_ms = self.settings().initial_rebalance_delay_ms
            self._extendable_ms = max(timeout_ms - delay_ms, 0)
            self.deadlines.set(Phase.JOIN, self.now_ms + delay_ms)
        else:
            self.deadlines.set(Phase.JOIN, self.now_ms + timeout_ms)
            self.complete_if_all_joined()

    def drop_assignments(self, code: ErrorCode) -> None:
        """Give up the generation that was being assigned."""
        for member in self.roster:
            member.assignment = b""
        self.finish_syncs(code)

    def complete_if_all_joined(self) -> None:
        """Begin the next generation if nobody is missing, and if it is not held back."""
        preparing = self.state is ClassicState.PREPARING_REBALANCE
        if preparing and not self._is_initial and self.roster.all_joined:
            self._complete()

    def _on_join_deadline(self) -> None:
        if self._is_initial and self.is_extended and self._extendable_ms:
            self.is_extended = False
            delay_ms = min(self.settings().initial_rebalance_delay_ms, self._extendable_ms)
            self._extendable_ms -= delay_ms
            self.deadlines.set(Phase.JOIN, self.now_ms + delay_ms)
        else:
            self._complete()

    def _complete(self) -> None:
        self.deadlines.clear(Phase.JOIN)
        self._is_initial = False
        for member in self.roster:
            if member.join is None and member.instance_id is None:
                self.strike(member, "timed-out", "did not join again in time")
        if len(self.roster) and not self.roster.elect_joined_leader():
            # Static members only, all of them silent: their sessions will end this.
            self.journal.note("rebalance", "nobody has joined; waiting for the static members")
            wait_ms = max(self.roster.rebalance_timeout_ms, IDLE_WAIT_MS_MIN)
            self.deadlines.set(Phase.JOIN, self.now_ms + wait_ms)
            return
        self.generation_id += 1
        if len(self.roster):
            self._begin_generation()
        else:
            self._become_empty()

    def _begin_generation(self) -> None:
        self.protocol_name = self.roster.select_protocol()
        self.topics = subscribed_topics(self.protocol_type, self.protocol_name, self.roster)
        self.transition(ClassicState.COMPLETING_REBALANCE)
        leader_id = self.roster.leader_id or ""
        self.journal.note(
            "generation",
            f"generation {self.generation_id} with {len(self.roster)} members, "
            f"protocol {self.protocol_name}; this member assigns",
            leader_id,
        )
        for member in self.roster:
            if (parked := self.roster.take_join(member)) is not None:
                self.answer_join(parked, self.joined(parked, member.member_id))
            self.restart_session(member)
            member.is_new = False
            self.roster.unsynced.add(member.member_id)
        self.deadlines.set(Phase.SYNC, self.now_ms + self.roster.rebalance_timeout_ms)

    def _become_empty(self) -> None:
        self.protocol_name = None
        self.topics = frozenset()
        self.transition(ClassicState.EMPTY)
        self.journal.note("empty", f"generation {self.generation_id} has no members")

        def stored(code: ErrorCode) -> list[Effect]:
            # Nobody waits. If the broker stops now, the last generation comes back and times out.
            if code is not ErrorCode.NONE:
                logger.warning("store empty group=%s code=%s", self.group_id, code.name)
                self.journal.note("not-stored", f"the empty group was not stored: {code.name}")
            return []

        self.store({}, stored)

    # Members

    def strike(self, member: ClassicMember, event: str, reason: str) -> None:
        """Remove a member, and nothing else."""
        self.refuse_parked(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.remove(member)
        self.deadlines.clear(member.member_id)
        self.journal.note(event, reason, member.member_id)
        logger.info(
            "member %s group=%s member=%s reason=%s",
            event,
            self.group_id,
            member.member_id,
            reason,
        )

    def remove(self, member: ClassicMember, event: str, reason: str) -> None:
        """Remove a member; the others rebalance."""
        self.strike(member, event, reason)
        if self.state is ClassicState.PREPARING_REBALANCE:
            self.complete_if_all_joined()
        else:
            self.prepare_if_possible(f"member {member.member_id} {event}: {reason}")

    def remove_pending(self, member_id: str) -> None:
        """Forget an id with which nobody has joined."""
        self.roster.pending.discard(member_id)
        self.deadlines.clear(member_id)
        self.complete_if_all_joined()

    # Deadlines

    def run_deadlines(self) -> None:
        """Do what the deadlines demand that have come."""
        for key in self.deadlines.due(self.now_ms):
            if self.deadlines.get(key) is not None:
                continue  # an earlier one has set it anew
            if isinstance(key, str):
                self._on_session_end(key)
            elif key is Phase.SYNC:
                self._on_sync_deadline()
            elif self.state is ClassicState.PREPARING_REBALANCE:
                self._on_join_deadline()

    def _on_session_end(self, member_id: str) -> None:
        if member_id in self.roster.pending:
            self.journal.note("timed-out", "did not join with the id it was given", member_id)
            self.remove_pending(member_id)
        elif (member := self.roster.members.get(member_id)) is None:
            return
        elif member.is_new:
            self.remove(member, "timed-out", "waited too long for its first generation")
        elif not member.is_waiting:
            seconds = member.session_timeout_ms / 1000
            self.remove(member, "timed-out", f"no heartbeat within {seconds:g} s")

    def _on_sync_deadline(self) -> None:
        late = [member for member in self.roster if member.member_id in self.roster.unsynced]
        if not late:
            return
        for member in late:
            self.strike(member, "timed-out", "joined, but did not fetch its assignment in time")
        ids = ", ".join(member.member_id for member in late)
        self.prepare_if_possible(f"members did not fetch their assignment in time: {ids}")
