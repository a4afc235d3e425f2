"""AllocateProducerIds (API key 67): a broker takes a block of producer ids.

Source: AllocateProducerIdsRequest.json, AllocateProducerIdsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """Who wants one."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    """The ids, which nobody else gets."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")
