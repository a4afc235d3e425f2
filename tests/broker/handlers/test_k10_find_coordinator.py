import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.broker.running import RunningBroker, on_broker


@pytest.mark.parametrize(
    ("key_type", "code"),
    [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE), (1, ErrorCode.INVALID_REQUEST), (2, 42), (-1, 42)],
)
@on_broker(both=False)
async def test_there_is_none_yet(broker: RunningBroker, key_type: int, code: int) -> None:
    client = await broker.client()
    for version in (1, 3):
        answer = await client.ask(FindCoordinatorRequest(key="g", key_type=key_type), version)
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (code, -1, "", -1)
        assert answer.error_message
    for version in (4, 6):
        request = FindCoordinatorRequest(coordinator_keys=["g", "h"], key_type=key_type)
        answer = await client.ask(request, version)
        assert [(c.key, c.error_code, c.node_id) for c in answer.coordinators] == [
            ("g", code, -1),
            ("h", code, -1),
        ]
