"""DescribeTransactions (API key 65): the states of transactional ids.

Source: DescribeTransactionsRequest.json, DescribeTransactionsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    """The transactional ids to describe."""

    transactional_ids: list[str] = array("string", "0+")


class TopicData(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class TransactionState(Struct):
    """One transactional id; the topics are those of the transaction that is under way."""

    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    """The states, in the order of the request."""

    throttle_time_ms: int = int32("0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
