import pytest

from odradek.protocol.framing import encode_response
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.frames import SIZE, answer_in, framed, response_class, size_bytes_in


def test_an_answer_is_the_one_to_its_request_and_nothing_more() -> None:
    kind = response_class(HeartbeatRequest)
    assert kind is HeartbeatResponse
    for version, flexible in ((3, False), (4, True)):
        answer = HeartbeatResponse(error_code=27)
        out = bytes(encode_response(answer, version, 7, flexible_header=flexible))
        frame = out[SIZE.size :]
        assert framed(frame) == out
        assert size_bytes_in(out[: SIZE.size]) == len(frame)
        assert answer_in(frame, kind, version, 7) == answer
        with pytest.raises(AssertionError, match="not the answer to this"):
            answer_in(frame, kind, version, 8)
        with pytest.raises(AssertionError, match="bytes after the answer"):
            answer_in(frame + b"\0", kind, version, 7)
