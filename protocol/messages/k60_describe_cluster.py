"""DescribeCluster (API key 60): the brokers and the controller.

Source: DescribeClusterRequest.json, DescribeClusterResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Message, api_key=60, versions="0-1", flexible="0+"):
    """Ask for brokers or (v1+) controllers."""

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)


class DescribeClusterBroker(Struct):
    """One live broker."""

    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


class DescribeClusterResponse(Message, api_key=60, versions="0-1", flexible="0+"):
    """The cluster as this broker knows it."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = int32("0+", default=-2147483648)
