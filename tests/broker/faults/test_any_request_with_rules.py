"""Whatever a request says, and whatever rules there are: never is it our bug.

Seeded as `test_any_request.py`.
"""

import os
from typing import Any

import pytest

from odradek.broker.faults.interceptor import interceptor_for
from odradek.broker.faults.rule import make_rule
from tests.broker.running import RunningBroker, on_broker
from tests.broker.test_any_request import SEED, SETTINGS, find_coordinators, say_all
from tests.fuzz.messages import TOPICS

COUNT = int(os.environ.get("ODRADEK_REQUESTS_COUNT", "1"))
RULES: tuple[dict[str, Any], ...] = (
    {"error": "UNKNOWN_SERVER_ERROR"},
    {"error": "NOT_LEADER_OR_FOLLOWER", "topic": "t"},
    {"error": "LEADER_NOT_AVAILABLE", "topic": "u", "partition": 1},
    {"error": "NOT_COORDINATOR", "group": "*"},
    {"error": "INVALID_PRODUCER_EPOCH", "transactional_id": "*"},
    {"error": "REQUEST_TIMED_OUT", "applied": True},
    {"error": "UNKNOWN_TOPIC_OR_PARTITION", "topic": "?", "applied": True},
    {"throttle_ms": 1},
    {"delay_s": 0.0001},
    {"drop_response": True},
    {"half_response": True},
    {"close": True},
)


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_any_request_with_rules(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.peer()
    ids = [(await client.create_topic(name, 2)).topic_id for name in TOPICS]
    await find_coordinators(client)
    interceptor = broker.node.interceptor = interceptor_for(broker.node.runtime)
    faults = [
        interceptor.faults.add(
            make_rule(**{"api": None, "error": None, "inter_broker": True, "probability": 0.3}
            | {"seed": SEED + number} | rule)
        )
        for number, rule in enumerate(RULES)
    ]  # fmt: skip
    await say_all(broker, client, ids, caplog, COUNT)
    assert all(fault.hits for fault in faults), [fault.nearest_miss for fault in faults]
    interceptor.faults.clear()
