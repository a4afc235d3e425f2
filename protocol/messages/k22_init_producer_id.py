"""InitProducerId (API key 22): hand out a producer id and epoch.

Source: InitProducerIdRequest.json, InitProducerIdResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, int16, int32, int64, string


class InitProducerIdRequest(Message, api_key=22, versions="0-5", flexible="2+"):
    """With a transactional id: fence its older producers."""

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Message, api_key=22, versions="0-5", flexible="2+"):
    """The producer's id and epoch."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
