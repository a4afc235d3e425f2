"""WriteTxnMarkers (API key 27): a coordinator has the ends of transactions written into logs.

Source: WriteTxnMarkersRequest.json, WriteTxnMarkersResponse.json of Apache Kafka 3.9.2,
v2 of 4.3.1.
"""

from ..schema import Message, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partition_indexes: list[int] = array("int32", "0+")


class WritableTxnMarker(Struct):
    """How the transaction of one producer ended, and where to write that."""

    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+", default=0)
    """Of the client whose transaction it is (KIP-1228)."""


class WriteTxnMarkersRequest(Message, api_key=27, versions="0-2", flexible="1+"):
    """The markers to write."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")


class WritableTxnMarkerPartitionResult(Struct):
    """What became of the marker in one partition."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class WritableTxnMarkerTopicResult(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = array(
        WritableTxnMarkerPartitionResult, "0+"
    )


class WritableTxnMarkerResult(Struct):
    """The partitions of one producer's transaction."""

    producer_id: int = int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")


class WriteTxnMarkersResponse(Message, api_key=27, versions="0-2", flexible="1+"):
    """An error code for each partition."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")
