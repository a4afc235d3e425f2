"""What a replica of this broker may do, as one status that events change.

A status says whether the replica is here, and whether it has declined to lead. `AFTER` and
`CLAIM_AFTER` are the whole state machine: an event that they do not list leaves a status as it is.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from .partition_state import TopicPartition


class Presence(Enum):
    """Whether a replica is here."""

    ABSENT = auto()
    """It has no role yet, or it was deleted."""
    SERVED = auto()
    """Its log is open; it leads, follows, or waits for a live leader."""
    UNMADE = auto()
    """Its log can't be created, or can't be read."""
    GIVEN_UP = auto()
    """Its log is damaged and no longer served: another replica must lead."""
    UNDELETED = auto()
    """It was to be deleted, but the disk has no room for the new name of its directory."""
    OFFLINE = auto()
    """It is in a log directory that has failed, or may be in one, until the next start."""


class Claim(Enum):
    """Whether a replica has declined to lead, and why. The controller then takes it as offline."""

    NONE = auto()
    REFUSED = auto()
    """The disk was full."""
    CEDED = auto()
    """It is suspect, and another replica in sync can lead: so until it takes a role."""
    WAITING = auto()
    """It is suspect, and the last in-sync replica."""


class Event(Enum):
    """What happens to a replica."""

    SERVE = auto()
    """Its log was found, or created."""
    STOP = auto()
    """It is no longer served."""
    LACK_LOG = auto()
    """Its log could not be created or read."""
    GIVE_UP = auto()
    """Its log is damaged, and another replica can lead."""
    FAIL_DIR = auto()
    """Its log directory has failed."""
    TAKE_ROLE = auto()
    """It leads or follows."""
    REFUSE = auto()
    """It can't lead: the disk is full."""
    CEDE = auto()
    """It does not lead, because another replica can."""
    WAIT = auto()
    """It does not lead, although no other replica can."""
    ASK = auto()
    """The controller is asked to repeat what a full disk has prevented."""
    DELETE = auto()
    """Its log was deleted."""
    KEEP_NAME = auto()
    """The directory of its log could not be renamed, which is the first step of a deletion."""
    CLEAR = auto()
    """It is no longer suspect, or may lead although it is."""


_HERE: Final = tuple(one for one in Presence if one is not Presence.OFFLINE)

AFTER: Final[Mapping[Event, Mapping[Presence, Presence]]] = {
    Event.SERVE: dict.fromkeys(_HERE, Presence.SERVED),
    Event.STOP: {Presence.SERVED: Presence.ABSENT},
    Event.LACK_LOG: dict.fromkeys(_HERE, Presence.UNMADE),
    Event.GIVE_UP: dict.fromkeys(_HERE, Presence.GIVEN_UP),
    Event.FAIL_DIR: dict.fromkeys(_HERE, Presence.OFFLINE),
    Event.ASK: {Presence.UNDELETED: Presence.ABSENT},
    Event.DELETE: dict.fromkeys(_HERE, Presence.ABSENT),
    Event.KEEP_NAME: dict.fromkeys(_HERE, Presence.UNDELETED),
}

_SUSPECT: Final = (Claim.CEDED, Claim.WAITING)

CLAIM_AFTER: Final[Mapping[Event, Mapping[Claim, Claim]]] = {
    Event.STOP: {Claim.REFUSED: Claim.NONE},
    Event.FAIL_DIR: dict.fromkeys(Claim, Claim.NONE),
    Event.TAKE_ROLE: dict.fromkeys(Claim, Claim.NONE),
    Event.REFUSE: {Claim.NONE: Claim.REFUSED, Claim.WAITING: Claim.REFUSED},
    Event.CEDE: dict.fromkeys(Claim, Claim.CEDED),
    Event.WAIT: {Claim.NONE: Claim.WAITING, Claim.REFUSED: Claim.WAITING},
    Event.ASK: {Claim.REFUSED: Claim.NONE},
    Event.CLEAR: dict.fromkeys(_SUSPECT, Claim.NONE),
}


class ReplicaStatus(NamedTuple):
    """The status of one replica."""

    presence: Presence = Presence.ABSENT
    claim: Claim = Claim.NONE

    def after(self, event: Event) -> "ReplicaStatus":
        """The status after an event."""
        presence, claim = AFTER.get(event, {}), CLAIM_AFTER.get(event, {})
        return ReplicaStatus(
            presence.get(self.presence, self.presence), claim.get(self.claim, self.claim)
        )

    @property
    def is_failed(self) -> bool:
        """Whether clients that ask for the replica get KAFKA_STORAGE_ERROR."""
        return self.presence in (Presence.UNMADE, Presence.OFFLINE)


UNKNOWN: Final = ReplicaStatus()


class ReplicaStatuses:
    """The status of each replica of a broker, by topic and partition."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, ReplicaStatus] = {}

    def __getitem__(self, key: TopicPartition) -> ReplicaStatus:
        return self._of.get(key, UNKNOWN)

    def note(self, key: TopicPartition, event: Event) -> ReplicaStatus:
        """Apply an event to a replica; its status after that."""
        status = self._of.get(key, UNKNOWN).after(event)
        if status == UNKNOWN:
            self._of.pop(key, None)
        else:
            self._of[key] = status
        return status

    def where(self, *states: Presence | Claim) -> Iterator[TopicPartition]:
        """The replicas that are in one of these states now."""
        for key, status in list(self._of.items()):
            if status.presence in states or status.claim in states:
                yield key
