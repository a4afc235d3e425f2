"""AddOffsetsToTxn (API key 25): a transaction will commit offsets of a group.

Source: AddOffsetsToTxnRequest.json, AddOffsetsToTxnResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """The transaction, and the group."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """Whether the group's partition of `__consumer_offsets` was added."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
