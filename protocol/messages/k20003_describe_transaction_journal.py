"""DescribeTransactionJournal (API key 20003): the recent events of transactional ids, with reasons.

Odradek's own, not Kafka's: ApiVersions does not name it, and Apache's brokers close the connection
on it.  `odradek transactions explain` asks it of a transactional id's coordinator.
"""

from ..schema import Message, Struct, array, int16, int32, int64, string


class DescribeTransactionJournalRequest(Message, api_key=20003, versions="0", flexible="0+"):
    """The transactional ids whose events to describe."""

    transactional_ids: list[str] = array("string", "0+")


class JournalEntry(Struct):
    """One event; the client is empty if no request was the reason."""

    timestamp_ms: int = int64("0+")
    event: str = string("0+")
    client: str = string("0+")
    reason: str = string("0+")


class MissingMarker(Struct):
    """A partition whose marker is not written yet; leader -1: none that the coordinator knows."""

    topic: str = string("0+")
    partition: int = int32("0+")
    leader_id: int = int32("0+", default=-1)


class DescribedTransactionJournal(Struct):
    """What a transactional id waits for, and its last events, the oldest first.

    The pending state is the one after the transition that is under way, if there is one.  An id
    that has expired is Dead.
    """

    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    pending_state: str | None = string("0+", default=None, nullable="0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+", default=-1)
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+", default=-1)
    partition_count: int = int32("0+")
    missing_markers: list[MissingMarker] = array(MissingMarker, "0+")
    entries: list[JournalEntry] = array(JournalEntry, "0+")


class DescribeTransactionJournalResponse(Message, api_key=20003, versions="0", flexible="0+"):
    """One journal for each transactional id."""

    throttle_time_ms: int = int32("0+")
    transactions: list[DescribedTransactionJournal] = array(DescribedTransactionJournal, "0+")
