"""EndTxn (API key 26): commit or abort a transaction.

Source: EndTxnRequest.json, EndTxnResponse.json of Apache Kafka 4.3.1.
"""

from ..schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """The transaction, and how it ends."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    """Whether the decision is recorded; the markers follow.

    v5+ say with which id and epoch the producer goes on (KIP-890).
    """

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
