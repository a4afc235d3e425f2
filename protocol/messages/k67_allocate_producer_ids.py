"""AllocateProducerIds (API key 67): a broker gets a block of producer ids.

Source: AllocateProducerIdsRequest.json, AllocateProducerIdsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """The broker that asks for a block."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    """A block of ids for this broker only."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")
