"""ListTransactions (API key 66): the transactional ids of a coordinator.

Source: ListTransactionsRequest.json, ListTransactionsResponse.json of Apache Kafka 3.9.2,
v2 of 4.3.1.
"""

from ..schema import Message, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """Which to list; all if a filter is empty or negative.

    v2+ may give a regular expression for whole transactional ids (KIP-1152).
    """

    state_filters: list[str] = array("string", "0+")
    producer_id_filters: list[int] = array("int64", "0+")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class TransactionState(Struct):
    """One transactional id."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    """The transactional ids that pass the filters."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array("string", "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
