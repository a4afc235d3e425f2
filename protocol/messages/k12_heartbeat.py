"""Heartbeat (API key 12): a member of a classic group is alive.

Source: HeartbeatRequest.json, HeartbeatResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, int16, int32, string


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """A member of this generation is alive."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """Whether the generation is still current."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
