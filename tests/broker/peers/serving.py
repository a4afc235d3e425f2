"""What a broker does that is made of one function, for questions of a `Peer`."""

import asyncio

from odradek.protocol.framing import encode_response, read_request_start
from odradek.protocol.messages.k12_heartbeat import HeartbeatResponse
from tests.support.connections import read_frame


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    """API key, version, correlation id, and the frame."""
    frame = await read_frame(reader)
    return (*read_request_start(frame), frame)


async def answer_heartbeats(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        _, version, correlation_id, _ = await read_request(reader)
        writer.write(heartbeat_answer(correlation_id, version))


def heartbeat_answer(correlation_id: int, version: int = 4) -> bytes:
    response = HeartbeatResponse(error_code=27)
    flexible = version in HeartbeatResponse.FLEXIBLE
    return bytes(encode_response(response, version, correlation_id, flexible_header=flexible))
