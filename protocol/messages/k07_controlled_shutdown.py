"""ControlledShutdown (API key 7): a broker gives up its leaderships before it stops.

Source: ControlledShutdownRequest.json, ControlledShutdownResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, int64, string


class ControlledShutdownRequest(Message, api_key=7, versions="0-3", flexible="3+"):
    """The broker that shuts down; v0 has a header without a client id."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class ControlledShutdownResponse(Message, api_key=7, versions="0-3", flexible="3+"):
    """The partitions for which no other leader was found."""

    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")
