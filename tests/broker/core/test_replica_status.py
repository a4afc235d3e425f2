"""What a replica may do: the whole machine, and what becomes of a replica in some lives."""

from itertools import product
from pathlib import Path

from odradek.broker.core.replica_status import (
    UNKNOWN,
    Claim,
    Event,
    Presence,
    ReplicaStatus,
    ReplicaStatuses,
)
from tests.support.traces import check_trace

TRACES = Path(__file__).parent / "traces"

LIVES = {
    "made, led, deleted": [Event.SERVE, Event.TAKE_ROLE, Event.STOP, Event.DELETE],
    "no room for its log, then some": [Event.LACK_LOG, Event.LACK_LOG, Event.SERVE],
    "no room to lead, then some": [
        Event.SERVE,
        Event.REFUSE,
        Event.ASK,
        Event.TAKE_ROLE,
    ],
    "no room to lead, then deleted": [Event.SERVE, Event.REFUSE, Event.STOP, Event.DELETE],
    "no room to be deleted, then some": [
        Event.SERVE,
        Event.STOP,
        Event.KEEP_NAME,
        Event.ASK,
        Event.DELETE,
    ],
    "suspect, follows another": [Event.CEDE, Event.SERVE, Event.TAKE_ROLE],
    "suspect, no room for a new log": [Event.CEDE, Event.LACK_LOG, Event.SERVE, Event.TAKE_ROLE],
    "suspect and last, then its loss is accepted": [Event.SERVE, Event.WAIT, Event.TAKE_ROLE],
    "suspect and last, then its topic is deleted": [
        Event.SERVE,
        Event.WAIT,
        Event.CLEAR,
        Event.STOP,
        Event.DELETE,
    ],
    "damaged, copied anew": [
        Event.SERVE,
        Event.TAKE_ROLE,
        Event.GIVE_UP,
        Event.STOP,
        Event.SERVE,
        Event.TAKE_ROLE,
    ],
    "its directory fails while it is served": [
        Event.SERVE,
        Event.REFUSE,
        Event.FAIL_DIR,
        Event.STOP,
        Event.SERVE,
        Event.LACK_LOG,
        Event.DELETE,
    ],
}


def shown(status: ReplicaStatus) -> str:
    claim = "" if status.claim is Claim.NONE else f" {status.claim.name}"
    return f"{status.presence.name}{claim}"


def after(state: Presence | Claim, event: Event) -> Presence | Claim:
    if isinstance(state, Presence):
        return ReplicaStatus(state).after(event).presence
    return ReplicaStatus(claim=state).after(event).claim


def test_the_whole_machine() -> None:
    """What each event changes: first the presence, then the claim; "-" changes nothing."""
    lines = []
    for states in (list(Presence), list(Claim)):
        lines.append(" " * 12 + "".join(f"{state.name:11}" for state in states))
        for event in Event:
            changed = [after(state, event) for state in states]
            if changed != states:
                names = [
                    "-" if one is s else one.name for one, s in zip(changed, states, strict=True)
                ]
                lines.append(f"{event.name:12}" + "".join(f"{name:11}" for name in names))
        lines.append("")
    check_trace(TRACES / "replica_status.txt", "\n".join(line.rstrip() for line in lines))


def test_lives() -> None:
    lines = []
    for life, events in LIVES.items():
        status = UNKNOWN
        lines.append(f"{life}\n    {'':10}{shown(status)}")
        for event in events:
            status = status.after(event)
            lines.append(f"    {event.name:10}{shown(status)}")
    check_trace(TRACES / "replica_lives.txt", "\n".join(lines) + "\n")


def test_nothing_but_a_start_brings_a_failed_directory_back() -> None:
    for event, claim in product(Event, Claim):
        status = ReplicaStatus(Presence.OFFLINE, claim).after(event)
        assert status.presence is Presence.OFFLINE
        assert status.is_failed


def test_all_replicas() -> None:
    statuses = ReplicaStatuses()
    for number, event in enumerate([Event.SERVE, Event.CEDE, Event.LACK_LOG, Event.SERVE]):
        statuses.note(("t", number), event)
    statuses.note(("t", 0), Event.REFUSE)
    assert statuses["t", 9] == UNKNOWN
    assert [*statuses.where(Presence.SERVED)] == [("t", 0), ("t", 3)]
    assert [*statuses.where(Presence.UNMADE, Claim.REFUSED)] == [("t", 0), ("t", 2)]
    for key in statuses.where(Presence.SERVED):
        statuses.note(key, Event.STOP)
    assert [*statuses.where(*Presence)] == [("t", 1), ("t", 2)], "what is absent takes no memory"
