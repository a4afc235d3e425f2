"""DescribeGroupJournal (API key 20001): the recent events of groups, with reasons.

Odradek's own, not Kafka's: ApiVersions does not name it, and Apache's brokers close the connection
on it.  `odradek groups explain` asks it of a group's coordinator.
"""

from ..schema import Message, Struct, array, int16, int32, int64, string


class DescribeGroupJournalRequest(Message, api_key=20001, versions="0", flexible="0+"):
    """The groups whose events to describe."""

    groups: list[str] = array("string", "0+")


class JournalEntry(Struct):
    """One event; the member id is empty if it is not about a single member."""

    timestamp_ms: int = int64("0+")
    event: str = string("0+")
    member_id: str = string("0+")
    reason: str = string("0+")


class DescribedGroupJournal(Struct):
    """A group's state and its last events, the oldest first."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    entries: list[JournalEntry] = array(JournalEntry, "0+")


class DescribeGroupJournalResponse(Message, api_key=20001, versions="0", flexible="0+"):
    """One journal for each group."""

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroupJournal] = array(DescribedGroupJournal, "0+")
